"""Rows of a window, read from files by tasks: the same whether the window is read once or for each session."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.storage.files import read_window_rows

START = datetime(2026, 11, 21, 9, 37, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
LATER = START + timedelta(minutes=1)
LOCAL = Path()
ROWS = [(START, 1, 10), (LATER, 1, 11), (START, 2, 12), (START, None, 13), (START, 1, 14), (LATER, 3, 15)]


@pytest.fixture(params=["UTC", None])
def paths(request, tmp_path):
    """Two files, as delta-rs and as Spark write instants; row groups of two rows."""
    schema = pa.schema(
        [("window_start", pa.timestamp("us", request.param)), ("producer_id", pa.int64()), ("value", pa.int64())]
    )
    found = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    for path, rows in zip(found, (ROWS[:4], ROWS[4:]), strict=True):
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        columns[0] = columns[0].cast(pa.timestamp("us", "UTC")).cast(schema.field(0).type)
        pq.write_table(pa.table(columns, schema=schema), path, row_group_size=2)
    return [str(path) for path in found]


@pytest.mark.parametrize("most_bytes", [0, 1 << 20], ids=["each time", "once"])
@pytest.mark.parametrize(
    ("start_ms", "within", "values"),
    [
        (START_MS, {}, [10, 12, 13, 14]),
        (START_MS, {"producer_id": [1]}, [10, 14]),
        (START_MS, {"producer_id": {2, 7}}, [12]),
        (START_MS, {"producer_id": []}, []),
        (START_MS + 60_000, {"producer_id": [1, 3]}, [11, 15]),
        (START_MS - 60_000, {}, []),
    ],
)
def test_rows_of_a_window(paths, start_ms, within, values, most_bytes):
    for _ in range(2):
        found = read_window_rows(LOCAL, paths, ("value", "producer_id"), start_ms, within, most_bytes=most_bytes)
        assert found.column_names == ["value", "producer_id"]
        assert found["value"].to_pylist() == values
