"""The tables of keys over the committed capture.

Oracles: kafka-python, which reads every record of the leaders' logs (those in lz4 and Snappy: our plain decoder); `hashlib` for ids; the plain reference of every hash;
and a search of all that the run left for the keys themselves.
"""

import base64
import hashlib
import re
from collections import Counter

import pytest

from pipeline.model.window import milliseconds_of
from pipeline.partitioners.hashes import HashName
from tests.kafka_python import MemoryRecords
from tests.key_search import make_pattern, search_files, search_tables
from tests.oracles.hashes import hash_key
from tests.scans import list_keys, scan_records
from tests.spark.capture_runs import SECRET, stored
from tests.spark.conftest import CLEAR_TOPIC, STRATEGY
from tests.spark.key_strategies import by_number

HASHES = {
    "murmur2": HashName.MURMUR2,
    "crc32": HashName.CRC32,
    "fnv1a": HashName.FNV1A,
    "murmur3": HashName.MURMUR3,
    "java_string": HashName.JAVA_STRING,
    "kafkajs_legacy": HashName.KAFKAJS_MURMUR2,
}


def key_id(topic, key):
    person = b"clear" if topic == CLEAR_TOPIC else b""
    return hashlib.blake2b(key, digest_size=16, key=bytes.fromhex(SECRET), person=person).hexdigest()


def read_keys(log):
    """(max timestamp of the batch, key) of every data record of a segment."""
    if log.parent.name.startswith(("codec-lz4", "codec-snappy")):  # kafka-python has no such codec here
        scan = scan_records(log)
        stamps = scan.headers.max_timestamp_ms[scan.batch_index].tolist()
        keys = list_keys(scan)
        yield from ((stamps[i], keys[i]) for i in range(len(scan)) if not scan.is_control[i])
        return
    records = MemoryRecords(log.read_bytes())
    while records.has_next():
        batch = records.next_batch()
        if not batch.is_control_batch:
            yield from ((batch.max_timestamp, record.key) for record in batch)


@pytest.fixture(scope="module")
def keyed_topics(manifest):
    return sorted(producer["topic"] for producer in manifest["producers"] if producer["keys"])


@pytest.fixture(scope="module")
def expected(capture, capture_folder, manifest, keyed_topics):
    """Records by topic, partition, minute and key."""
    return Counter(
        (topic, partition, capture.minute_of(timestamp_ms), key)
        for topic in keyed_topics
        for partition, (leader, *_) in enumerate(manifest["topics"][topic])
        for log in (capture_folder / f"brokers/{leader}/{topic}-{partition}").glob("*.log")
        for timestamp_ms, key in read_keys(log)
    )


def test_every_keyed_record_is_counted(capture, ingested, expected, keyed_topics):
    found = {
        (row["topic"], row["partition"], capture.minute_of(milliseconds_of(row["window_start"])), row["key_id"]): row
        for row in stored(ingested.warehouse, "silver.key_traffic")
        if row["kind"] == "key"
    }
    assert {place: row["record_count"] for place, row in found.items()} == {
        (topic, partition, minute, key_id(topic, key)): count
        for (topic, partition, minute, key), count in expected.items()
    }
    assert {(row["count_error"], row["size_error_bytes"]) for row in found.values()} == {(0, 0)}
    assert {topic for topic, *_ in found} == set(keyed_topics)


PLACE = ("topic", "partition", "window_start")


def test_the_kinds_make_up_all_records_and_bytes(ingested):
    """Oracle: the batches' headers; uncompressed, a batch is its header of 61 bytes and its records."""
    counted, batches = Counter(), Counter()
    for row in stored(ingested.warehouse, "silver.key_traffic", *PLACE, "record_count", "size_bytes"):
        place = tuple(row[name] for name in PLACE)
        counted[place, "records"] += row["record_count"]
        counted[place, "bytes"] += 0 if row["topic"].startswith("codec-") else row["size_bytes"]
    columns = ("is_control", "record_count", "size_bytes", "codec")
    for row in stored(ingested.warehouse, "silver.record_batches", *PLACE, *columns):
        if not row["is_control"]:
            place = tuple(row[name] for name in PLACE)
            batches[place, "records"] += row["record_count"]
            batches[place, "bytes"] += row["size_bytes"] - 61 if row["codec"] == "none" else 0
    assert +counted == +batches
    report = next(report for report in ingested.gate_reports if report.suite == "key_traffic_gate")
    assert [check.name for check in report.checks if not check.success] == []


def test_each_key_has_its_hashes(ingested, expected):
    keys = {key_id(topic, key): (topic, key) for topic, _, _, key in expected}
    rows = {row["key_id"]: row for row in stored(ingested.warehouse, "silver.key_hashes")}
    assert rows.keys() == keys.keys()
    for name, (topic, key) in keys.items():
        row = rows[name]
        assert {column: row[column] for column in HASHES} == {c: hash_key(h, key) for c, h in HASHES.items()}
        assert (row["is_empty"], row["clear_key"]) == (False, key if topic == CLEAR_TOPIC else None)


def test_a_users_strategy_answered_about_every_key(ingested, expected, manifest):
    counts = {topic: {len(manifest["topics"][topic]), 7} for topic, *_ in expected}
    keys = {
        (key_id(topic, key), count): by_number(key, count) for topic, _, _, key in expected for count in counts[topic]
    }
    rows = stored(ingested.warehouse, "silver.key_answers")
    found = {(row["key_id"], row["partition_count"]): row["chosen_partition"] for row in rows}
    assert {place: found[place] for place in keys} == keys  # asked for the candidates' partition counts, too
    assert {(row["strategy"], len(row["strategy_version"])) for row in rows} == {(STRATEGY, 16)}


def test_no_clear_key_is_found_outside_the_allow_list(ingested, manifest):
    pattern = make_pattern({p["keys"].split(":")[0].encode() for p in manifest["producers"] if p["keys"]})
    held = search_tables(ingested.warehouse, pattern)
    assert held.keys() == {("silver.key_hashes", "clear_key")}
    assert all(key.startswith(b"region-") for key in held["silver.key_hashes", "clear_key"])
    folder = ingested.config.warehouse.parent
    assert search_files(folder, pattern, leave_out=[folder / "capture", folder / "warehouse/silver/key_hashes"]) == {}
    secret = re.compile(f"(?i:{SECRET})".encode() + b"|" + re.escape(bytes.fromhex(SECRET)))
    assert search_files(folder, secret, leave_out=[folder / "capture", ingested.config.keys.secret]) == {}


@pytest.mark.parametrize("write", [str, lambda key: key.encode().hex(), lambda key: key.encode().hex().upper()])
def test_the_search_finds_what_it_looks_for(write, tmp_path):
    pattern = make_pattern({b"user-", b"region-"})
    (tmp_path / "log").write_text(f"what: {write('region-17')}!")
    assert list(search_files(tmp_path, pattern)) == ["log"]


@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_the_search_finds_base64_wherever_the_key_begins(before, tmp_path):
    (tmp_path / "log").write_bytes(base64.b64encode(f"{before}device-17".encode()))
    assert list(search_files(tmp_path, make_pattern({b"device-"}))) == ["log"]
