"""The state of a running cluster at the moment it is asked: the values that log directories give otherwise."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pipeline.codec.tools.tool_text import DescribedReplica
from pipeline.model import cluster
from pipeline.model.cluster import LIVE_CLUSTER, NO_LEADER, EarlierState, PartitionState, ReplicaState, Timeline
from pipeline.model.log import Problem, TopicPartition, fits_topics
from pipeline.model.log_tree import CLUSTER_METADATA_TOPIC, KAFKA_TOPICS
from pipeline.sources.files.cluster_rows import TIERED, TOPIC_CONFIGS
from pipeline.sources.live import admin, requests
from pipeline.sources.live.admin import OffsetAt
from pipeline.sources.live.connection import ClusterConnection
from pipeline.sources.live.requests import Failures
from pipeline.sources.questions import name_some

_Partitions: TypeAlias = Mapping[TopicPartition, PartitionState]
_Offsets: TypeAlias = Mapping[TopicPartition, OffsetAt]
MOST_NAMED = 100  # questions without answer: a broker may make up any number of consumer groups
BROKER_CONFIGS = (
    *("num.io.threads", "num.network.threads", "log.dirs", "log.retention.ms", "log.retention.hours"),
    *("auto.leader.rebalance.enable", "leader.imbalance.per.broker.percentage", "inter.broker.protocol.version"),
    "replica.selector.class",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    # the state now, and leaders of other epochs: brokers that a replica list names and that do not answer are fenced
    history: cluster.ClusterHistory
    partitions: Mapping[TopicPartition, PartitionState]
    in_scope: tuple[TopicPartition, ...]  # partitions whose records are wanted; the state is that of all we may see
    replicas: tuple[ReplicaState, ...]  # what the brokers' disks hold; sizes only where they may be asked for
    log_starts: Mapping[TopicPartition, OffsetAt]  # first offset that can be read, by partition whose leader answers
    high_watermarks: Mapping[TopicPartition, OffsetAt]  # offset after the last committed record, likewise
    broker_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    directory_counts: Mapping[int, int] = field(default_factory=dict)
    spaces: Mapping[int, Mapping[str, cluster.DirectorySpace]] = field(default_factory=dict)
    leader_sizes: Mapping[TopicPartition, int] = field(default_factory=dict)  # bytes of the leaders' logs, where known
    silent_brokers: Mapping[int, str] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    dissenters: Mapping[str, str] = field(default_factory=dict)  # by address, what a broker says otherwise than most
    unheard: tuple[str, ...] = ()  # bootstrap addresses that did not answer
    # when partitions that nobody leads were first seen so by another run: they got no record since
    leaderless_since_ms: Mapping[TopicPartition, int] = field(default_factory=dict)


def read_live_state(
    connection: ClusterConnection,
    topics: Collection[str] = (),
    *,
    internal_topics: bool = True,
    at_ms: int = 0,
    earlier: Sequence[EarlierState] = (),
) -> LiveState:
    """Asks all brokers for the cluster's state, as of `at_ms`; `earlier`: what other runs saw of it, oldest first."""
    failures = Failures()
    metadata = admin.ask_metadata(connection)
    left_out = {CLUSTER_METADATA_TOPIC, *(() if internal_topics else metadata.internal_topics)}
    in_scope = tuple(k for k in metadata.partitions if fits_topics(k.topic, topics) and k.topic not in left_out)
    leaders = {key: state.leader_id for key, state in metadata.partitions.items()}
    log_starts = admin.ask_offsets(connection, leaders, admin.EARLIEST, failures)
    high_watermarks = admin.ask_offsets(connection, leaders, admin.LATEST, failures)
    known = {key.topic for key in metadata.partitions}
    seen = {one.topic for one in earlier if internal_topics or one.topic not in KAFKA_TOPICS}
    _note_unread(connection, topics, known, seen, failures, is_any_read=bool(in_scope))
    if metadata.impossible:
        failures.questions[name_some("partitions", sorted(map(str, metadata.impossible)))] = "no topic has so many"
    failures.partitions |= dict.fromkeys(metadata.contested, "brokers name different leaders, none of them most often")
    failures.partitions |= dict.fromkeys(metadata.unlisted, "its leader has no listener for this address")
    disks, spaces = requests.ask_log_directories(connection, metadata.brokers, metadata.partitions, failures)
    answering = sorted(metadata.brokers.keys() - failures.brokers.keys())
    names = (*TOPIC_CONFIGS, TIERED)
    configs = requests.ask_topic_configs(connection, answering, sorted(known), names, failures)
    partitions = dict(metadata.partitions)
    for key, (adding, removing) in requests.ask_reassignments(connection, answering, failures).items():
        if key in partitions:
            partitions[key] = replace(partitions[key], adding_replicas=adding, removing_replicas=removing)
    on_leaders = [d for d in disks if not d.is_future and leaders.get(d.topic_partition) == d.broker_id]
    fenced = {one: cluster.Broker(broker_id=one, is_fenced=True) for one in metadata.absent_brokers}
    return LiveState(
        history=cluster.ClusterHistory(
            state_source=LIVE_CLUSTER,
            known_since_ms=at_ms,
            brokers={broker_id: Timeline.always(broker) for broker_id, broker in (metadata.brokers | fenced).items()},
            partitions=_timelines(partitions, at_ms, earlier),
            topic_configs={topic: Timeline.always(values) for topic, values in configs.items()},
        ),
        partitions=partitions,
        in_scope=in_scope,
        replicas=_replica_states(partitions, disks, log_starts, high_watermarks),
        log_starts=log_starts,
        high_watermarks=high_watermarks,
        broker_configs=requests.ask_broker_configs(connection, metadata.brokers, BROKER_CONFIGS, failures),
        directory_counts=dict(Counter(broker_id for broker_id, _ in {(d.broker_id, d.log_directory) for d in disks})),
        spaces=spaces,
        leader_sizes={d.topic_partition: d.size_bytes for d in on_leaders},
        silent_brokers=dict.fromkeys(metadata.absent_brokers, "it is not in the cluster") | failures.brokers,
        failures=failures,
        dissenters=metadata.dissenters,
        unheard=connection.unheard,
        leaderless_since_ms=_find_leaderless(partitions, failures, earlier),
    )


def _find_leaderless(
    partitions: _Partitions, failures: Failures, earlier: Sequence[EarlierState]
) -> dict[TopicPartition, int]:
    since_ms: dict[TopicPartition, int] = {}
    for other in earlier:
        key = TopicPartition(other.topic, other.partition)
        now = partitions.get(key)
        is_same = now is not None and (other.topic_id, other.leader_epoch) == (now.topic_id or "", now.leader_epoch)
        is_leaderless = other.leader_id == NO_LEADER and failures.partitions.get(key) == admin.LEADERLESS
        if is_same and is_leaderless and other.leader_epoch is not None and other.observed_at_ms is not None:
            since_ms[key] = min(other.observed_at_ms, since_ms.get(key, other.observed_at_ms))
    return since_ms


def _note_unread(
    connection: ClusterConnection,
    topics: Collection[str],
    known: Collection[str],
    seen: Collection[str],
    failures: Failures,
    *,
    is_any_read: bool,
) -> None:
    """Notes topics that we may not describe, and patterns of `topics` that no topic fits; `seen` are those of other runs."""
    wanted = [pattern for pattern in topics if not pattern.startswith("!")]
    asked = {*seen, *(pattern for pattern in wanted if not {*"*?["} & {*pattern})} - {*known}
    admin.find_denied(connection, {topic for topic in asked if fits_topics(topic, topics)}, failures)
    unmet = (one for one in wanted if not any(fits_topics(topic, (one,)) for topic in known))
    idle = [one for one in unmet if one not in failures.topics]
    if is_any_read:
        failures.questions |= {f"topics like {pattern}": "none is there: see `topics`" for pattern in idle}
    elif topics:
        failures.topics |= dict.fromkeys(idle, "no topic fits this pattern of `topics`")
        failures.topics |= {} if failures.topics else {"*": "`topics` leaves out every topic"}


def describe_unanswered(state: LiveState, name: str) -> list[Problem]:
    unanswered = [f"broker {broker_id} does not answer: {reason}" for broker_id, reason in state.silent_brokers.items()]
    contradicts = "contradicts most brokers about the addresses or leaders"
    unanswered += [f"{address} {contradicts} {said}" for address, said in state.dissenters.items()]
    unanswered += [f"sizes are not known in {failed}" for failed in state.failures.directories.values()]
    unanswered += [f"{address} of `bootstrap_servers` does not answer" for address in state.unheard]
    questions = [(f"partitions of {topic}", reason) for topic, reason in state.failures.topics.items()]
    questions += state.failures.questions.items()
    unanswered += [f"{question} are not known: {reason}" for question, reason in questions[:MOST_NAMED]]
    if questions[MOST_NAMED:]:
        unanswered.append(f"{len(questions) - MOST_NAMED:,} more answers are not known")
    unread = {key: reason for key, reason in state.failures.partitions.items() if key not in state.high_watermarks}
    return [
        *(Problem(path=name, reason=reason, severity="suspect") for reason in unanswered),
        *(Problem(path=f"{name}/{key}", reason=f"not read: {reason}") for key, reason in unread.items()),
    ]


def _timelines(
    partitions: _Partitions, at_ms: int, earlier: Sequence[EarlierState]
) -> dict[TopicPartition, Timeline[PartitionState]]:
    """Leader epochs, each since it was first observed, and the present state; none earlier of topics without an id."""
    seen: dict[TopicPartition, dict[int | None, tuple[int, PartitionState]]] = {key: {} for key in partitions}
    led_terms = {
        (one.topic, one.partition, one.topic_id, one.leader_epoch) for one in earlier if one.leader_id != NO_LEADER
    }
    for other in earlier:
        now = partitions.get(TopicPartition(other.topic, other.partition))
        term = other.topic, other.partition, other.topic_id, other.leader_epoch
        if other.leader_id == NO_LEADER and (term in led_terms or other.leader_epoch is None):
            continue  # brokers named different leaders
        if now is None or not other.topic_id or other.topic_id != now.topic_id:
            continue
        led = replace(now, leader_id=other.leader_id, leader_epoch=other.leader_epoch)
        since_ms = at_ms if other.observed_at_ms is None else min(at_ms, other.observed_at_ms)
        seen[now.topic_partition][other.leader_epoch] = (since_ms, led)
    timelines = {}
    for key, now in partitions.items():
        terms = seen[key]
        since_ms, _ = terms.get(now.leader_epoch, (at_ms, now))
        terms[now.leader_epoch] = (since_ms, now)
        ordered = sorted(terms.values(), key=lambda term: (term[0], term[1] is now, term[1].leader_epoch or 0))
        # a run over a later window saw the next leader: this one's state is of its own time
        if ordered[-1][1] is not now:
            ordered.append((at_ms, now))
        timelines[key] = Timeline(tuple(moment for moment, _ in ordered), tuple(state for _, state in ordered))
    return timelines


def _replica_states(
    partitions: _Partitions, disks: list[DescribedReplica], log_starts: _Offsets, high_watermarks: _Offsets
) -> tuple[ReplicaState, ...]:
    """Brokers do not report a replica's log end offset: the high watermark, less a follower's lag, stands for it."""
    on_disk = {(d.topic_partition, d.broker_id): d for d in disks if not d.is_future}
    states = []
    for key, partition in partitions.items():
        high = high_watermarks.get(key)
        start = log_starts.get(key)
        for broker_id in partition.replicas:
            disk = on_disk.get((key, broker_id))
            if disk is None and broker_id != partition.leader_id:
                continue
            lag = max(0, disk.offset_lag) if disk is not None and broker_id != partition.leader_id else 0
            states.append(
                ReplicaState(
                    topic=key.topic,
                    topic_id=partition.topic_id,
                    partition=key.partition,
                    broker_id=broker_id,
                    log_directory=disk.log_directory if disk else "",
                    log_start_offset=start.offset if start else None,
                    log_end_offset=high.offset - lag if high else None,
                    high_watermark=high.offset if high and broker_id == partition.leader_id else None,
                    size_bytes=disk.size_bytes if disk else None,
                )
            )
    return tuple(states)
