"""Sessions from rows of `silver.arrivals`: each once, whatever the order of the rows."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from pipeline.calibration.session_traffic import commits_ns, find_commits, iter_sessions

START = datetime(2026, 11, 21, 9, tzinfo=UTC)
ARRAYS = {name: pa.list_(pa.int32()) for name in ("gap_ms", "body_bytes", "partition", "key_index")}


def make_rows():
    """Three sessions of two topics, two minutes each; a row's sizes tell whose it is."""
    rows = []
    for number, (topic, producer_id) in enumerate([("orders", 7), ("orders", 9), ("returns", 7)]):
        for minute in range(2):
            count = 3 + minute
            rows.append(
                {
                    "topic": topic, "topic_id": "", "producer_id": producer_id, "producer_epoch": 0,
                    "minute_start": START + timedelta(minutes=minute), "timestamp_type": "CreateTime", "part": 0,
                    "record_count": count, "unreadable_record_count": 0, "aborted_record_count": 1,
                    "outlier_record_count": 0, "late_record_count": 0, "sampling_rate": 1.0,
                    "gap_ms": [5] * count, "body_bytes": [10 * number + minute] * count, "partition": [number] * count,
                    "key_index": [-1] * count, "keys": [],
                }
            )  # fmt: skip  # fields of a value, several a line
    return rows


def as_table(rows):
    columns = {name: pa.array([row[name] for row in rows], ARRAYS.get(name)) for name in rows[0] if name != "keys"}
    return pa.table({**columns, "keys": pa.array([row["keys"] for row in rows], pa.list_(pa.int64()))})


@pytest.mark.parametrize("seed", range(5))
def test_each_session_comes_once_and_whole_in_any_order_of_rows(seed):
    rows = make_rows()
    order = np.arange(6) if seed == 0 else np.random.default_rng(seed).permutation(6)
    sessions = list(iter_sessions(as_table([rows[place] for place in order])))
    assert [(one.topic, one.producer_id) for one in sessions] == [("orders", 7), ("orders", 9), ("returns", 7)]
    for number, session in enumerate(sessions):
        assert session.elapsed_ms.tolist() == [5, 10, 15, 60_005, 60_010, 60_015, 60_020]
        assert session.body_bytes.tolist() == [10 * number] * 3 + [10 * number + 1] * 4
        assert session.aborted_record_count == 2


def make_batches(*batches):
    """Batches of producer 7 by partition, each a time in ms and whether it is a marker; and one of another producer's markers."""
    rows = [
        {"topic": "orders", "topic_id": "", "partition": partition, "base_offset": offset, "producer_id": 7,
         "max_timestamp": START + timedelta(milliseconds=at_ms), "is_control": is_marker}
        for offset, (partition, at_ms, is_marker) in enumerate(batches)
    ]  # fmt: skip
    rows.append(rows[0] | {"producer_id": 9, "is_control": True, "base_offset": 99})
    stamps = pa.timestamp("us", "UTC")
    return pa.table(
        {name: pa.array([row[name] for row in rows], stamps if name == "max_timestamp" else None) for name in rows[0]}
    )


def find_elapsed(rows, producer_id=7):
    return (find_commits(rows, producer_id) - int(START.timestamp() * 1000)).tolist()


def test_a_commit_is_where_its_last_record_in_any_partition_was_sent():
    rows = make_batches(
        (0, 10, False), (0, 50, True), (0, 60, False), (0, 130, True),
        (1, 40, False), (1, 53, True), (1, 120, False), (1, 133, True),
    )  # fmt: skip
    assert find_elapsed(rows) == [40, 120]
    assert find_elapsed(rows.take(pa.array(np.random.default_rng(1).permutation(rows.num_rows)))) == [40, 120]
    assert find_elapsed(rows, -1) == []
    assert find_elapsed(rows.filter(pa.array([not one for one in rows["is_control"].to_pylist()]))) == []


def test_a_slow_client_clock_changes_nothing_and_a_marker_without_records_says_nothing():
    """The log's order decides: this client's clock is ten minutes behind the brokers'. Partition 2 has a marker alone."""
    late = 600_000
    rows = make_batches(
        (0, 10, False), (0, late + 50, True), (0, 60, False), (0, late + 130, True),
        (1, 40, False), (1, late + 53, True), (2, late + 300, True),
    )  # fmt: skip
    assert find_elapsed(rows) == [40, 60]


def test_transactions_shorter_than_their_markers_are_apart_are_told_by_partition():
    """A marker comes every 10 ms for a second; a transaction has one in each partition."""
    batches = [(partition, at_ms + (5 if is_marker else 2 * partition), is_marker)
               for at_ms in range(0, 1_000, 10) for partition in (0, 1) for is_marker in (False, True)]  # fmt: skip
    assert find_elapsed(make_batches(*batches)) == [at_ms + 2 for at_ms in range(0, 1_000, 10)]


def test_a_commit_comes_once_the_millisecond_of_its_last_record_is_over():
    assert commits_ns(np.array([40, 120]), 10).tolist() == [31_000_000, 111_000_000]
