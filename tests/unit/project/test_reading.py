"""What the document about reading from outside shows works: its blocks run as they stand there, one after the other."""

import re
from datetime import UTC, datetime
from pathlib import Path

import matplotlib as mpl
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipeline.storage.frames import arrow_schema
from pipeline.tables import TABLES

PAPER = (Path(__file__).parents[3] / "docs" / "READING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAPER, re.DOTALL)
HOURS = [datetime(2026, 11, 21, hour, tzinfo=UTC) for hour in (9, 10, 11)]
SHARES = [0.9, 1.2, 1.8]


@pytest.fixture
def warehouse(tmp_path):
    """Three hours of two brokers, of which the gate passed over the first two."""
    shares = [
        {"window_start": hour, "broker_id": broker, "share_ratio": ratio if broker == 0 else 2 - ratio}
        for hour, ratio in zip(HOURS, SHARES, strict=True)
        for broker in (0, 1)
    ]
    status = [
        {"window_start": hour, "source": source, "is_trusted": hour != HOURS[2] or None}
        for hour in HOURS
        for source in ("live_cluster", "prometheus")
    ]
    for name, rows in (("gold.broker_share", shares), ("bronze.window_status", status)):
        table = next(table for table in TABLES if table.name == name)
        schema = pa.schema([field.with_nullable(True) for field in arrow_schema(table)])
        found = pa.Table.from_pylist([{"cluster": "prod"} | row for row in rows], schema)
        write_deltalake(tmp_path / "read" / name.replace(".", "/"), found)
    return tmp_path / "read"


def test_every_block_of_python_runs(warehouse):
    mpl.use("agg")
    told = {"warehouse": str(warehouse)}
    for block in BLOCKS:
        exec(block, told)
    assert len(told["shares"]) == 6
    assert told["hottest"]["share_ratio"].to_list() == [1.8]
    assert dict(told["means"].itertuples(index=False)) == pytest.approx({0: 1.3, 1: 0.7})
    assert len(told["lines"]) == 2
    assert sorted(told["trusted_shares"].share_ratio[::2]) == [0.9, 1.2]
    assert len(told["trusted_shares"]) == 4
