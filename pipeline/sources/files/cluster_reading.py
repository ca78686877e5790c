"""Everything a cluster's file sources say without reading batches: disks, leaders, replicas, groups."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.file_sources import DumpLog, LogDirectories, TopicsDescribe
from pipeline.config.live_source import LIVE_CLUSTER, LiveCluster
from pipeline.sources.files.cluster_rows import count_directories
from pipeline.sources.files.cluster_state import read_cluster_history, read_replica_states, with_named_brokers
from pipeline.sources.files.dumped_logs import discover_dumps, with_topic_ids
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.tool_texts import read_described_groups, read_described_replicas, read_moving_partitions
from pipeline.sources.live.reading import LiveReading, read_live_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.config.pipeline_config import Cluster, Source
    from pipeline.model.cluster import ClusterHistory, DirectorySpace, ReplicaState
    from pipeline.model.consumer_group import ConsumerGroupMember
    from pipeline.model.earlier_state import EarlierState
    from pipeline.model.log import Problem
    from pipeline.model.log_tree import LogTree
    from pipeline.model.window import TimeWindow
    from pipeline.sources.files.cluster_rows import Moving

LOG_DIRECTORIES = "log_directories"
DUMP_LOG = "dump_log"
CONSUMER_GROUPS = "consumer_groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """What a run found at a cluster's sources.

    Attributes:
        tree: Log directories, or what texts show of them.
        history: Brokers, leaders and configs over time.
        replicas: What the disks hold.
        groups: Described consumer groups: instant, row.
        problems: What was wrong, by source kind.
        roots: Source roots, for shortening paths.
        moving: Partitions of which a text tells that they are being moved; with a broker, between its disks.
        is_dumped: The tree is made of texts.
        live: What a live cluster answered; None where none is configured.
    """

    tree: LogTree
    history: ClusterHistory
    replicas: tuple[ReplicaState, ...]
    groups: tuple[tuple[int, ConsumerGroupMember], ...]
    problems: Mapping[str, tuple[Problem, ...]]
    roots: tuple[Path, ...]
    moving: frozenset[Moving] = frozenset()
    is_dumped: bool = False
    live: LiveReading | None = None

    @property
    def record_source(self) -> str:
        """Source kind that the records come from."""
        if self.live is not None:
            return LIVE_CLUSTER
        return DUMP_LOG if self.is_dumped else LOG_DIRECTORIES

    @property
    def has_records(self) -> bool:
        """Whether the records can be read, not only what batches or offsets tell of them."""
        return self.live.source.read == "record_batches" if self.live is not None else not self.is_dumped

    @property
    def directory_counts(self) -> Mapping[int, int]:
        """Log directories by broker, read or described."""
        if self.live is None:
            return count_directories(self.tree)
        return {} if self.live.state is None else self.live.state.directory_counts

    @property
    def spaces(self) -> Mapping[int, Mapping[str, DirectorySpace]]:
        """Volumes of log directories by broker and path, where the brokers tell."""
        return {} if self.live is None or self.live.state is None else self.live.state.spaces

    @property
    def broker_configs(self) -> Mapping[int, Mapping[str, str]]:
        """Configs that matter by broker, where a source tells them."""
        return {} if self.live is None or self.live.state is None else self.live.state.broker_configs

    def relative(self, path: str) -> str:
        """A path as it is under its source root, with the root's own name; unchanged where it lies in none."""
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

    Args:
        name: The cluster's name in the configuration.
        cluster: The configuration.
        windows: Of the run: what a live cluster is asked about.
        as_of_ms: The run's now.
        earlier: What earlier runs saw of a live cluster, oldest first.
    """
    live_source = next((s for s in cluster.sources if isinstance(s, LiveCluster)), None)
    if live_source is not None:
        return _with_live(
            cluster, read_live_cluster(name, cluster, live_source, windows, as_of_ms=as_of_ms, earlier=earlier)
        )
    return _read_files(cluster, as_of_ms)


def _with_live(cluster: Cluster, live: LiveReading) -> ClusterReading:
    files = _read_files(cluster, live.observed_at_ms)
    return replace(
        files,
        history=live.history,
        replicas=() if live.state is None else live.state.replicas,
        problems={**files.problems, LIVE_CLUSTER: live.problems},
        live=live,
    )


def _read_files(cluster: Cluster, as_of_ms: int) -> ClusterReading:
    problems: dict[str, list[Problem]] = defaultdict(list)
    dumps = [source for source in cluster.sources if isinstance(source, DumpLog)]
    dumped = discover_dumps(dumps)
    paths = [path for s in cluster.sources if isinstance(s, LogDirectories) for path in s.paths]
    tree = dumped.tree if dumps else discover_logs(paths)
    describe = next((s.path for s in cluster.sources if isinstance(s, TopicsDescribe)), None)
    history, history_problems = read_cluster_history(tree, topics_describe=describe)
    replicas, replica_problems = (dumped.replicas, ()) if dumps else read_replica_states(tree)
    leaders = history.state_at(as_of_ms).partitions
    described = read_described_replicas(cluster.sources, leaders, replicas, problems)
    moving = read_moving_partitions(cluster.sources, problems)
    problems[DUMP_LOG if dumps else LOG_DIRECTORIES] += [*tree.problems, *history_problems, *replica_problems]
    return ClusterReading(
        tree=with_topic_ids(tree, leaders) if dumps else tree,
        history=with_named_brokers(history) if dumps else history,
        replicas=(*replicas, *described),
        groups=read_described_groups(cluster.sources, problems),
        problems={kind: tuple(found) for kind, found in problems.items()},
        roots=tuple(_roots(cluster.sources)),
        moving=moving,
        is_dumped=bool(dumps),
    )


def _roots(sources: Sequence[Source]) -> list[Path]:
    roots = []
    for source in sources:
        paths: tuple[Path, ...] = getattr(source, "paths", ()) or tuple(filter(None, [getattr(source, "path", None)]))
        roots += [path if path.is_dir() else path.parent for path in paths]
    return roots
