"""Windows replaced, rows merged, tables extended: each against the rows one expects by hand."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from pyspark.errors import AnalysisException

from pipeline.errors import TableMismatchError
from pipeline.model.window import TimeWindow
from pipeline.storage.catalog import register_tables
from pipeline.storage.delta import FEW_ROWS, ensure_tables, load, merge, replace_windows
from pipeline.tables import TABLES, Column, Table
from pipeline.tables.table import CLUSTER, RUN_ID, WINDOW_DATE, WINDOW_START

MINUTE_MS = 60_000
LOADS = Table(
    is_large=True,
    name="silver.loads",
    grain="broker x window",
    key=("cluster", "window_start", "broker_id"),
    partitioned_by=("cluster", "window_date"),
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        Column(name="broker_id", type="bigint", nullable=False, doc="Broker."),
        Column(name="size_bytes", type="bigint", nullable=False, unit="bytes", doc="Load."),
        RUN_ID,
    ),
)


def windows(*minutes):
    return [TimeWindow(minute * MINUTE_MS, (minute + 1) * MINUTE_MS) for minute in minutes]


def frame(spark, *rows, cluster="c"):
    """Rows of (minute, broker, bytes), with the narrower integers that Spark's own functions give."""
    instant = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    data = [(cluster, instant + dt.timedelta(minutes=minute), broker, size) for minute, broker, size in rows]
    return spark.createDataFrame(data, "cluster string, window_start timestamp, broker_id int, size_bytes int")


def stored(spark, warehouse, cluster="c"):
    rows = load(spark, warehouse, LOADS).where(f"cluster = '{cluster}'")
    rows = rows.selectExpr("unix_millis(window_start) div 60000 AS minute", "broker_id", "size_bytes").collect()
    return sorted(tuple(row) for row in rows)


@pytest.fixture
def warehouse(tmp_path):
    ensure_tables(tmp_path, [LOADS])
    return tmp_path


def test_a_window_is_replaced_and_the_others_stay(spark, warehouse):
    rows = frame(spark, (0, 1, 10), (0, 2, 20), (1, 1, 11))
    assert replace_windows(rows, warehouse, LOADS, cluster="c", windows=windows(0, 1), run_id="a") == 1
    replace_windows(frame(spark, (0, 1, 99)), warehouse, LOADS, cluster="c", windows=windows(0), run_id="b")
    assert stored(spark, warehouse) == [(0, 1, 99), (1, 1, 11)]


def test_another_cluster_keeps_its_rows(spark, warehouse):
    for cluster in ("c", "o'hara"):
        rows = frame(spark, (0, 1, 10), cluster=cluster)
        replace_windows(rows, warehouse, LOADS, cluster=cluster, windows=windows(0), run_id="a")
    replace_windows(frame(spark, cluster="o'hara"), warehouse, LOADS, cluster="o'hara", windows=windows(0), run_id="a")
    assert (stored(spark, warehouse), stored(spark, warehouse, "o\\'hara")) == ([(0, 1, 10)], [])


def test_rows_outside_the_windows_are_refused_and_nothing_is_written(spark, warehouse):
    with pytest.raises(AnalysisException, match="DELTA_REPLACE_WHERE_MISMATCH"):
        replace_windows(frame(spark, (5, 1, 10)), warehouse, LOADS, cluster="c", windows=windows(0), run_id="a")
    assert stored(spark, warehouse) == []


def test_many_rows_of_a_small_table_are_collected_some_windows_at_a_time(spark, warehouse):
    small = replace(LOADS, is_large=False)
    sizes = [(minute, broker, 10 * minute + broker) for minute in range(5) for broker in range(3)]
    told = {"cluster": "c", "windows": windows(*range(5)), "run_id": "a", "row_count": 3 * FEW_ROWS}
    replace_windows(frame(spark, *sizes), warehouse, small, **told)
    assert stored(spark, warehouse) == sizes
    with pytest.raises(TableMismatchError, match="a row lies outside"):
        replace_windows(frame(spark, *sizes, (7, 1, 10)), warehouse, small, **told)


def test_a_frame_that_does_not_fit_is_refused_naming_every_column(spark, warehouse):
    wrong = frame(spark).selectExpr("cluster", "window_start", "string(broker_id) AS broker_id", "1 AS extra")
    with pytest.raises(TableMismatchError) as refused:
        replace_windows(wrong, warehouse, LOADS, cluster="c", windows=windows(0), run_id="a")
    for part in ("unknown column extra", "broker_id is string, declared as bigint", "size_bytes is missing"):
        assert part in str(refused.value)


def test_a_merge_that_changes_nothing_makes_no_commit(spark, warehouse):
    table = Table(name=LOADS.name, grain="", key=LOADS.key, columns=LOADS.columns, write_mode="merge")
    rows = frame(spark, (0, 1, 10), (0, 2, 20))
    versions = [merge(rows, warehouse, table, run_id=run_id) for run_id in ("a", "b")]
    versions.append(merge(frame(spark, (0, 2, 21), (0, 3, 30)), warehouse, table, run_id="c"))
    assert versions == [1, 1, 2]
    assert stored(spark, warehouse) == [(0, 1, 10), (0, 2, 21), (0, 3, 30)]
    with pytest.raises(TableMismatchError, match="two rows of one key"):
        merge(frame(spark, (0, 1, 1), (0, 1, 2)), warehouse, table, run_id="d")


def test_every_declared_table_answers_by_its_name(spark, tmp_path):
    ensure_tables(tmp_path)
    assert register_tables(spark, tmp_path) == tuple(table.name for table in TABLES)
    for table in TABLES:
        assert tuple(spark.table(table.name).columns) == table.column_names
