"""Upkeep: files counted in the folder, rows compared before and after."""

import datetime as dt
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from pipeline.model.window import DAY_MS, TimeWindow
from pipeline.storage.files import list_data_files
from pipeline.storage.frames import arrow_schema, rows_of
from pipeline.storage.maintenance import Upkeep, drop_dates, drop_expired, maintain_tables
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import TABLES, Column
from pipeline.tables.bronze import CONSUMER_GROUPS, LOG_SEGMENTS
from pipeline.tables.keys import EXPIRING, KEY_ANSWERS, KEY_HASHES, KEY_TRAFFIC
from pipeline.tables.table import BY_DATE
from tests.loads_table import loads_table

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NOON_MS = round(NOON.timestamp() * 1000)


@pytest.fixture
def warehouse(tmp_path):
    """Four small files yesterday, four today."""
    ensure_tables(tmp_path, [CONSUMER_GROUPS])
    for days in (1, 0):
        for number in range(4):
            instant = NOON - dt.timedelta(days=days)
            row = {"cluster": "c", "group_id": f"g{number}", "topic": "t", "partition": 0}
            row |= {"window_start": instant, "observed_at": instant}
            rows = rows_of(CONSUMER_GROUPS, [row], run_id="r")
            write_deltalake(table_path(tmp_path, CONSUMER_GROUPS), rows, mode="append")
    return tmp_path


def test_closed_dates_become_one_file_and_the_rows_stay(warehouse):
    before = load_rows(warehouse, CONSUMER_GROUPS).sort_by([("observed_at", "ascending"), ("group_id", "ascending")])
    name = CONSUMER_GROUPS.name
    for before_count in (8, 5):
        upkeep = Upkeep(table=name, files_before_count=before_count, files_after_count=5, deleted_file_count=0)
        assert maintain_tables(warehouse, as_of_ms=NOON_MS) == (upkeep,)
    after = load_rows(warehouse, CONSUMER_GROUPS).sort_by([("observed_at", "ascending"), ("group_id", "ascending")])
    assert after.equals(before)
    yesterday = table_path(warehouse, CONSUMER_GROUPS) / "cluster=c" / "window_date=2026-11-20"
    assert len(list(yesterday.glob("*.parquet"))) == 5  # replaced files wait for the retention


def test_a_row_of_arrays_is_read_without_the_others(tmp_path):
    arrays = Column(name="arrays", type="array<bigint>", nullable=False, doc="Many a row.")
    table = loads_table(arrays)
    ensure_tables(tmp_path, [table])
    rng = np.random.default_rng(3)
    for start in (0, 6):
        row = {"cluster": "c", "window_start": NOON - dt.timedelta(days=1)}
        rows = [
            row | {"broker_id": start + broker, "arrays": rng.integers(0, 1 << 62, 1 << 17).tolist()}
            for broker in range(6)
        ]
        write_deltalake(table_path(tmp_path, table), rows_of(table, rows, run_id="r"), mode="append")
    maintain_tables(tmp_path, as_of_ms=NOON_MS, tables=[table])
    (path,) = list_data_files(tmp_path, table, "c", [TimeWindow(NOON_MS - DAY_MS, NOON_MS)])
    joined = pq.read_metadata(path)
    assert joined.num_rows == 12
    assert joined.num_row_groups >= 3


def test_old_files_of_no_version_go_and_young_ones_stay(warehouse):
    folder = table_path(warehouse, CONSUMER_GROUPS) / "cluster=c" / "window_date=2026-11-21"
    old, young = folder / "part-killed-long-ago.parquet", folder / "part-of-a-running-commit.parquet"
    for path in (old, young):
        path.write_bytes(b"x")
    os.utime(old, (NOON.timestamp() - 30 * 86400,) * 2)
    (upkeep,) = maintain_tables(warehouse, as_of_ms=NOON_MS)
    assert (upkeep.deleted_file_count, old.exists(), young.exists()) == (1, False, True)


def test_hashes_of_keys_are_dropped_after_their_retention(tmp_path):
    ensure_tables(tmp_path, (KEY_HASHES, KEY_ANSWERS))
    days = [dt.date(2026, 10, 20), dt.date(2026, 10, 21), dt.date(2026, 11, 20)]
    rows = [
        {"cluster": "lab", "window_date": day, "key_id": f"{i:032x}", "is_empty": False} for i, day in enumerate(days)
    ]
    arrow = pa.Table.from_pylist([{**row, "run_id": "r"} for row in rows], schema=arrow_schema(KEY_HASHES))
    insert_rows(arrow, tmp_path, KEY_HASHES)

    def drop():
        return [
            said for table in EXPIRING for said in drop_expired(tmp_path, table, as_of_ms=NOON_MS, kept_ms=31 * DAY_MS)
        ]

    assert drop() == ["silver.key_hashes: rows of 1 dates before 2026-10-21 dropped"]
    assert sorted(load_rows(tmp_path, KEY_HASHES)["window_date"].to_pylist()) == days[1:]
    assert drop() == []


def test_only_its_owner_may_open_a_table_that_tells_keys(tmp_path):
    ensure_tables(tmp_path, (KEY_HASHES, KEY_TRAFFIC))
    assert table_path(tmp_path, KEY_HASHES).stat().st_mode & 0o077 == 0
    assert table_path(tmp_path, KEY_TRAFFIC).stat().st_mode & 0o070


def test_rows_are_dropped_after_the_retention_of_their_table(warehouse):
    def keep(days):
        return drop_expired(warehouse, CONSUMER_GROUPS, as_of_ms=NOON_MS, kept_ms=days * DAY_MS)

    assert keep(days=1) == ()
    assert keep(days=0) == ("bronze.consumer_groups: rows of 1 dates before 2026-11-21 dropped",)
    assert set(load_rows(warehouse, CONSUMER_GROUPS)["window_date"].to_pylist()) == {NOON.date()}


def test_rows_of_segments_that_nobody_read_go_with_those_that_were_read(tmp_path):
    """Two of three replicas' files have no date, and stayed for good."""
    ensure_tables(tmp_path, (LOG_SEGMENTS,))
    zeros = {"bigint": 0, "string": "", "boolean": False}
    row = {column.name: zeros.get(column.type) for column in LOG_SEGMENTS.columns} | {"cluster": "c", "topic": "a"}
    old, young = NOON - dt.timedelta(days=40), NOON - dt.timedelta(days=1)
    rows = [
        row | {"broker_id": broker, "base_offset": offset, "is_active": is_active, "max_timestamp": at}
        for broker, offset, is_active, at in (
            (1, 0, False, old),
            (1, 100, False, young),
            (1, 200, True, young),
            (2, 0, False, None),
            (2, 50, False, None),  # rolled elsewhere: before all that is left
            (2, 100, False, None),
            (2, 200, True, None),
        )
    ]
    insert_rows(rows_of(LOG_SEGMENTS, rows, run_id="r"), tmp_path, LOG_SEGMENTS)

    def drop():
        return drop_expired(tmp_path, LOG_SEGMENTS, as_of_ms=NOON_MS, kept_ms=31 * DAY_MS)

    assert drop()[1:] == ("bronze.log_segments: 2 rows without a date dropped, of files before all that have one",)
    left = load_rows(tmp_path, LOG_SEGMENTS).select(["broker_id", "base_offset"]).to_pylist()
    assert {tuple(one.values()) for one in left} == {(1, 100), (1, 200), (2, 100), (2, 200)}
    assert drop() == ()


def test_every_table_says_how_old_its_rows_are():
    assert {table.dated_by for table in TABLES if table.partitioned_by == BY_DATE} == {"window_date"}
    assert {table.dated_by for table in TABLES if table.partitioned_by != BY_DATE} == {
        "window_start",
        "max_timestamp",
        "first_seen_at",
    }


def test_maintenance_leaves_a_checkpoint_and_drops_commits_older_than_a_week(warehouse):
    log = table_path(warehouse, CONSUMER_GROUPS) / "_delta_log"
    maintain_tables(warehouse, as_of_ms=NOON_MS)
    assert (log / f"{9:020d}.checkpoint.parquet").exists()
    for old in log.glob("0*"):
        os.utime(old, (NOON.timestamp() - 30 * 86400,) * 2)
    maintain_tables(warehouse, as_of_ms=NOON_MS + DAY_MS)  # joins the files of today, which is a commit
    assert {path.name for path in log.glob("*.json")} == {f"{10:020d}.json"}
    assert load_rows(warehouse, CONSUMER_GROUPS).num_rows == 8


def test_to_drop_rows_takes_no_memory_of_all_that_are_stored(tmp_path):
    """As where retention is switched on after a year."""
    row = {"cluster": "c", "window_date": dt.date(2026, 1, 1), "key_id": "k", "is_empty": False, "run_id": "r"}
    rows = pa.Table.from_pylist([row], schema=arrow_schema(KEY_HASHES)).take(pa.array(np.zeros(4_000_000, np.int64)))
    ensure_tables(tmp_path, [KEY_HASHES])
    write_deltalake(table_path(tmp_path, KEY_HASHES), rows, mode="append")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
    before_kib = _read_peak_kib()
    assert drop_dates(tmp_path, KEY_HASHES, "2026-02-01") == 1
    assert _read_peak_kib() - before_kib < 8_000


def _read_peak_kib():
    """The most memory that this process had; Linux only."""
    (peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1])
