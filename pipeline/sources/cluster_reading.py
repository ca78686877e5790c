"""Everything a cluster's sources say without reading batches: disks, leaders, replicas, groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.model.log_tree import LogTree
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.source import ClusterQuestion, Described, RecordSource, Source, TextSource, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.config.pipeline_config import Cluster
    from pipeline.model.cluster import ClusterHistory, DirectorySpace, ReplicaState
    from pipeline.model.consumer_group import ConsumerGroupMember
    from pipeline.model.earlier_state import EarlierState
    from pipeline.model.log import Problem
    from pipeline.model.window import TimeWindow
    from pipeline.sources.files.cluster_rows import Moving
    from pipeline.sources.live.reading import LiveReading

GROUP_TEXTS = "consumer_groups"
"""Kind of source that `ClusterReading.groups` come from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """What a run found at a cluster's sources.

    Attributes:
        record_source: Kind of source that the records come from.
        history: Brokers, leaders and configs over time.
        tree: Log directories, or what texts show of them.
        replicas: What the disks hold.
        directory_counts: Log directories by broker, read or described.
        spaces: Volumes of log directories by broker and path, where the brokers report them.
        broker_configs: Configs that matter by broker, likewise.
        groups: Instant, and what a consumer group consumes of a partition.
        moving: Partitions that a text says are being moved; with a broker, between its disks.
        problems: What was wrong, by kind of source.
        roots: Source roots, for shortening paths.
        topics: Topics wanted; all where empty.
        has_records: Records can be read, not only batches or offsets.
        live: What a live cluster answered; None where none is configured.
    """

    record_source: str
    history: ClusterHistory
    tree: LogTree = field(default_factory=LogTree)
    replicas: tuple[ReplicaState, ...] = ()
    directory_counts: Mapping[int, int] = field(default_factory=dict)
    spaces: Mapping[int, Mapping[str, DirectorySpace]] = field(default_factory=dict)
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    groups: tuple[tuple[int, ConsumerGroupMember], ...] = ()
    moving: frozenset[Moving] = frozenset()
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    roots: tuple[Path, ...] = ()
    topics: tuple[str, ...] = ()
    has_records: bool = True
    live: LiveReading | None = None

    def relative(self, path: str) -> str:
        """A path as it is under its source root, with the root's own name; unchanged where it is under none."""
        for root in self.roots:
            if Path(path).is_relative_to(root):
                return str(Path(root.name, Path(path).relative_to(root)))
        return path


def read_cluster(
    name: str,
    cluster: Cluster,
    windows: Sequence[TimeWindow],
    as_of_ms: int,
    earlier: Sequence[EarlierState] = (),
) -> ClusterReading:
    """Reads every configured source of a cluster; what is wrong with one never hides another.

    A live cluster is asked about `windows`; `earlier` is what earlier runs saw of it, oldest first.
    """
    described = Described()
    for text in sources_of(cluster, TextSource):
        text.describe(described)
    records = sources_of(cluster, RecordSource)
    question = ClusterQuestion(name=name, topics=cluster.topics, windows=windows, as_of_ms=as_of_ms, earlier=earlier)
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
    )
