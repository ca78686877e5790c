"""What was expected of each source in each window and what arrived: rows of `bronze.window_status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.config.live_source import LIVE_CLUSTER
from pipeline.config.metric_sources import METRIC_KINDS, ExporterUrls
from pipeline.model.cluster import TOPICS_DESCRIBE
from pipeline.model.window import instant_of, milliseconds_of
from pipeline.sources.files.cluster_reading import DUMP_LOG, LOG_DIRECTORIES
from pipeline.sources.live.reading import NAMED, arrival_of
from pipeline.sources.metrics.metric_pages import expected_pages
from pipeline.sources.metrics.metric_readings import name_metric_sources
from pipeline.sources.metrics.sample_arrivals import expected_points

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.config.pipeline_config import Cluster, Source
    from pipeline.model.window import TimeWindow
    from pipeline.sources.files.cluster_reading import ClusterReading
    from pipeline.sources.live.reading import LiveReading
    from pipeline.sources.metrics.metric_pages import MetricPage
    from pipeline.sources.metrics.sample_arrivals import InstanceArrivals


def iter_arrivals(
    cluster: Cluster,
    reading: ClusterReading,
    windows: tuple[TimeWindow, ...],
    newest_batch_ms: int | None,
    *,
    listed: Mapping[str, tuple[MetricPage, ...]],
    told: Sequence[InstanceArrivals] = (),
) -> Iterator[tuple[TimeWindow, dict[str, Any]]]:
    """Per window and source: expected, arrived, newest instant. Metrics sources count apart, others by kind.

    Log directories: expected are the brokers registered at the window's end, arrived those whose disks were found.
    Dumps of segments: expected are the partitions described, where a text does, arrived those dumped.
    Live cluster: expected are its brokers and partitions, arrived those that answered and could be read whole.
    Scrapes and statistics: expected is one an interval while each instance was told of, and of a source that told of none
    in the window as many as of one instance: silence is not health. Described groups and outputs of tools: nothing is
    expected.

    Args:
        cluster: The configuration.
        reading: What was found.
        windows: The run's windows.
        newest_batch_ms: Newest event time of any batch read.
        listed: Scrapes kept as files, by source name.
        told: Instants of samples, of every metrics source.
    """
    for source in _one_of_each_kind(cluster):
        if source.kind == LIVE_CLUSTER and reading.live is not None:
            yield from _of_live_cluster(reading.live, windows)
            continue
        for window in windows:
            if source.kind == DUMP_LOG:
                yield window, _of_dumps(cluster, reading, window, newest_batch_ms)
            else:
                yield window, _row(source.kind, *_of_source(source, reading, window, newest_batch_ms), None)
    for name, source in name_metric_sources(cluster).items():
        own = [arrival for arrival in told if arrival.source == name]
        pages = listed.get(name)
        for window in windows:
            missing = _name_missing(source, pages or (), own, window)
            yield window, _row(name, *_of_metrics(source, pages, own, window), missing)


def _row(source: str, expected: int | None, arrived: int, newest_ms: int | None, missing: str | None) -> dict[str, Any]:
    return {
        "source": source,
        "expected_count": expected,
        "arrived_count": arrived,
        "missing": missing,
        "newest_at": None if newest_ms is None else instant_of(newest_ms),
    }


def _of_live_cluster(live: LiveReading, windows: tuple[TimeWindow, ...]) -> Iterator[tuple[TimeWindow, dict[str, Any]]]:
    """Expected are the brokers and partitions there are, arrived those that answered and were read whole."""
    for window in windows:
        arrival = arrival_of(live, window)
        yield (
            window,
            {
                "source": LIVE_CLUSTER,
                "expected_count": arrival.expected_count,
                "arrived_count": arrival.arrived_count,
                "missing": arrival.missing or None,
                # Brokers that answer tell of all there is up to now, be it nothing.
                "newest_at": None if live.state is None else instant_of(live.observed_at_ms),
            },
        )


def _one_of_each_kind(cluster: Cluster) -> tuple[Source, ...]:
    without = {"topics_describe", "log_dirs_describe", "get_offsets", "reassign_verify", *METRIC_KINDS}
    kinds = {source.kind: source for source in cluster.sources if source.kind not in without}
    return tuple(kinds.values())


def _of_dumps(
    cluster: Cluster, reading: ClusterReading, window: TimeWindow, newest_batch_ms: int | None
) -> dict[str, Any]:
    """Expected are the partitions of the topics wanted that `kafka-topics --describe` names, arrived those dumped."""
    dumped = {partition.topic_partition for _, partition in reading.tree.iter_partitions()}
    if reading.history.state_source != TOPICS_DESCRIBE:
        return _row(DUMP_LOG, None, len(dumped), newest_batch_ms, None)
    described = reading.history.state_at(window.end_ms).partitions
    wanted = {key for key in described if not cluster.topics or key.topic in cluster.topics}
    missing = _name_some("no dump of", [str(key) for key in sorted(wanted - dumped)])
    return _row(DUMP_LOG, len(wanted), len(wanted & dumped), newest_batch_ms, missing)


def _name_some(what: str, names: Sequence[str]) -> str | None:
    """What is missing, in words; None where nothing is."""
    others = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what} {', '.join(names[:NAMED])}{others}" if names else None


def _of_source(
    source: Source, reading: ClusterReading, window: TimeWindow, newest_batch_ms: int | None
) -> tuple[int | None, int, int | None]:
    if source.kind == LOG_DIRECTORIES:
        arrived = {
            directory.broker_id
            for directory in reading.tree.directories
            if directory.broker_id is not None and any(not p.is_cluster_metadata for p in directory.partitions)
        }
        registered = set(reading.history.state_at(window.end_ms).brokers) | arrived
        return len(registered), len(arrived), newest_batch_ms
    moments = {observed_at_ms for observed_at_ms, _ in reading.groups}
    return None, sum(moment in window for moment in moments), max(moments, default=None)


def _name_missing(
    source: Source, pages: Sequence[MetricPage], told: Sequence[InstanceArrivals], window: TimeWindow
) -> str | None:
    """Instances of a metrics source that brought nothing though they did before and after, or are configured."""
    instants = [(page.instance, page.observed_at_ms) for page in pages]
    instants += [(t.instance, at) for t in told for at in (t.first_ms, t.last_ms)]
    lived = {name for name, at in instants if at < window.end_ms} & {
        name for name, at in instants if at >= window.start_ms
    }
    if isinstance(source, ExporterUrls):
        lived = {*source.producers, *map(str, source.brokers)}
    return _name_some("no sample of", sorted(lived - {name for name, at in instants if at in window}))


def _of_metrics(
    source: Source, pages: Sequence[MetricPage] | None, own: Sequence[InstanceArrivals], window: TimeWindow
) -> tuple[int | None, int, int | None]:
    interval = getattr(source, "interval", None)
    if pages is not None:
        arrived = sum(page.observed_at_ms in window for page in pages)
        newest_ms = max((page.observed_at_ms for page in pages), default=None)
    else:
        arrived = sum(arrival.instant_count for arrival in own if arrival.start_ms == window.start_ms)
        newest_ms = max((arrival.last_ms for arrival in own), default=None)
    if interval is None:
        return None, arrived, newest_ms
    interval_ms = milliseconds_of(interval)
    if not arrived:
        return max(1, window.duration_ms // interval_ms), 0, newest_ms
    if isinstance(source, ExporterUrls):
        count = len(source.producers) + len(source.brokers)
        return count * max(1, window.duration_ms // interval_ms), arrived, newest_ms
    if pages is not None:
        return expected_pages(pages, window, interval_ms), arrived, newest_ms
    return expected_points(own, window, interval_ms), arrived, newest_ms
