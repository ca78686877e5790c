"""Clients' metrics by minute, where windows are longer: a broker's delay changes within them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.model.window import MINUTE_MS, TimeWindow, spanning
from pipeline.sources.metrics.metric_readings import client_configs, name_metric_sources, sample_intervals_ms
from pipeline.storage.delta import load
from pipeline.storage.predicates import format_predicate
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.transforms.producer_nodes import summarise_producer_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

_COLUMNS = (
    *("window_start", "instance", "client_id", "broker_id", "request_count", "request_rate_per_s"),
    *("outgoing_bytes", "request_latency_avg_ms"),
)


def load_minutes(
    spark: SparkSession, run: RunContext, windows: Sequence[TimeWindow]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows as those of `silver.producer_nodes`, for minutes instead of windows.

    Args:
        spark: Session.
        run: What the run is about.
        windows: Which windows.

    Returns:
        By instance and client; nothing where windows are no longer than a minute.
    """
    if run.window_ms <= MINUTE_MS:
        return {}
    length_ms = run.window_ms
    before = {TimeWindow(window.start_ms - length_ms, window.start_ms) for window in windows}
    stored = load(spark, run.warehouse, METRIC_SAMPLES).where(
        format_predicate(METRIC_SAMPLES, run.cluster_name, sorted({*windows, *before}))
    )
    span = spanning(windows)
    nodes = summarise_producer_nodes(
        stored.withColumn("observed_at_ms", F.unix_millis("observed_at")),
        run.cluster_name,
        TimeWindow(span.start_ms - MINUTE_MS, span.end_ms),
        MINUTE_MS,
        precedence=tuple(name_metric_sources(run.cluster)),
        interval_ms=sample_intervals_ms(run.cluster),
        client_configs=client_configs(run.cluster),
    )
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in nodes.select(*_COLUMNS).toArrow().to_pylist():
        found[row["instance"], row["client_id"]].append(row)
    return dict(found)
