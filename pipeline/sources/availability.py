"""What was expected of each source in each window and what arrived: rows of `bronze.window_status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline.model.window import TimeWindow
from pipeline.sources.metrics.metric_pages import MetricPage
from pipeline.sources.metrics.metric_source import InstanceSamples, name_metric_sources, samples_of_pages
from pipeline.sources.questions import SourceAvailability
from pipeline.sources.source import ClusterReading, StateSource, sources_of

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import Cluster


def iter_availability(
    cluster: Cluster,
    reading: ClusterReading,
    windows: Sequence[TimeWindow],
    newest_batch_ms: int | None,
    *,
    listed: Mapping[str, tuple[MetricPage, ...]],
    samples: Sequence[InstanceSamples] = (),
) -> Iterator[tuple[TimeWindow, str, SourceAvailability]]:
    """Window, source and what it brought. Metrics sources count apart, others by kind.

    `newest_batch_ms` is the newest event time of any batch read, `listed` the scrapes kept as files, by source name.
    """
    for kind, source in {source.kind: source for source in sources_of(cluster, StateSource)}.items():
        for window in windows:
            found = source.availability(reading, window, newest_batch_ms)
            if found is not None:
                yield window, kind, found
    for name, metrics in name_metric_sources(cluster).items():
        own = [sample for sample in samples if sample.source == name]
        if name in listed:
            own = samples_of_pages(listed[name], windows[0].duration_ms)
        for window in windows:
            yield window, name, metrics.availability(own, window)
