"""Rows of a run's windows, replaced or merged: by this process where they are few, by Spark where they are many."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.records.pieces import Parts
from pipeline.storage.delta import replace_spread_rows
from pipeline.storage.frames import fit_rows
from pipeline.storage.rows import merge_rows, replace_rows
from pipeline.tables import Table


def replace(
    spark: SparkSession, run: RunContext, table: Table, parts: Parts[pa.Table], windows: tuple[TimeWindow, ...]
) -> int:
    """Replaces a table's rows in some of the run's windows; rows of other windows are left out."""
    name = run.cluster_name
    fitted = parts.map(partial(within, windows=windows)).map(
        partial(fit_rows, table=table, cluster=name, run_id=run.run_id)
    )
    if fitted.spread is not None:
        return replace_spread_rows(spark, fitted.spread, run.warehouse, table, cluster=name, windows=windows)
    return replace_rows(pa.concat_tables(fitted), run.warehouse, table, cluster=name, windows=windows)


def merge(run: RunContext, table: Table, parts: Parts[pa.Table]) -> int:
    """Adds the rows whose key is not stored yet, a part at a time."""
    version = 0
    for rows in parts.map(partial(fit_rows, table=table, cluster=run.cluster_name, run_id=run.run_id)):
        version = merge_rows(rows, run.warehouse, table, insert_only=True)
    return version


def clear(run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> int:
    """Leaves a table without rows in some windows."""
    return run.replace(table, (), windows)


def within(rows: pa.Table, *, windows: tuple[TimeWindow, ...]) -> pa.Table:
    """The rows of some windows, by `window_start` or `window_start_ms`."""
    starts = [window.start_ms for window in windows]
    if "window_start_ms" in rows.column_names:
        is_within = pc.is_in(rows["window_start_ms"], pa.array(starts, pa.int64()))
    else:
        instants = pa.array([1000 * start for start in starts], pa.timestamp("us", tz="UTC"))
        is_within = pc.is_in(rows["window_start"], instants)
    return rows if pc.all(is_within).as_py() else rows.filter(is_within)
