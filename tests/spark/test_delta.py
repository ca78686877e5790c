"""Windows replaced, rows merged, tables extended: each against the rows one expects by hand."""

import contextlib
import datetime as dt
import os
import re
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from pipeline.errors import StorageConflictError, StorageError, TableMismatchError
from pipeline.model.window import TimeWindow
from pipeline.stages import map_tasks
from pipeline.storage import data_files
from pipeline.storage.catalog import register_copies, register_tables
from pipeline.storage.data_files import append_files, insert_missing, merge_frame, replace_windows
from pipeline.storage.files import Scope, list_data_files
from pipeline.storage.frames import ROW_GROUP_BYTES, arrow_schema, fit_rows
from pipeline.storage.maintenance import maintain_tables
from pipeline.storage.rows import compare_added, insert_rows, load_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables import TABLES, Column, Table
from pipeline.tables.arrow_types import format_sql_schema
from tests.engines import on_sail
from tests.loads_table import loads_table

MINUTE_MS = 60_000
LOADS = loads_table(Column(name="size_bytes", type="bigint", nullable=False, unit="bytes", doc="Load."))


def windows(*minutes):
    return [TimeWindow(minute * MINUTE_MS, (minute + 1) * MINUTE_MS) for minute in minutes]


def rows_of(*rows, cluster="c", run_id="a"):
    """Rows of (minute, broker, bytes), with narrower integers than declared."""
    instant = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    columns = [[instant + dt.timedelta(minutes=row[0]) for row in rows], [r[1] for r in rows], [r[2] for r in rows]]
    types = [pa.timestamp("us", "UTC"), pa.int32(), pa.int32()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    table = pa.table(arrays, names=["window_start", "broker_id", "size_bytes"])
    return fit_rows(table, LOADS, cluster=cluster, run_id=run_id)


def by_delta_rs(spark, rows, warehouse, *, cluster="c", windows, table=LOADS):
    return replace_rows(rows, warehouse, table, cluster=cluster, windows=windows)


def by_spark(spark, rows, warehouse, *, cluster="c", windows, table=LOADS):
    frame = spark.createDataFrame(rows, format_sql_schema(rows.schema))
    return replace_windows(spark, frame, warehouse, table, Scope.of(cluster, windows))


def by_sail(_, rows, warehouse, *, cluster="c", windows, table=LOADS):
    with on_sail() as sail:
        return by_spark(sail, rows, warehouse, cluster=cluster, windows=windows, table=table)


every = pytest.mark.parametrize("write", [by_delta_rs, by_spark, by_sail])
ARRAYS = replace(
    loads_table(LOADS.columns[-2], Column(name="arrays", type="array<bigint>", nullable=False, doc="Many a row.")),
    name="silver.arrays",
)
"""As `silver.arrivals`: few rows, each of half a row group."""


def stored(spark, warehouse, cluster="c"):
    rows = spark.read.format("delta").load(str(table_path(warehouse, LOADS))).where(f"cluster = '{cluster}'")
    rows = rows.selectExpr("unix_millis(window_start) div 60000 AS minute", "broker_id", "size_bytes").collect()
    found = sorted(tuple(row) for row in rows)
    plain = load_rows(warehouse, LOADS, cluster=cluster.replace("\\'", "'")).to_pylist()
    assert found == sorted((row["window_start"].minute, row["broker_id"], row["size_bytes"]) for row in plain)
    return found


@pytest.fixture(scope="module")
def spark(classic):
    """Names of tables, and Delta's own reader, are those of classic Spark."""
    return classic


@pytest.fixture
def warehouse(tmp_path):
    ensure_tables(tmp_path, [LOADS])
    return tmp_path


@every
def test_a_window_is_replaced_and_the_others_stay(spark, warehouse, write):
    rows = rows_of((0, 1, 10), (0, 2, 20), (1, 1, 11))
    assert write(spark, rows, warehouse, windows=windows(0, 1)) == 1
    write(spark, rows_of((0, 1, 99), run_id="b"), warehouse, windows=windows(0))
    assert stored(spark, warehouse) == [(0, 1, 99), (1, 1, 11)]


@every
def test_a_row_of_arrays_is_read_without_the_others(spark, tmp_path, write):
    ensure_tables(tmp_path, [ARRAYS])
    rng = np.random.default_rng(3)
    arrays = pa.array([rng.integers(0, 1 << 62, ROW_GROUP_BYTES // 16) for _ in range(12)], pa.list_(pa.int64()))
    rows = rows_of(*((0, broker, 1) for broker in range(12))).append_column("arrays", arrays)
    write(spark, rows.select(ARRAYS.column_names), tmp_path, windows=windows(0), table=ARRAYS)
    files = map(pq.read_metadata, list_data_files(tmp_path, ARRAYS, "c", windows(0)))
    groups = [file.row_group(number).num_rows for file in files for number in range(file.num_row_groups)]
    assert sum(groups) == 12
    assert max(groups) <= 3


@pytest.mark.parametrize("name", ["prod eu", "ü/b", "a:b%20c", "a=b&c", "x'y", "名"])
@pytest.mark.parametrize("maintain", [False, True])
def test_no_name_of_a_cluster_has_replaced_rows_counted_too(warehouse, name, maintain):
    """As tasks replace what delta-rs wrote, as the nightly compaction does: by such names its files stayed beside the new ones."""
    by_delta_rs(None, rows_of((0, 1, 10), (1, 1, 11), cluster=name), warehouse, cluster=name, windows=windows(0, 1))
    if maintain:
        by_delta_rs(None, rows_of((2, 1, 12), cluster=name), warehouse, cluster=name, windows=windows(2))
        maintain_tables(warehouse, as_of_ms=86_400_000, tables=(LOADS,))
    by_sail(None, rows_of((0, 1, 9), cluster=name), warehouse, cluster=name, windows=windows(0))
    rows = load_rows(warehouse, LOADS, cluster=name).sort_by("window_start")
    assert rows["size_bytes"].to_pylist() == [9, 11, 12][: 2 + maintain]


@pytest.mark.parametrize("write", [by_delta_rs, by_sail])
def test_files_that_no_commit_can_take_out_of_the_log_are_refused(spark, warehouse, write):
    """Spark names them by the cluster's name as it is: who replaced a window had its old rows, too."""
    by_delta_rs(None, rows_of((0, 1, 10), cluster="名"), warehouse, cluster="名", windows=windows(0))
    spark.sql(f"UPDATE delta.`{table_path(warehouse, LOADS)}` SET size_bytes = 11")
    with pytest.raises(StorageError, match=r"cluster=名/.*counted twice; have that program delete"):
        write(spark, rows_of((0, 1, 9), cluster="名"), warehouse, cluster="名", windows=windows(0))


def test_an_old_file_that_nothing_replaces_stays_for_those_who_read_it(warehouse):
    """It counted as replaced when it was written: the next vacuum took it from under its readers."""
    by_sail(None, rows_of((0, 1, 10)), warehouse, windows=windows(0))
    folder, ago_s = table_path(warehouse, LOADS), time.time() - 8 * 86_400
    (file,), commit = folder.rglob("*.parquet"), max((folder / "_delta_log").glob("*.json"))
    os.utime(file, (ago_s, ago_s))
    aged = re.sub(r'"modificationTime":\d+', f'"modificationTime":{round(1000 * ago_s)}', commit.read_text())
    commit.write_text(aged)
    by_sail(None, rows_of(), warehouse, windows=windows(0))
    assert DeltaTable(folder).file_uris() == []
    assert DeltaTable(folder).vacuum(168, full=True) == []


@every
def test_another_cluster_keeps_its_rows(spark, warehouse, write):
    for cluster in ("c", "o'hara"):
        write(spark, rows_of((0, 1, 10), cluster=cluster), warehouse, cluster=cluster, windows=windows(0))
    write(spark, rows_of(cluster="o'hara"), warehouse, cluster="o'hara", windows=windows(0))
    assert (stored(spark, warehouse), stored(spark, warehouse, "o\\'hara")) == ([(0, 1, 10)], [])


@every
def test_rows_outside_the_windows_are_refused_and_nothing_is_written(spark, warehouse, write):
    with pytest.raises(TableMismatchError, match="a row lies outside"):
        write(spark, rows_of((5, 1, 10)), warehouse, windows=windows(0))
    assert stored(spark, warehouse) == []


def test_rows_that_do_not_fit_are_refused_naming_every_column():
    starts = pa.array([], pa.timestamp("us", "UTC"))
    others = {"broker_id": pa.array([], pa.string()), "extra": pa.array([], pa.int64())}
    wrong = pa.table({"window_start": starts, **others})
    with pytest.raises(TableMismatchError) as refused:
        fit_rows(wrong, LOADS, cluster="c", run_id="a")
    for part in ("unknown column extra", "broker_id is string, declared as int64", "size_bytes is missing"):
        assert part in str(refused.value)


def test_a_merge_that_changes_nothing_makes_no_commit(spark, warehouse):
    table = Table(name=LOADS.name, grain="", key=LOADS.key, columns=LOADS.columns, write_mode="merge")
    versions = [insert_rows(rows_of((0, 1, 10), (0, 2, 20), run_id=run_id), warehouse, table) for run_id in ("a", "b")]
    versions.append(insert_rows(rows_of((0, 2, 21), (0, 3, 30), run_id="c"), warehouse, table))
    assert versions == [1, 1, 2]
    assert stored(spark, warehouse) == [(0, 1, 10), (0, 2, 20), (0, 3, 30)]
    with pytest.raises(TableMismatchError, match="two rows of one key"):
        insert_rows(rows_of((0, 1, 1), (0, 1, 2), run_id="d"), warehouse, table)


def test_every_declared_table_answers_by_its_name(spark, tmp_path):
    ensure_tables(tmp_path)
    assert register_tables(spark, tmp_path) == tuple(table.name for table in TABLES)
    for table in TABLES:
        assert tuple(spark.table(table.name).columns) == table.column_names


def test_copies_answer_as_their_tables(spark, tmp_path):
    """Every type of column, missing values among them."""
    known = {
        "bigint": [1, None],
        "int": [1, None],
        "double": [0.1, float("inf")],
        "string": ["o'hara", None],
        "boolean": [True, None],
        "binary": [b"\x00\xff", None],
        "timestamp": [dt.datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=dt.UTC), None],
        "date": [dt.date(2026, 11, 22), None],
        "array<bigint>": [[1, None], []],
        "map<string,string>": [{"a": "b", "c": None}, None],
    }
    columns = tuple(Column(name=f"c{number}", type=kind, doc="") for number, kind in enumerate(known))
    table = Table(name="silver.kinds", grain="", key=("c3",), columns=columns, partitioned_by=("c3",))
    ensure_tables(tmp_path, [table])
    schema = arrow_schema(table)
    arrays = [pa.array(values, field.type) for values, field in zip(known.values(), schema, strict=True)]
    write_deltalake(tmp_path / "silver/kinds", pa.table(arrays, schema=schema), mode="append")
    (tmp_path / "copies").mkdir()

    def ask():
        return spark.sql("SELECT * FROM silver.kinds ORDER BY c0").toArrow(), spark.table("silver.kinds").dtypes

    register_tables(spark, tmp_path, [table])
    stored = ask()
    register_copies(spark, tmp_path, [table], tmp_path / "copies")
    assert ask() == stored
    assert stored[0].num_rows == 2
    assert [kind.replace(", ", ",") for _, kind in stored[1]] == list(known)


DATED = replace(
    loads_table(LOADS.columns[-2]), name="silver.dated", key=("cluster", "window_date", "broker_id"), write_mode="merge"
)


@pytest.mark.parametrize("is_classic", [True, False])
def test_rows_whose_key_is_stored_are_not_added_again(classic, tmp_path, is_classic):
    ensure_tables(tmp_path, [DATED])
    engine = contextlib.nullcontext(classic) if is_classic else on_sail()

    def insert(*rows, run_id):
        frame = session.createDataFrame(rows_of(*rows, run_id=run_id).select(DATED.column_names))
        return insert_missing(session, frame, tmp_path, DATED, Scope.of("c", windows(0, 1)), run_id=run_id)

    with engine as session:
        versions = [insert((0, 1, 10), (0, 2, 20), run_id="a"), insert((0, 2, 21), (0, 3, 30), run_id="b")]
        versions.append(insert((0, 3, 31), run_id="c"))
        assert compare_added(tmp_path, DATED, ("c", "c"), windows(0, 1), versions[-1]) is None
        versions.append(insert((0, 4, 40), run_id="a"))  # a run's second try finds one more
    found = sorted((r["broker_id"], r["size_bytes"], r["run_id"]) for r in load_rows(tmp_path, DATED).to_pylist())
    assert found == [(1, 10, "a"), (2, 20, "a"), (3, 30, "b"), (4, 40, "a")]
    assert versions == [1, 2, 2, 3]
    for run_id, since, count in (("a", 3, 3), ("b", 2, 1)):
        _, row_count, digest, *noted = compare_added(tmp_path, DATED, ("c", run_id), windows(0, 1), since)
        assert (row_count, noted) == (count, [count, digest])


def test_who_adds_rows_to_a_version_that_is_gone_writes_nothing(tmp_path):
    """Two runs that do not know of each other's keys: the second looks again."""
    ensure_tables(tmp_path, [DATED])
    with on_sail() as session:
        rows = (rows_of((0, broker, 1)).select(DATED.column_names) for broker in (1, 2))
        first, second = map(session.createDataFrame, rows)
        assert append_files(first, tmp_path, DATED, 0, ("c", "a"))
        assert not append_files(second, tmp_path, DATED, 0, ("c", "a"))
        assert append_files(second, tmp_path, DATED, 1, ("c", "a"))
    assert sorted(load_rows(tmp_path, DATED)["broker_id"].to_pylist()) == [1, 2]


def test_who_always_finds_that_others_wrote_first_says_so(tmp_path, monkeypatch):
    ensure_tables(tmp_path, [DATED])
    monkeypatch.setattr(data_files, "append_files", lambda *_: False)
    with on_sail() as session:
        frame = session.createDataFrame(rows_of((0, 1, 1)).select(DATED.column_names))
        with pytest.raises(StorageConflictError, match="other writers committed first 20 times"):
            insert_missing(session, frame, tmp_path, DATED, Scope.of("c", windows(0)), run_id="a")


FOUND = replace(
    loads_table(*LOADS.columns[-2:-1], Column(name="is_read", type="boolean", nullable=False, doc="It was read.")),
    name="bronze.found",
    partitioned_by=("cluster",),
    write_mode="merge",
)


def found_rows(*rows, cluster="c", run_id="a"):
    """Rows of (minute, broker, bytes, whether it was read)."""
    is_read = pa.array([row[3] for row in rows], pa.bool_())
    return rows_of(*rows, cluster=cluster, run_id=run_id).append_column("is_read", is_read).select(FOUND.column_names)


@pytest.fixture(params=["classic", "sail"])
def merge(request, classic, tmp_path):
    """Merges rows on an engine; returns the version."""
    ensure_tables(tmp_path, [FOUND])

    def merge_rows_of(*rows, cluster="c", run_id="a"):
        with contextlib.nullcontext(classic) if request.param == "classic" else on_sail() as session:
            frame = session.createDataFrame(found_rows(*rows, cluster=cluster, run_id=run_id))
            return merge_frame(session, frame, tmp_path, FOUND, cluster, replacing="is_read")

    return merge_rows_of


def test_rows_that_were_read_replace_stored_ones_and_others_are_only_added(merge, tmp_path):
    assert merge((0, 1, 10, True), (0, 2, 20, False), (0, 3, 30, True)) == 1
    assert merge((0, 1, 1, True), cluster="d") == 2
    assert merge((0, 1, 11, True), (0, 2, 21, False), (0, 3, 30, True), (0, 4, 40, False), run_id="b") == 3
    found = load_rows(tmp_path, FOUND).to_pylist()
    assert sorted((row["cluster"], row["broker_id"], row["size_bytes"], row["run_id"]) for row in found) == [
        ("c", 1, 11, "b"),
        ("c", 2, 20, "a"),
        ("c", 3, 30, "a"),
        ("c", 4, 40, "b"),
        ("d", 1, 1, "a"),
    ]


def test_a_merge_by_tasks_that_changes_nothing_makes_no_commit(merge):
    rows = (0, 1, 10, True), (0, 2, 20, False)
    assert [merge(*rows, run_id="a"), merge(*rows, run_id="b"), merge((0, 2, 21, False), run_id="c")] == [1, 1, 1]


def test_a_file_of_which_no_row_changes_is_left_alone(merge, tmp_path):
    merge((0, 1, 10, True))
    (kept,) = DeltaTable(tmp_path / "bronze/found").file_uris()
    merge((1, 1, 11, True))
    merge((1, 1, 12, True))
    assert kept in DeltaTable(tmp_path / "bronze/found").file_uris()
    assert sorted(load_rows(tmp_path, FOUND)["size_bytes"].to_pylist()) == [10, 12]


def test_a_merge_is_made_again_where_the_clusters_files_changed_since_it_read_them(tmp_path):
    """A rival, such as compaction, commits between the reading and the commit: no row is lost or there twice."""
    ensure_tables(tmp_path, [FOUND])

    def give(rows):
        on_disk = DeltaTable(tmp_path / "bronze/found")
        if rows.num_rows == 2 and len(on_disk.file_uris()) == 2:
            on_disk.optimize.compact()
        yield rows

    with on_sail() as session:
        for rows in (((0, 1, 10, True),), ((0, 2, 20, True),), ((0, 1, 11, True), (0, 3, 30, True))):
            frame = map_tasks(session, [found_rows(*rows)], give, arrow_schema(FOUND))
            merge_frame(session, frame, tmp_path, FOUND, "c", replacing="is_read")
    history = DeltaTable(tmp_path / "bronze/found").history()
    assert [commit["operation"] for commit in history].count("OPTIMIZE") == 1
    found = load_rows(tmp_path, FOUND).to_pylist()
    assert sorted((row["broker_id"], row["size_bytes"]) for row in found) == [(1, 11), (2, 20), (3, 30)]


@every
def test_a_table_without_partitions_keeps_the_rows_of_others(spark, tmp_path, write):
    """As gold: one file holds rows of several clusters and windows once it was compacted."""
    table = replace(LOADS, partitioned_by=(), name="gold.loads")
    ensure_tables(tmp_path, [table])
    for cluster in ("a", "b"):
        rows = rows_of((0, 1, 10), (1, 1, 11), cluster=cluster)
        write(spark, rows, tmp_path, cluster=cluster, windows=windows(0, 1), table=table)
    DeltaTable(tmp_path / "gold/loads").optimize.compact()
    write(spark, rows_of((1, 1, 99), cluster="b"), tmp_path, cluster="b", windows=windows(1), table=table)
    found = [(row["cluster"], row["size_bytes"]) for row in load_rows(tmp_path, table).to_pylist()]
    assert sorted(found) == [("a", 10), ("a", 11), ("b", 10), ("b", 99)]
