"""Writes rows of a run's windows, those of metrics among them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from pipeline.engine import count_task_slots
from pipeline.jobs.ingest.found import Found
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.model.window import TimeWindow, instant_of, stretches_of
from pipeline.runs import RunContext, TableRows
from pipeline.sources.metrics.metric_source import name_metric_sources, reports_brokers
from pipeline.sources.records.pieces import Kind
from pipeline.stages import map_groups
from pipeline.storage.file_writer import WRITTEN
from pipeline.tables import Table
from pipeline.tables.arrow_types import arrow_columns
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms.producer_nodes import finish_nodes
from pipeline.transforms.samples import REPEATED, select_samples

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NODE_COLUMNS = arrow_columns(PRODUCER_NODES, without=("cluster", "window_date", "run_id"))


def within(rows: DataFrame, windows: tuple[TimeWindow, ...]) -> DataFrame:
    """The rows of some windows, at least one, by `window_start` or `window_start_ms`."""
    is_ms = "window_start_ms" in rows.columns
    wanted: Column | None = None
    for span in stretches_of(windows):
        start, end = (ms if is_ms else instant_of(ms) for ms in (span.start_ms, span.end_ms))
        at = F.col("window_start_ms" if is_ms else "window_start")
        one = (at >= F.lit(start)) & (at < F.lit(end))
        wanted = one if wanted is None else wanted | one
    assert wanted is not None  # noqa: S101 - narrows the type
    return rows.where(wanted)


def clear(run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> int:
    """Leaves a table without rows in some windows."""
    return run.replace(table, (), windows)


def write_metrics(run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Samples, and what they say of producers' connections, of brokers, their topics and their requests."""
    names = tuple(name_metric_sources(run.cluster))
    fresh = fresh_windows(run, set().union(*(expired.get(name, set()) for name in names)))
    if not fresh:
        return {}
    samples = found.parts[Kind.SAMPLES]
    if not samples.row_count:
        tables = [METRIC_SAMPLES, PRODUCER_NODES]
        tables += [BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES] if reports_brokers(run.cluster) else []
        return {table.name: clear(run, table, fresh) for table in tables}
    reasons = {problem.reason for name in names for problem in found.problems.get(name, ())}
    frame = select_samples(samples.frame(), run.span, run.window_ms, has_repeated=REPEATED in reasons)
    selected = within(frame, fresh)
    versions = {METRIC_SAMPLES.name: run.replace_frame(found.staging.spark, METRIC_SAMPLES, selected, fresh)}
    versions |= _write_nodes(run, found, names, fresh)
    if reports_brokers(run.cluster):  # a row for each broker, and each of its topics and requests
        starts = pa.array([instant_of(window.start_ms) for window in fresh], pa.timestamp("us", "UTC"))
        for table in (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES):
            rows = found.samples[table.name].load()
            versions[table.name] = run.replace(table, rows.filter(pc.is_in(rows["window_start"], starts)), fresh)
    return versions


def _write_nodes(
    run: RunContext, found: Found, names: tuple[str, ...], fresh: tuple[TimeWindow, ...]
) -> dict[str, int]:
    """Connections of each client, of the source that counts."""
    nodes, spark = found.samples[PRODUCER_NODES.name], found.staging.spark
    finish = partial(finish_nodes, precedence=names, client_configs=run.cluster.producers)

    def work(rows: pa.Table) -> TableRows:
        yield PRODUCER_NODES.name, finish(rows).select(_NODE_COLUMNS.names).cast(_NODE_COLUMNS)

    kernel, client = run.to_files(work, (PRODUCER_NODES,), fresh), ("window_start_ms", "client_id")
    finished = map_groups(within(nodes.frame(), fresh), client, count_task_slots(spark), kernel, WRITTEN)
    return run.replace_by_files("finish connections", finished, (PRODUCER_NODES,), fresh)
