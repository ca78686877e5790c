"""Every metrics source of a cluster: files listed for Spark to parse, answers of servers, and what was wrong.

Each source fails alone: what is wrong with one becomes its problem, the others are read all the same.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pipeline.sources.metrics.metric_source import MetricReading, MetricSource, SampleQuestion
from pipeline.sources.source import sources_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.config.pipeline_config import Cluster
    from pipeline.model.window import TimeWindow


def read_metrics(
    cluster: Cluster, span: TimeWindow, window_ms: int, *, now_ms: int, pause: Callable[[float], None]
) -> MetricReading:
    """Reads every metrics source, or lists its files; `pause` waits for so many seconds between attempts."""
    found = [
        source.read_samples(
            SampleQuestion(
                name=name,
                span=span,
                window_ms=window_ms,
                now_ms=now_ms,
                is_recorded=cluster.as_of is not None,
                pause=pause,
            )
        )
        for name, source in name_metric_sources(cluster).items()
    ]
    return MetricReading(
        listed={name: pages for reading in found for name, pages in reading.listed.items()},
        pages=tuple(page for reading in found for page in reading.pages),
        batches=tuple(batch for reading in found for batch in reading.batches),
        problems={name: problems for reading in found for name, problems in reading.problems.items() if problems},
    )


def name_metric_sources(cluster: Cluster) -> dict[str, MetricSource]:
    """Metrics sources by the name that tables give them: the kind, numbered from the second of a kind on.

    In order of precedence: `prometheus` and `prometheus-2` come after every `producer_metrics`.
    """
    counts: Counter[str] = Counter()
    named = {}
    for source in sorted(sources_of(cluster, MetricSource), key=lambda source: source.rank):
        counts[source.kind] += 1
        named[source.kind if counts[source.kind] == 1 else f"{source.kind}-{counts[source.kind]}"] = source
    return named


def sample_intervals_ms(cluster: Cluster) -> dict[str, int]:
    """Configured distance of two samples, by source name."""
    named = name_metric_sources(cluster)
    return {name: source.interval_ms for name, source in named.items() if source.interval_ms is not None}


def client_configs(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Configured settings of producers, by client id."""
    return {client_id: settings for client_id, settings in cluster.producers.items() if settings}


def reports_brokers(cluster: Cluster) -> bool:
    """Whether a source may hold brokers' metrics."""
    return any(source.reports_brokers for source in sources_of(cluster, MetricSource))
