"""Samples of metrics, and what they say of producers and brokers."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from pipeline.jobs.ingest.found import Found
from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import replace
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.sources.metrics.metric_source import name_metric_sources, reports_brokers
from pipeline.sources.records.pieces import Kind, Parts
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms.producer_nodes import finish_nodes
from pipeline.transforms.samples import select_samples


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
