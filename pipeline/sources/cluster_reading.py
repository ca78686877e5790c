"""Reads a cluster's sources without batches (disks, leaders, replicas, groups), and what each brought."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.config.pipeline_config import Cluster
from pipeline.model.cluster import ClusterHistory, StateSubject
from pipeline.model.window import TimeWindow, Windows
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.metrics.metric_pages import MetricPage
from pipeline.sources.metrics.metric_source import InstanceSamples, name_metric_sources, samples_of_pages
from pipeline.sources.questions import ClusterQuestion, SourceAvailability
from pipeline.sources.source import ClusterReading, Described, RecordSource, Source, StateSource, TextSource, sources_of


def read_cluster(cluster: Cluster, question: ClusterQuestion) -> ClusterReading:
    """Reads every source of a cluster; what is wrong with one hides no other."""
    described = Described()
    for text in sources_of(cluster, TextSource):
        text.describe(described)
    records = sources_of(cluster, RecordSource)
    kinds = {source.kind for source in records}
    alone = [source for source in records if source.completes not in kinds]
    reading = (type(alone[0]) if alone else LogDirectories).read_cluster(alone, question, described)
    for source in records:
        reading = source.complete(reading, question) if source.completes in kinds else reading
    problems = {kind: tuple(problems_of) for kind, problems_of in described.problems.items()}
    locations = [path for source in sources_of(cluster, Source) for path in source.locations]
    return replace(
        reading,
        groups=tuple(described.groups),
        moving=frozenset(described.moving),
        problems={**problems, **reading.problems},
        roots=tuple(path if path.is_dir() else path.parent for path in locations),
        topics=question.topics,
        newest=question.newest,
    )


def iter_availability(
    cluster: Cluster,
    reading: ClusterReading,
    windows: Windows,
    newest_batch_ms: int | None,
    *,
    listed: Mapping[str, tuple[MetricPage, ...]],
    samples: Sequence[InstanceSamples] = (),
) -> Iterator[tuple[TimeWindow, str, SourceAvailability]]:
    """Window, source and what it brought, metrics sources apart; `listed`: scrapes kept as files, by source name."""
    for kind, source in {source.kind: source for source in sources_of(cluster, StateSource)}.items():
        for window in windows:
            availability = source.availability(reading, window, newest_batch_ms)
            if availability is not None and kind == reading.record_source:
                availability = _without_unread(availability, reading.history, window.end_ms)
            if availability is not None:
                yield window, kind, availability
    for name, metrics in name_metric_sources(cluster).items():
        own = [sample for sample in samples if sample.source == name]
        if name in listed:
            own = samples_of_pages(listed[name], windows[0].duration_ms)
        for window in windows:
            yield window, name, metrics.availability(own, window)


def _without_unread(availability: SourceAvailability, history: ClusterHistory, end_ms: int) -> SourceAvailability:
    """What a source brought, less what rests on metadata records that cannot be read: who leads; racks, fencing and configs are unknown."""
    lacks = history.list_doubts(StateSubject.PARTITIONS, end_ms)
    named = [f"who leads may be wrong, {reason}" for reason in lacks]
    for subject, unknown in ((StateSubject.BROKERS, "racks and fencing"), (StateSubject.CONFIGS, "configs")):
        others = [reason for reason in history.list_doubts(subject, end_ms) if reason not in lacks]
        named += [f"{unknown} are not known for sure, {reason}" for reason in others]
    return availability.without(named, len(lacks))
