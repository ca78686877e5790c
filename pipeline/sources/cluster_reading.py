"""Everything a cluster's sources say without reading batches: disks, leaders, replicas, groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.model.cluster import EarlierState
from pipeline.model.window import TimeWindow
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.source import ClusterReading, Described, RecordSource, Source, TextSource, sources_of

if TYPE_CHECKING:
    from pipeline.config.pipeline_config import Cluster


def read_cluster(
    name: str,
    cluster: Cluster,
    windows: Sequence[TimeWindow],
    as_of_ms: int,
    *,
    earlier: Sequence[EarlierState] = (),
    newest: TimeWindow | None = None,
) -> ClusterReading:
    """Reads every configured source of a cluster; what is wrong with one never hides another.

    A live cluster is asked about `windows`; `earlier` is what other runs saw of it, oldest first, and `newest` the window
    that its present state belongs to.
    """
    described = Described()
    for text in sources_of(cluster, TextSource):
        text.describe(described)
    records = sources_of(cluster, RecordSource)
    question = ClusterQuestion(
        name=name, topics=cluster.topics, windows=windows, as_of_ms=as_of_ms, earlier=earlier, newest=newest
    )
    reading = (type(records[0]) if records else LogDirectories).read_cluster(records, question, described)
    problems = {kind: tuple(found) for kind, found in described.problems.items()}
    locations = [path for source in sources_of(cluster, Source) for path in source.locations]
    return replace(
        reading,
        groups=tuple(described.groups),
        moving=frozenset(described.moving),
        problems={**problems, **reading.problems},
        roots=tuple(path if path.is_dir() else path.parent for path in locations),
        topics=cluster.topics,
        newest=newest,
    )
