"""Everything a cluster's file sources say without reading batches: disks, leaders, replicas, groups, scrapes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.codec.consumer_group_text import parse_consumer_groups
from pipeline.config import BrokerMetrics, ConsumerGroups, LogDirectories, ProducerMetrics, TopicsDescribe
from pipeline.errors import InputError
from pipeline.model.log import Problem
from pipeline.sources.cluster_state import read_cluster_history, read_replica_states
from pipeline.sources.log_directories import discover_logs
from pipeline.sources.metric_pages import discover_pages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.config import Cluster, Source
    from pipeline.model.cluster import ClusterHistory, ReplicaState
    from pipeline.model.consumer_group import ConsumerGroupMember
    from pipeline.model.log_tree import LogTree
    from pipeline.sources.metric_pages import MetricPage

LOG_DIRECTORIES = "log_directories"
CONSUMER_GROUPS = "consumer_groups"
METRIC_SOURCES = ("producer_metrics", "broker_metrics")
_EPOCH_MS = re.compile(r"(\d{13})(?=\D*$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """What a run found at a cluster's sources.

    Attributes:
        tree: Log directories.
        history: Brokers, leaders and configs over time.
        replicas: What the disks hold.
        groups: Described consumer groups: instant, row.
        pages: Scrapes by source kind.
        problems: What was wrong, by source kind.
        roots: Source roots, for shortening paths.
    """

    tree: LogTree
    history: ClusterHistory
    replicas: tuple[ReplicaState, ...]
    groups: tuple[tuple[int, ConsumerGroupMember], ...]
    pages: Mapping[str, tuple[MetricPage, ...]]
    problems: Mapping[str, tuple[Problem, ...]]
    roots: tuple[Path, ...]

    def relative(self, path: str) -> str:
        """A path as it is under its source root, with the root's own name; unchanged where it lies in none."""
        for root in self.roots:
            if Path(path).is_relative_to(root):
                return str(Path(root.name, Path(path).relative_to(root)))
        return path


def read_cluster(cluster: Cluster) -> ClusterReading:
    """Reads every configured source of a cluster; what is wrong with one never hides another."""
    problems: dict[str, list[Problem]] = defaultdict(list)
    paths = [path for s in cluster.sources if isinstance(s, LogDirectories) for path in s.paths]
    tree = discover_logs(paths)
    describe = next((s.path for s in cluster.sources if isinstance(s, TopicsDescribe)), None)
    history, history_problems = read_cluster_history(tree, topics_describe=describe)
    replicas, replica_problems = read_replica_states(tree)
    problems[LOG_DIRECTORIES] += [*tree.problems, *history_problems, *replica_problems]
    groups = [row for s in cluster.sources if isinstance(s, ConsumerGroups) for row in _read_groups(s, problems)]
    pages: dict[str, tuple[MetricPage, ...]] = {}
    for source in cluster.sources:
        if isinstance(source, ProducerMetrics | BrokerMetrics):
            found, page_problems = discover_pages(source.path, source.kind)
            pages[source.kind] = pages.get(source.kind, ()) + found
            problems[source.kind] += page_problems
    return ClusterReading(
        tree=tree,
        history=history,
        replicas=replicas,
        groups=tuple(groups),
        pages=pages,
        problems={kind: tuple(found) for kind, found in problems.items()},
        roots=tuple(_roots(cluster.sources)),
    )


def _roots(sources: Sequence[Source]) -> list[Path]:
    roots = []
    for source in sources:
        paths = source.paths if isinstance(source, LogDirectories | ConsumerGroups) else (source.path,)
        roots += [path if path.is_dir() else path.parent for path in paths]
    return roots


def _read_groups(source: ConsumerGroups, problems: dict[str, list[Problem]]) -> list[tuple[int, ConsumerGroupMember]]:
    rows: list[tuple[int, ConsumerGroupMember]] = []
    for path in sorted(_group_texts(source)):
        instant = _EPOCH_MS.search(path.stem)
        if instant is None:
            reason = "no instant in the file name: expected <name>-<epoch ms>.txt"
            problems[source.kind].append(Problem(path=str(path), position=None, reason=reason))
            continue
        try:
            members = parse_consumer_groups(path.read_text(encoding="utf-8"), path=path)
        except (InputError, OSError, UnicodeDecodeError) as error:
            position = error.position if isinstance(error, InputError) else None
            reason = error.reason if isinstance(error, InputError) else f"cannot be read: {error}"
            problems[source.kind].append(Problem(path=str(path), position=position, reason=reason))
            continue
        rows += [(int(instant[1]), member) for member in members if member.topic is not None]
    return rows


def _group_texts(source: ConsumerGroups) -> list[Path]:
    """The files named, and those in the folders named."""
    return [
        text
        for path in source.paths
        for text in (path.glob("*consumer-groups*.txt") if path.is_dir() else path.parent.glob(path.name))
    ]
