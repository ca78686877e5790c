"""Samples of metrics, and what they say of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.jobs.ingest.windows import fresh_windows
from pipeline.jobs.ingest.writing import clear, replace_fresh
from pipeline.sources.metrics.metric_readings import (
    client_configs,
    name_metric_sources,
    sample_intervals_ms,
    tells_of_brokers,
)
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.tables.silver import PRODUCER_NODES
from pipeline.transforms.broker_metrics import BrokerSamples
from pipeline.transforms.producer_nodes import summarise_producer_nodes
from pipeline.transforms.samples import as_metric_samples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.jobs.ingest.found import Found
    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.tables import Table


def write_metrics(run: RunContext, found: Found, expired: dict[str, set[TimeWindow]]) -> dict[str, int]:
    """Samples, and what the producers' say of each broker.

    Args:
        run: What the run is about.
        found: What it found.
        expired: Windows that keep what is stored, by source.

    Returns:
        Versions of the tables written.
    """
    names = tuple(name_metric_sources(run.cluster))
    fresh = fresh_windows(run, set().union(*(expired.get(name, set()) for name in names)))
    if not fresh:
        return {}
    if found.samples is None:  # no query over nothing: Spark would plan and compile it all the same
        return {table.name: clear(run, table, fresh) for table in _list_tables(run)}
    window_ms, samples = run.window_ms, found.samples.where("row_kind = 'sample'")
    nodes = summarise_producer_nodes(
        samples,
        run.cluster_name,
        run.span,
        window_ms,
        precedence=names,
        interval_ms=sample_intervals_ms(run.cluster),
        client_configs=client_configs(run.cluster),
    )
    stored = as_metric_samples(samples, run.cluster_name, run.span, window_ms)
    versions = {
        METRIC_SAMPLES.name: replace_fresh(run, METRIC_SAMPLES, stored, fresh, found.count(*names)),
        PRODUCER_NODES.name: replace_fresh(run, PRODUCER_NODES, nodes, fresh),
    }
    return versions | (_write_broker_metrics(run, samples, fresh) if tells_of_brokers(run.cluster) else {})


def _list_tables(run: RunContext) -> tuple[Table, ...]:
    of_brokers = (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES) if tells_of_brokers(run.cluster) else ()
    return (METRIC_SAMPLES, PRODUCER_NODES, *of_brokers)


def _write_broker_metrics(run: RunContext, samples: DataFrame, fresh: tuple[TimeWindow, ...]) -> dict[str, int]:
    """What brokers' samples say of them, their topics and their requests."""
    intervals_ms = sample_intervals_ms(run.cluster)
    of_brokers = BrokerSamples(samples, run.cluster_name, run.span, run.window_ms, intervals_ms)
    return {
        BROKER_METRICS.name: replace_fresh(run, BROKER_METRICS, of_brokers.summarise_brokers(), fresh),
        BROKER_TOPICS.name: replace_fresh(run, BROKER_TOPICS, of_brokers.summarise_topics(), fresh),
        BROKER_REQUEST_TIMES.name: replace_fresh(
            run, BROKER_REQUEST_TIMES, of_brokers.summarise_request_times(), fresh
        ),
    }
