"""What each host may speak for: the log directories of its brokers, and the partitions that metadata places on these."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from pipeline.model.cluster import ONLY_REPLICA, ClusterHistory
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import CLUSTER_METADATA_TOPIC, DirectoryKind, LogDirectory, PartitionDirectory
from pipeline.sources.collected.host import Host
from pipeline.sources.questions import name_some

_OTHERS_DIRECTORIES = "log directories that are not this broker's by the metadata, left out:"
_OTHERS_PARTITIONS = "partitions that the metadata does not place on this host, left out:"


def keep_what_is_placed(
    hosts: Sequence[Host], history: ClusterHistory, since_ms: int, problems: list[Problem]
) -> list[Host]:
    """Hosts without log directories and partitions that the metadata does not place on them; `problems` takes those.

    A partition counts as placed on every broker that ever was a replica of it. One that the metadata does not know may
    have been deleted before `known_since_ms`: it is left out where that is before `since_ms`, the first window's start.
    """
    if history.state_source == ONLY_REPLICA:
        return list(hosts)
    placement = _Placement(history, since_ms)
    return [_keep(host, placement, problems) for host in hosts]


class _Placement:
    def __init__(self, history: ClusterHistory, since_ms: int) -> None:
        self._is_whole = history.known_since_ms is not None and history.known_since_ms <= since_ms
        self._brokers = history.brokers
        self._replicas: dict[TopicPartition, list[tuple[str | None, frozenset[int]]]] = {}
        for key, timeline in history.partitions.items():
            states = [state for state in timeline.values if state is not None]
            self._replicas[key] = [(one.topic_id, frozenset((*one.replicas, *one.adding_replicas))) for one in states]

    def is_of_broker(self, directory: LogDirectory) -> bool:
        """False where the broker registered its log directories, and this is none of them."""
        timeline = self._brokers.get(-1 if directory.broker_id is None else directory.broker_id)
        registered = {one for broker in (timeline.values if timeline else ()) if broker for one in broker.directory_ids}
        return not registered or directory.directory_id is None or directory.directory_id in registered

    def allows(self, key: TopicPartition, topic_id: str | None, brokers: Collection[int | None]) -> bool:
        """Whether one of the brokers may hold the partition."""
        if key.topic == CLUSTER_METADATA_TOPIC:
            return True
        if key not in self._replicas:
            return not self._is_whole
        return None in brokers or any(
            not replicas.isdisjoint(brokers)
            for known_id, replicas in self._replicas[key]
            if not topic_id or known_id is None or topic_id == known_id
        )


def _keep(host: Host, placement: _Placement, problems: list[Problem]) -> Host:
    state, manifest = host.manifest.state, host.manifest
    own = [found for found in state.directories if placement.is_of_broker(found)]
    brokers = {directory.broker_id for directory in own}
    foreign: set[TopicPartition] = set()

    def is_placed(key: TopicPartition, topic_id: str | None, on: Collection[int | None]) -> bool:
        if placement.allows(key, topic_id, on):
            return True
        foreign.add(key)
        return False

    def keep(directory: LogDirectory) -> tuple[PartitionDirectory, ...]:
        on = {directory.broker_id}
        return tuple(one for one in directory.partitions if is_placed(one.topic_partition, one.topic_id, on))

    directories = tuple(replace(found, partitions=keep(found)) for found in own)
    replicas = tuple(
        one
        for one in state.replicas
        if one.broker_id in brokers and is_placed(one.topic_partition, one.topic_id, {one.broker_id})
    )
    progress = tuple(
        one for one in manifest.progress if is_placed(TopicPartition(one.topic, one.partition), one.topic_id, brokers)
    )
    others = [found.path for found in state.directories if found not in own]
    for what, names in ((_OTHERS_DIRECTORIES, others), (_OTHERS_PARTITIONS, [str(key) for key in sorted(foreign)])):
        if names:
            problems.append(Problem(path=host.folder.location, reason=name_some(what, names)))
    state = state.model_copy(update={"directories": directories, "replicas": replicas})
    return replace(host, manifest=manifest.model_copy(update={"state": state, "progress": progress}))


def list_disputes(hosts: Sequence[Host]) -> list[str]:
    """Hosts that say they are one broker and hold the same log directory, or the same partitions."""
    claims: dict[tuple[object, ...], set[str]] = defaultdict(set)
    for host in hosts:
        for directory in host.manifest.state.directories:
            node = directory.broker_id, directory.cluster_id
            if directory.broker_id is None:
                continue
            if directory.directory_id is not None:
                claims[*node, directory.directory_id].add(host.name)
            for one in directory.partitions:
                if one.kind is DirectoryKind.LIVE and not one.is_cluster_metadata:
                    claims[*node, one.topic, one.partition].add(host.name)
    found = sorted({(str(key[0]), ", ".join(sorted(names))) for key, names in claims.items() if len(names) > 1})
    return [
        f"{names} say they hold the same logs of broker {broker}: delete the folder that no collector writes"
        for broker, names in found
    ]
