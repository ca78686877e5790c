"""Windows replaced, rows merged, tables extended: each against the rows one expects by hand."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException

from pipeline.errors import TableMismatchError
from pipeline.model.window import TimeWindow
from pipeline.storage.catalog import register_copies, register_tables
from pipeline.storage.delta import load, replace_spread_rows
from pipeline.storage.files import list_data_files
from pipeline.storage.frames import arrow_schema, fit_rows
from pipeline.storage.row_groups import ROW_GROUP_BYTES
from pipeline.storage.rows import load_rows, merge_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables import TABLES, Column, Table
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
    """In two parts, as Spark spreads them."""
    parts = spark.sparkContext.parallelize([rows.slice(0, 1), rows.slice(1)], 2)
    return replace_spread_rows(spark, parts, warehouse, table, cluster=cluster, windows=windows)


both = pytest.mark.parametrize("write", [by_delta_rs, by_spark])
ARRAYS = replace(
    loads_table(LOADS.columns[-2], Column(name="arrays", type="array<bigint>", nullable=False, doc="Many a row.")),
    name="silver.arrays",
)
"""As `silver.arrivals`: few rows, each of half a row group."""


def stored(spark, warehouse, cluster="c"):
    rows = load(spark, warehouse, LOADS).where(f"cluster = '{cluster}'")
    rows = rows.selectExpr("unix_millis(window_start) div 60000 AS minute", "broker_id", "size_bytes").collect()
    found = sorted(tuple(row) for row in rows)
    plain = load_rows(warehouse, LOADS, cluster=cluster.replace("\\'", "'")).to_pylist()
    assert found == sorted((row["window_start"].minute, row["broker_id"], row["size_bytes"]) for row in plain)
    return found


@pytest.fixture
def warehouse(tmp_path):
    ensure_tables(tmp_path, [LOADS])
    return tmp_path


@both
def test_a_window_is_replaced_and_the_others_stay(spark, warehouse, write):
    rows = rows_of((0, 1, 10), (0, 2, 20), (1, 1, 11))
    assert write(spark, rows, warehouse, windows=windows(0, 1)) == 1
    write(spark, rows_of((0, 1, 99), run_id="b"), warehouse, windows=windows(0))
    assert stored(spark, warehouse) == [(0, 1, 99), (1, 1, 11)]


@both
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


@both
def test_another_cluster_keeps_its_rows(spark, warehouse, write):
    for cluster in ("c", "o'hara"):
        write(spark, rows_of((0, 1, 10), cluster=cluster), warehouse, cluster=cluster, windows=windows(0))
    write(spark, rows_of(cluster="o'hara"), warehouse, cluster="o'hara", windows=windows(0))
    assert (stored(spark, warehouse), stored(spark, warehouse, "o\\'hara")) == ([(0, 1, 10)], [])


@pytest.mark.parametrize(
    ("write", "error", "words"),
    [
        (by_delta_rs, TableMismatchError, "a row lies outside"),
        (by_spark, AnalysisException, "DELTA_REPLACE_WHERE_MISMATCH"),
    ],
)
def test_rows_outside_the_windows_are_refused_and_nothing_is_written(spark, warehouse, write, error, words):
    with pytest.raises(error, match=words):
        write(spark, rows_of((5, 1, 10)), warehouse, windows=windows(0))
    assert stored(spark, warehouse) == []


def test_rows_that_do_not_fit_are_refused_naming_every_column():
    starts = pa.array([], pa.timestamp("us", "UTC"))
    wrong = pa.table(
        {"window_start": starts, "broker_id": pa.array([], pa.string()), "extra": pa.array([], pa.int64())}
    )
    with pytest.raises(TableMismatchError) as refused:
        fit_rows(wrong, LOADS, cluster="c", run_id="a")
    for part in ("unknown column extra", "broker_id is string, declared as int64", "size_bytes is missing"):
        assert part in str(refused.value)


def test_a_merge_that_changes_nothing_makes_no_commit(spark, warehouse):
    table = Table(name=LOADS.name, grain="", key=LOADS.key, columns=LOADS.columns, write_mode="merge")
    versions = [merge_rows(rows_of((0, 1, 10), (0, 2, 20), run_id=run_id), warehouse, table) for run_id in ("a", "b")]
    versions.append(merge_rows(rows_of((0, 2, 21), (0, 3, 30), run_id="c"), warehouse, table))
    assert versions == [1, 1, 2]
    assert stored(spark, warehouse) == [(0, 1, 10), (0, 2, 21), (0, 3, 30)]
    with pytest.raises(TableMismatchError, match="two rows of one key"):
        merge_rows(rows_of((0, 1, 1), (0, 1, 2), run_id="d"), warehouse, table)


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
    rows = pa.table(
        [pa.array(values, field.type) for values, field in zip(known.values(), arrow_schema(table), strict=True)],
        schema=arrow_schema(table),
    )
    write_deltalake(tmp_path / "silver/kinds", rows, mode="append")
    (tmp_path / "copies").mkdir()

    def ask():
        return spark.sql("SELECT * FROM silver.kinds ORDER BY c0").toArrow(), spark.table("silver.kinds").dtypes

    register_tables(spark, tmp_path, [table])
    stored = ask()
    register_copies(spark, tmp_path, [table], tmp_path / "copies")
    assert ask() == stored
    assert stored[0].num_rows == 2
    assert [kind.replace(", ", ",") for _, kind in stored[1]] == list(known)
