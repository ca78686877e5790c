"""Sessions from rows of `silver.arrivals`: each once, whatever the order of the rows."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from pipeline.calibration.session_traffic import iter_sessions

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
