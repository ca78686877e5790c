"""A warehouse that version 0.1.0 left, opened and continued; `tests/data/README.md` says how it was made."""

import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.storage.rows import load_rows
from pipeline.tables import TABLES
from tests.engines import sail
from tests.lab.archive import unpack
from tests.spark.capture_runs import plan, run_all, stored

ARCHIVE = Path(__file__).parents[1] / "data/warehouse-0.1.0.tar.zst"
TOPICS = ("orders", "devices", "ledger")
SCRAPES = ("producers/orders", "brokers/0", "brokers/1", "brokers/2")
SOURCES = ("log_directories", "topics_describe", "producer_metrics", "broker_metrics")
NEXT_MINUTE = 7
"""Of the capture: minutes 3 to 6 are in the warehouse; broker 1 is slow from 4 to 7."""


def read_with_delta_rs(warehouse):
    """Table -> (columns, rows as a multiset of JSON), by no code of the product."""
    found = {}
    for log in sorted(warehouse.glob("*/*/_delta_log")):
        rows = DeltaTable(log.parent).to_pyarrow_table()
        texts = Counter(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())
        found[f"{log.parent.parent.name}.{log.parent.name}"] = (rows.column_names, texts)
    return found


@pytest.fixture(scope="module")
def continued(capture, tmp_path_factory):
    """What lay in the warehouse of 0.1.0, and the run of the next window into it."""
    folder = tmp_path_factory.mktemp("continued")
    unpack(ARCHIVE, folder / "unpacked").rename(folder / "warehouse")
    before = read_with_delta_rs(folder / "warehouse")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    config = part.write_config(folder, sources=SOURCES)
    return before, run_all(sail(), plan(config, capture.span(NEXT_MINUTE, NEXT_MINUTE + 1)), with_replay=True)


def test_every_table_is_declared_still_with_its_columns(continued):
    before, _ = continued
    declared = {table.name: {column.name for column in table.columns} for table in TABLES}
    assert len(before) > 25
    for name, (columns, _) in before.items():
        assert set(columns) <= declared[name], name


def test_no_row_is_lost_or_changed(continued):
    before, ran = continued
    for table in TABLES:
        if table.name in before:
            columns, rows = before[table.name]
            kept = load_rows(ran.warehouse, table).select(columns).to_pylist()
            now = Counter(json.dumps(row, default=str, sort_keys=True) for row in kept)
            assert not rows - now, table.name


def test_the_incident_goes_on(continued, capture):
    _, ran = continued
    rows = stored(ran.warehouse, "gold.incidents")
    assert len({row["incident_id"] for row in rows}) == 1
    assert [row["state"] for row in sorted(rows, key=lambda row: row["window_start"])] == ["new"]
    assert ran.deliveries == ()


def test_the_next_window_is_judged_with_the_windows_before(continued):
    _, ran = continued
    shares = Counter(row["window_start"].minute for row in stored(ran.warehouse, "gold.broker_share"))
    assert shares == dict.fromkeys(range(40, 45), 3)
