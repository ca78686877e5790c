"""A warehouse that version 0.1.0 left, opened and continued; `tests/data/README.md` says how it was made."""

import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.cli import main
from pipeline.errors import StorageError
from pipeline.storage.rows import load_rows
from pipeline.tables import TABLES
from pipeline.tables.health import RECOMMENDATIONS
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


@pytest.mark.parametrize("words", [["report"], ["what-if", "--lose-broker", "1"]], ids=lambda words: words[0])
def test_who_only_looks_reads_it_before_any_run(capture, tmp_path, capsys, words):
    unpack(ARCHIVE, tmp_path / "unpacked").rename(tmp_path / "warehouse")
    capture.write_config(tmp_path, sources=SOURCES)
    assert main([*words, "--config", str(tmp_path / "partition-health.yaml")]) == 0, capsys.readouterr().err


def test_nobody_is_told_to_move_away_a_table_of_an_older_version(tmp_path):
    warehouse = unpack(ARCHIVE, tmp_path / "unpacked")
    with pytest.raises(StorageError, match=r"No field named is_replayed.*nothing is damaged.*run the newest window"):
        load_rows(warehouse, RECOMMENDATIONS)
