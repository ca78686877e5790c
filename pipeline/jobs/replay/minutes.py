"""Clients' metrics by minute, where windows are longer: a broker's delay changes within them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.model.window import MINUTE_MS, TimeWindow, spanning
from pipeline.sources.metrics.metric_readings import client_configs, name_metric_sources, sample_intervals_ms
from pipeline.storage.rows import load_rows
from pipeline.tables.bronze import METRIC_SAMPLES
from pipeline.transforms.producer_nodes import finish_nodes, summarise_nodes
from pipeline.transforms.samples import SampleSettings, with_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.runs import RunContext

_COLUMNS = (
    *("window_start", "instance", "client_id", "broker_id", "request_count", "request_rate_per_s"),
    *("outgoing_bytes", "request_latency_avg_ms"),
)


def load_minutes(run: RunContext, windows: Sequence[TimeWindow]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows as those of `silver.producer_nodes`, for minutes instead of windows.

    Args:
        run: What the run is about.
        windows: Which windows.

    Returns:
        By instance and client; nothing where windows are no longer than a minute.
    """
    if run.window_ms <= MINUTE_MS:
        return {}
    length_ms = run.window_ms
    before = {TimeWindow(window.start_ms - length_ms, window.start_ms) for window in windows}
    stored = load_rows(
        run.warehouse,
        METRIC_SAMPLES,
        cluster=run.cluster_name,
        windows=sorted({*windows, *before}),
        columns=("source", "instance", "observed_at", "name", "labels", "value"),
    )
    observed_at_ms = stored["observed_at"].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    span = spanning(windows)
    settings = SampleSettings(
        span=TimeWindow(span.start_ms - MINUTE_MS, span.end_ms),
        window_ms=MINUTE_MS,
        interval_ms=sample_intervals_ms(run.cluster),
    )
    nodes = finish_nodes(
        summarise_nodes(with_labels(stored.append_column("observed_at_ms", observed_at_ms)), settings).to_arrow(),
        precedence=tuple(name_metric_sources(run.cluster)),
        client_configs=client_configs(run.cluster),
    )
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in nodes.select(_COLUMNS).to_pylist():
        found[row["instance"], row["client_id"]].append(row)
    return dict(found)
