"""What was expected of each source in each window and what arrived: rows of `bronze.window_status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.window import instant_of, parse_duration_ms
from pipeline.sources.cluster_reading import CONSUMER_GROUPS, LOG_DIRECTORIES
from pipeline.sources.metric_pages import expected_pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.config import Cluster, Source
    from pipeline.model.window import TimeWindow
    from pipeline.sources.cluster_reading import ClusterReading


def iter_arrivals(
    cluster: Cluster, reading: ClusterReading, windows: tuple[TimeWindow, ...], newest_batch_ms: int | None
) -> Iterator[tuple[TimeWindow, dict[str, Any]]]:
    """Per window and source kind: expected, arrived, newest instant.

    Log directories: expected are the brokers registered at the window's end, arrived those whose disks were found.
    Scrapes: expected is one an interval while each instance was being scraped. Described groups: nothing is expected.

    Args:
        cluster: The configuration.
        reading: What was found.
        windows: The run's windows.
        newest_batch_ms: Newest event time of any batch read.
    """
    for source in _one_of_each_kind(cluster):
        for window in windows:
            expected, arrived, newest_ms = _of_source(source, reading, window, newest_batch_ms)
            yield (
                window,
                {
                    "source": source.kind,
                    "expected_count": expected,
                    "arrived_count": arrived,
                    "newest_at": None if newest_ms is None else instant_of(newest_ms),
                },
            )


def _one_of_each_kind(cluster: Cluster) -> tuple[Source, ...]:
    kinds = {source.kind: source for source in cluster.sources if source.kind != "topics_describe"}
    return tuple(kinds.values())


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
    if source.kind == CONSUMER_GROUPS:
        moments = {observed_at_ms for observed_at_ms, _ in reading.groups}
        return None, sum(moment in window for moment in moments), max(moments, default=None)
    pages = reading.pages.get(source.kind, ())
    interval_ms = parse_duration_ms(getattr(source, "interval"))  # noqa: B009  (both metric sources have one)
    arrived_count = sum(page.observed_at_ms in window for page in pages)
    newest_ms = max((page.observed_at_ms for page in pages), default=None)
    return expected_pages(pages, window, interval_ms), arrived_count, newest_ms
