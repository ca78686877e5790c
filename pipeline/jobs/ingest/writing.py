"""Writes rows of a run's windows, those of metrics among them: this process where they are few, Spark where they are many."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipeline.jobs.ingest.found import Found
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.metrics.metric_source import name_metric_sources, reports_brokers
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.scan import Parts
from pipeline.storage.delta import replace_spread_rows
from pipeline.storage.frames import fit_rows
from pipeline.storage.rows import merge_rows, replace_rows
from pipeline.tables import Table
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms.producer_nodes import finish_nodes
from pipeline.transforms.samples import select_samples


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


def write_metrics(
    spark: SparkSession, run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]
) -> dict[str, int]:
    """Samples, and what they say of producers' connections, of brokers, their topics and their requests."""
    names = tuple(name_metric_sources(run.cluster))
    fresh = fresh_windows(run, set().union(*(expired.get(name, set()) for name in names)))
    if not fresh:
        return {}
    samples = found.scan.parts(Kind.SAMPLES)
    nodes = found.samples[PRODUCER_NODES.name]
    tables = {
        METRIC_SAMPLES: samples.map(partial(select_samples, span=run.span, window_ms=run.window_ms)),
        PRODUCER_NODES: Parts([finish_nodes(nodes, precedence=names, client_configs=run.cluster.producers)]),
    }
    if reports_brokers(run.cluster):
        tables |= {t: Parts([found.samples[t.name]]) for t in (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES)}
    return {table.name: replace(spark, run, table, rows, fresh) for table, rows in tables.items()}
