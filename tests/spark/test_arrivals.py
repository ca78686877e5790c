"""Recorded arrivals of the committed capture.

Oracles: kafka-python, which reads every record of the leaders' logs; what the producers said they sent, committed and
aborted; the batches' own counts (in the gate).
"""

import struct
from collections import Counter

import pytest
from deltalake import DeltaTable

from pipeline.calibration.session_traffic import NO_KEY, iter_sessions
from pipeline.codec.records.key_ids import KeySecret, make_key_ids, number_of_id
from pipeline.simulator.engine.batches import measure_body_bytes
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.silver import ARRIVALS
from tests.kafka_python import MemoryRecords
from tests.spark.capture_runs import SECRET, stored
from tests.spark.conftest import CLEAR_TOPIC

MOST_BYTES_PER_RECORD = 6
TOPICS = (CLEAR_TOPIC, "audit", "ledger", "devices")


@pytest.fixture(scope="module")
def arrivals(ingested):
    return load_rows(ingested.warehouse, ARRIVALS)


def read_log(log, topic):
    """Session, time, bytes and key number of every data record, by kafka-python."""
    secret = KeySecret(bytes.fromhex(SECRET))
    records = MemoryRecords(log.read_bytes())
    while records.has_next():
        batch = records.next_batch()
        if batch.is_control_batch:
            continue
        epoch = -1 if batch.is_transactional else batch.producer_epoch
        for record in batch:
            lengths = (-1 if part is None else len(part) for part in (record.key, record.value))
            number = 0
            if record.key is not None:
                number = number_of_id(*make_key_ids(secret, [record.key], is_clear=topic == CLEAR_TOPIC))
            assert not record.headers
            yield batch.producer_id, epoch, record.timestamp, measure_body_bytes(*lengths), number


@pytest.mark.parametrize("topic", TOPICS)
def test_every_record_is_there_with_its_session_time_size_key_and_partition(topic, arrivals, capture_folder, manifest):
    expected = Counter(
        (partition, *record)
        for partition, (leader, *_) in enumerate(manifest["topics"][topic])
        for log in (capture_folder / f"brokers/{leader}/{topic}-{partition}").glob("*.log")
        for record in read_log(log, topic)
    )
    found = Counter()
    windows = sorted(set(arrivals["window_start"].to_pylist()))
    for window in windows:
        rows = arrivals.filter([start == window for start in arrivals["window_start"].to_pylist()])
        for session in iter_sessions(rows):
            if session.topic != topic:
                continue
            numbers = [0 if index == NO_KEY else int(session.keys[index]) for index in session.key_index]
            columns = (session.partition.tolist(), session.at_ms.tolist(), session.body_bytes.tolist(), numbers)
            names = (session.producer_id, session.producer_epoch)
            found.update((p, *names, at_ms, size, number) for p, at_ms, size, number in zip(*columns, strict=True))
    assert found == expected


def count_aborted(log):
    """Records before each abort marker of their producer, by kafka-python."""
    aborted, waiting = 0, Counter()
    records = MemoryRecords(log.read_bytes())
    while records.has_next():
        batch = records.next_batch()
        if not batch.is_control_batch:
            waiting[batch.producer_id] += len(list(batch)) if batch.is_transactional else 0
            continue
        (marker,) = batch
        _, kind = struct.unpack(">hh", marker.key)
        aborted += waiting.pop(batch.producer_id, 0) * (kind == 0)
    return aborted


def test_records_of_aborted_transactions_are_in_and_marked(arrivals, capture_folder, manifest):
    marked = Counter()
    for row in arrivals.select(["topic", "aborted_record_count"]).to_pylist():
        marked[row["topic"]] += row["aborted_record_count"]
    expected = {
        topic: sum(
            count_aborted(log)
            for partition, (leader, *_) in enumerate(manifest["topics"][topic])
            for log in (capture_folder / f"brokers/{leader}/{topic}-{partition}").glob("*.log")
        )
        for topic in manifest["transactions"]
    }
    assert +marked == expected
    assert all(expected.values())


def test_they_take_a_few_bytes_a_record(ingested, arrivals):
    files = DeltaTable(table_path(ingested.warehouse, ARRIVALS)).get_add_actions(flatten=True)
    size_bytes = sum(files.column("size_bytes").to_pylist())
    assert size_bytes < MOST_BYTES_PER_RECORD * sum(arrivals["record_count"].to_pylist())


def test_the_gate_found_every_record_of_the_batches(ingested):
    report = next(report for report in ingested.gate_reports if report.suite == "arrivals_gate")
    assert [check.name for check in report.checks if not check.success] == []
    kinds = {(row["count_kind"], row["sampling_rate"]) for row in stored(ingested.warehouse, "silver.arrivals")}
    assert kinds == {("exact", 1.0)}
