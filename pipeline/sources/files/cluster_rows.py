"""Rows of bronze tables from what was read: brokers, replicas, consumer groups, and problems."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.model import cluster as nouns
from pipeline.model.cluster import LIVE_CLUSTER, NO_LEADER, ClusterHistory, ClusterState, PartitionState, ReplicaState
from pipeline.model.log import LogName, Problem, TopicPartition
from pipeline.model.log_tree import LogTree
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import TimeWindow, instant_of
from pipeline.model.window_state import away_ms, state_of_window

DiskColumns = dict[str, dict[str, int]]
Moving = tuple[TopicPartition, int | None]
"""A partition that is being moved; with a broker, between that broker's disks."""
TIERED = "remote.storage.enable"
_OF_LOGS = ("retention.ms", "retention.bytes", "segment.bytes")
TOPIC_CONFIGS = ("min.insync.replicas", "cleanup.policy", *_OF_LOGS, nouns.TIME_AHEAD)


def count_directories(tree: LogTree, registered: Collection[int] = ()) -> dict[int, int]:
    """Log directories by broker; a node with the metadata log alone, a controller, counts only if registered."""
    logs = [directory for directory in tree.directories if directory.broker_id is not None]
    bearing = (log for log in logs if not log.partitions or any(not one.is_cluster_metadata for one in log.partitions))
    brokers = {*registered, *(log.broker_id for log in bearing)}
    return dict(Counter(log.broker_id for log in logs if log.broker_id is not None and log.broker_id in brokers))


class WindowState(NamedTuple):
    window: TimeWindow
    state: ClusterState  # at its end
    is_observed: bool  # all of it is known; else only what leader epochs prove, and what was observed later stays out
    observed_at_ms: int | None  # of which moment the state is; None where the source does not say
    observed: Mapping[TopicPartition, PartitionState]  # as a live cluster answered for it: leaders may have moved since
    steady: frozenset[int] = frozenset()  # brokers that stood from within the window to the answer that closed it

    @property
    def is_of_window(self) -> bool:
        """Whether in-sync sets, lags and absent brokers are of the window: not if a live cluster was asked later."""
        is_live = self.state.state_source == LIVE_CLUSTER
        return not is_live or self.observed_at_ms is None or self.observed_at_ms in self.window

    @property
    def columns(self) -> dict[str, Any]:
        observed_at = None if self.observed_at_ms is None else instant_of(self.observed_at_ms)
        return {"window_start": instant_of(self.window.start_ms), "observed_at": observed_at}


def describe_window(
    history: ClusterHistory,
    window: TimeWindow,
    epochs: Mapping[LogName, int] | None = None,
    newest: TimeWindow | None = None,
) -> WindowState:
    """The cluster's state at a window's end; `epochs`: each partition's largest in it; `newest`: the window of what is observed."""
    state, is_observed = state_of_window(history, window.end_ms, epochs or {}, is_newest=window == newest)
    at_ms = history.known_since_ms
    if at_ms is not None and history.state_source != LIVE_CLUSTER:
        at_ms = max(window.end_ms, at_ms)
    is_answer = is_observed and history.state_source == LIVE_CLUSTER
    answer = history.state_at(history.known_since_ms or 0).partitions if is_answer else {}
    is_closed = answer and at_ms is not None and window.end_ms <= at_ms < window.end_ms + window.duration_ms
    led = [now for now in answer.values() if now.leader_id != NO_LEADER and now.leader_epoch is not None]
    # who leads in a leader epoch that the window's batches bear: one that left would have lost it
    steady = {now.leader_id for now in led if is_closed and (epochs or {}).get(now.log_name) == now.leader_epoch}
    return WindowState(window, state, is_observed, at_ms, answer, frozenset(steady))


def iter_broker_rows(
    cluster: str,
    history: ClusterHistory,
    directory_counts: Mapping[int, int],
    known: WindowState,
    broker_configs: Mapping[int, Mapping[str, str]],
    *,
    disks: Mapping[int, DiskColumns] | None = None,
) -> Iterator[dict[str, Any]]:
    """A row per broker: those registered at the window's end, and those with log directories found or described."""
    registered = known.state.brokers
    imbalance = _leader_imbalance(known.state)
    doubts = history.list_doubts(nouns.StateSubject.BROKERS, known.window.end_ms)
    is_told = known.is_observed and known.is_of_window and not doubts
    for broker_id in sorted(set(directory_counts) | set(registered)):
        broker = registered.get(broker_id)
        # Kafka places no replica on a broker that is not registered, or whose log directories are all cordoned
        cordoned = {*broker.cordoned_directory_ids} if broker else set()
        takes_replicas = broker is not None and (not cordoned or bool({*broker.directory_ids} - cordoned))
        yield {
            "cluster": cluster,
            **known.columns,
            "broker_id": broker_id,
            "rack": broker.rack if broker else None,
            "is_fenced": broker.is_fenced if broker and is_told else None,
            "away_ms": None if doubts else away_ms(history, broker_id, known.window.start_ms, known.window.end_ms),
            "takes_replicas": takes_replicas and not doubts if registered else None,
            "doubt": "; ".join(doubts) or None,
            "log_directory_count": directory_counts.get(broker_id, 0),
            "preferred_leader_imbalance_ratio": imbalance.get(broker_id),
            "configs": dict(broker_configs.get(broker_id, {})) if known.is_observed else {},
            **((disks or {}).get(broker_id, {}) if known.is_observed else {}),
            "state_source": history.state_source if broker else "log_directories",
        }


def disk_columns(
    replicas: Iterable[ReplicaState],
    spaces: Mapping[int, Mapping[str, nouns.DirectorySpace]],
    relative: Callable[[str], str],
) -> dict[int, DiskColumns]:
    """Columns `log_dir_bytes`, `log_dir_total_bytes`, `log_dir_usable_bytes` of brokers: of volumes, else replicas."""
    held: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for replica in replicas:
        if replica.broker_id is not None and replica.size_bytes is not None and replica.log_directory:
            held[replica.broker_id][relative(replica.log_directory)] += replica.size_bytes
    return {
        broker_id: {
            "log_dir_bytes": dict(held.get(broker_id, {})),
            "log_dir_total_bytes": {relative(path): s.total_bytes for path, s in spaces.get(broker_id, {}).items()},
            "log_dir_usable_bytes": {relative(path): s.usable_bytes for path, s in spaces.get(broker_id, {}).items()},
        }
        for broker_id in sorted({*held, *spaces})
    }


def _leader_imbalance(state: ClusterState) -> dict[int, float]:
    """By broker, the part of the partitions it should lead that it does not; less those of which nothing is known."""
    leads: dict[int, list[bool]] = defaultdict(list)
    for partition in state.partitions.values():
        broker_id = partition.preferred_leader_id
        is_known = partition.leader_id != NO_LEADER or partition.isr is not None
        if broker_id != NO_LEADER and len(partition.replicas) > 1 and is_known:
            leads[broker_id].append(partition.leader_id == broker_id)
    return {broker_id: led.count(False) / len(led) for broker_id, led in leads.items()}


def iter_cluster_state_rows(
    cluster: str,
    replicas: Iterable[ReplicaState],
    known: WindowState,
    relative: Callable[[str], str],
    *,
    moving: Collection[Moving] = (),
) -> Iterator[dict[str, Any]]:
    """A row per replica: leader and in-sync set at the window's end, sizes as found on disk; leaders only where not observed."""
    found = replicas if known.is_observed else ()
    on_disk = {(one.topic_partition, one.broker_id): one for one in found if not one.is_future}
    topics = {key.topic: known.state.topic_config(key.topic) for key in known.state.partitions}
    configs = {topic: {name: of[name] for name in TOPIC_CONFIGS if name in of} for topic, of in topics.items()}
    for key, partition in known.state.partitions.items():
        leader, answer = on_disk.get((key, partition.leader_id)), known.observed.get(key)
        for position, replica_id in enumerate(partition.replicas):
            on_replica = on_disk.get((key, replica_id))
            is_told = known.is_of_window or replica_id in known.steady  # whether its replicas were in sync
            yield {
                "cluster": cluster,
                **known.columns,
                **{name: getattr(partition, name) for name in ("topic", "partition", "leader_id", "leader_epoch")},
                "topic_id": partition.topic_id or (on_replica.topic_id if on_replica else None) or "",
                "configs": configs[key.topic],
                "state_source": known.state.state_source,
                "replica_id": replica_id,
                "replica_position": position,
                "observed_leader_id": None if answer is None else answer.leader_id,
                "observed_leader_epoch": None if answer is None else answer.leader_epoch,
                "is_leader": replica_id == partition.leader_id,
                "is_preferred_leader": position == 0,
                "is_in_sync": replica_id in partition.isr if partition.isr is not None and is_told else None,
                "reassignment": _reassignment(partition, replica_id, moving if known.is_observed else ()),
                **_disk_columns(on_replica, leader if known.is_of_window else None, relative),
            }


def with_leaders(rows: Iterable[dict[str, Any]], state: ClusterState) -> Iterator[dict[str, Any]]:
    for row in rows:
        known = state.partitions.get(TopicPartition(row["topic"], row["partition"]))
        if known is not None and known.leader_id != NO_LEADER and known.log_name.topic_id == row["topic_id"]:
            is_leader = row["replica_id"] == known.leader_id
            row |= {"leader_id": known.leader_id, "leader_epoch": known.leader_epoch, "is_leader": is_leader}
        yield row


def _reassignment(partition: PartitionState, replica_id: int, moving: Collection[Moving]) -> str | None:
    if replica_id in partition.adding_replicas:
        return "adding"
    if replica_id in partition.removing_replicas:
        return "removing"
    is_known = bool(partition.adding_replicas or partition.removing_replicas)
    named = {(partition.topic_partition, replica_id)} | (set() if is_known else {(partition.topic_partition, None)})
    return None if named.isdisjoint(moving) else "moving"


def _disk_columns(
    replica: ReplicaState | None, leader: ReplicaState | None, relative: Callable[[str], str]
) -> dict[str, Any]:
    if replica is None:
        return {}
    end, leader_end = replica.log_end_offset, leader.log_end_offset if leader else None
    named = ("log_start_offset", "log_end_offset", "high_watermark", "size_bytes")
    return {
        **{name: getattr(replica, name) for name in named},
        "lag_count": None if end is None or leader_end is None else leader_end - end,
        "log_directory": relative(replica.log_directory),
    }


def compacted_topics(state: ClusterState, tree: LogTree) -> frozenset[str]:
    """Topics whose `cleanup.policy` holds compact, or that live brokers do not tell, and those a cleaner has a checkpoint for."""
    untold = "compact" if state.state_source == LIVE_CLUSTER else ""
    topics = {key.topic for key in state.partitions} | state.topic_configs.keys()
    by_config = {topic for topic in topics if "compact" in state.topic_config(topic).get("cleanup.policy", untold)}
    by_cleaner = {key.topic for directory in tree.directories for key in directory.cleaner_offsets}
    return frozenset(by_config | by_cleaner)


def problems_of(rows: Iterable[Mapping[str, Any]]) -> list[Problem]:
    names = ("path", "position", "reason", "severity")
    return [
        Problem(**{name: row[name] for name in names}, first_bytes=bytes.fromhex(row["first_bytes_hex"]))
        for row in rows
    ]


def iter_quarantine_rows(
    cluster: str, problems: Mapping[str, Iterable[Problem]], relative: Callable[[str], str]
) -> Iterator[dict[str, Any]]:
    """One row per problem, each once; `problems` are by source, `relative` shows a path as it is under its root."""
    seen: set[tuple[str, int, str]] = set()
    for source, of_source in problems.items():
        for problem in of_source:
            path, position = relative(problem.path), -1 if problem.position is None else problem.position
            reason = escape_hidden(problem.reason)  # whoever reads the row may do so in a terminal
            if (path, position, reason) not in seen:
                seen.add((path, position, reason))
                place = {"cluster": cluster, "source": source, "path": path, "position": position}
                found = {"severity": problem.severity, "first_bytes_hex": problem.first_bytes.hex()}
                yield {**place, "reason": reason, **found}
