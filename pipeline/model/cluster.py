"""A Kafka cluster at a moment and over time: brokers, replicas, leaders, configs."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, NamedTuple, Self, TypeVar

from pipeline.model.log import OfPartition, TopicPartition, is_partition_number

NO_LEADER = -1  # no leader, or none that is known

CLUSTER_METADATA = "cluster_metadata"
TOPICS_DESCRIBE = "topics_describe"
ONLY_REPLICA = "only_replica"
LIVE_CLUSTER = "live_cluster"
TIME_AHEAD = "message.timestamp.after.max.ms"  # how far ahead of its coming a record may be stamped
_EARLIEST_MS = -(2**63)
MAX_NAME_LENGTH = 1_024  # characters of what consumers choose; Kafka takes 32,767, and all rows of a group hold them

T = TypeVar("T")


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered broker; -1, None or empty for what the source does not say."""

    broker_id: int
    broker_epoch: int = -1
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()
    directory_ids: tuple[str, ...] = ()
    cordoned_directory_ids: tuple[str, ...] = ()  # of these, the ones that take no new replica (KIP-1066)
    is_fenced: bool = False  # takes no part: just registered, or gone
    is_in_controlled_shutdown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState(OfPartition):
    """Leader and replicas of a partition; `NO_LEADER`, None or empty where the source lacks them."""

    leader_id: int
    leader_epoch: int | None
    replicas: tuple[int, ...]  # brokers in assignment order; the first is the preferred leader
    isr: tuple[int, ...] | None
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directory_ids: tuple[str, ...] = ()  # disk of each replica, in the order of `replicas`
    partition_epoch: int | None = None

    @property
    def preferred_leader_id(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def eligible_leaders(self) -> frozenset[int]:
        """Brokers whose election loses nothing: the in-sync set and the eligible leader replicas (KIP-966)."""
        return frozenset((*(self.isr or ()), *self.eligible_leader_replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState(OfPartition):
    broker_id: int | None  # broker; None where its `meta.properties` is absent
    log_directory: str
    directory_id: str | None = None
    log_start_offset: int | None = None  # first offset that may be read: of the checkpoint, else of the first segment
    log_end_offset: int | None = None  # next offset to be written; None where no segment could be read
    # From `replication-offset-checkpoint`; None where it is not in there. Written every 5 s: it may lag behind the log.
    high_watermark: int | None = None
    size_bytes: int | None = 0
    is_future: bool = False  # a copy being moved between disks of this broker
    leader_epoch: int = -1  # of its last batch, where no `leader-epoch-checkpoint` tells epochs

    @property
    def order(self) -> tuple[TopicPartition, bool, int, bool]:
        """Place in a list of replicas: by partition and broker, one without a broker last."""
        return self.topic_partition, self.broker_id is None, self.broker_id or 0, self.is_future


class DirectorySpace(NamedTuple):
    total_bytes: int
    usable_bytes: int


class LeaderTerm(NamedTuple):
    """A broker's time as leader of a partition; None for what the source does not say."""

    topic_id: str | None  # of the topic at that time: a topic deleted and made again starts over at epoch 0
    leader_epoch: int | None
    leader_id: int
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    at_ms: int
    state_source: str  # `cluster_metadata`, `topics_describe`, `only_replica`
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    default_configs: Mapping[str, str] = field(default_factory=dict)  # dynamic ones; those of files are not known

    @property
    def leaders(self) -> dict[TopicPartition, int]:
        return {key: state.leader_id for key, state in self.partitions.items() if state.leader_id != NO_LEADER}

    def topic_config(self, topic: str) -> dict[str, str]:
        return {**self.default_configs, **self.topic_configs.get(topic, {})}


@dataclass(frozen=True, slots=True)
class Timeline(Generic[T]):
    """A value that changes: `values[i]` holds from `moments_ms[i]` on; None means it was removed."""

    moments_ms: tuple[int, ...] = ()
    values: tuple[T | None, ...] = ()

    @classmethod
    def always(cls, *values: T) -> Self:
        """Values one after another of which no moment is known; the last one holds at every moment."""
        return cls(tuple(range(_EARLIEST_MS, _EARLIEST_MS + len(values))), values)

    def at(self, at_ms: int) -> T | None:
        """The value at a moment; None before the first one."""
        index = bisect_right(self.moments_ms, at_ms)
        return self.values[index - 1] if index else None

    def list_values(self, since_ms: int, until_ms: int) -> tuple[T | None, ...]:
        """The values that held between two moments; the first one where it began later."""
        begun = max(1, bisect_right(self.moments_ms, since_ms))
        return self.values[begun - 1 : max(begun, bisect_right(self.moments_ms, until_ms))]


class StateSubject(StrEnum):
    BROKERS = "brokers"  # who is registered, on which rack, and who is fenced
    PARTITIONS = "partitions"  # topics, replicas, leaders, in-sync sets
    CONFIGS = "configs"


class UnreadState(NamedTuple):
    """Something of a source that could not be read: from then on what it is about is not known."""

    at_ms: int | None  # UTC milliseconds; None: not known at any time
    subjects: frozenset[StateSubject]
    reason: str  # what could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHistory:
    state_source: str
    # from when on states are known: the first record, a metadata snapshot's, or when a live cluster was asked; leaders of
    # earlier epochs may be known from before. None for a source of one state without a time, taken to hold always
    known_since_ms: int | None = None
    brokers: Mapping[int, Timeline[Broker]] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, Timeline[PartitionState]] = field(default_factory=dict)
    topic_configs: Mapping[str, Timeline[Mapping[str, str]]] = field(default_factory=dict)
    default_configs: Timeline[Mapping[str, str]] = Timeline()
    unread: tuple[UnreadState, ...] = ()  # what the source holds and could not be read
    newest_ms: int | None = None  # time of a metadata log's newest record: controllers write some while nothing changes
    # for how long at most none came of late; None where controllers write none by themselves
    quiet_ms: int | None = None

    @classmethod
    def always(
        cls, state_source: str, states: Iterable[PartitionState], configs: Mapping[str, Mapping[str, str]]
    ) -> Self:
        return cls(
            state_source=state_source,
            partitions={state.topic_partition: Timeline.always(state) for state in states},
            topic_configs={topic: Timeline.always(values) for topic, values in configs.items()},
        )

    def state_at(self, at_ms: int) -> ClusterState:
        """The cluster at a moment, its changes included; before `known_since_ms` the first known state: a first leader is a good guess."""
        at_ms = at_ms if self.known_since_ms is None else max(at_ms, self.known_since_ms)
        partitions = {key: timeline.at(at_ms) for key, timeline in sorted(self.partitions.items())}
        brokers = {key: timeline.at(at_ms) for key, timeline in sorted(self.brokers.items())}
        configs = {key: timeline.at(at_ms) for key, timeline in sorted(self.topic_configs.items())}
        return ClusterState(
            at_ms=at_ms,
            state_source=self.state_source,
            brokers={key: value for key, value in brokers.items() if value is not None},
            partitions={key: value for key, value in partitions.items() if value is not None},
            topic_configs={key: value for key, value in configs.items() if value},
            default_configs=self.default_configs.at(at_ms) or {},
        )

    def list_doubts(self, subject: StateSubject, end_ms: int) -> tuple[str, ...]:
        """Lists what could not be read of a part of the state before a moment, each once; it may be wrong since."""
        unread = (one for one in self.unread if subject in one.subjects and (one.at_ms is None or one.at_ms < end_ms))
        return tuple(dict.fromkeys(one.reason for one in unread))

    def leader_terms(self, topic_partition: TopicPartition) -> tuple[LeaderTerm, ...]:
        """Leaders of a partition, oldest first; one entry per leader epoch."""
        timeline = self.partitions.get(topic_partition, Timeline())
        terms: dict[tuple[str | None, int | None], LeaderTerm] = {}
        for since_ms, state in zip(timeline.moments_ms, timeline.values, strict=True):
            if state is not None:
                since = None if self.known_since_ms is None else since_ms
                term = LeaderTerm(state.topic_id, state.leader_epoch, state.leader_id, since)
                terms.setdefault((state.topic_id, state.leader_epoch), term)
        return tuple(terms.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """What a group consumes of a partition, and who does, as `kafka-consumer-groups` prints it; None for what the line lacks."""

    group_id: str
    topic: str | None
    partition: int | None
    committed_offset: int | None
    log_end_offset: int | None
    lag_count: int | None
    member_id: str | None
    client_host: str | None
    client_id: str | None
    assignor: str | None = None

    @property
    def name_lengths(self) -> tuple[int, ...]:
        """Characters of what consumers and coordinators choose."""
        names = (self.group_id, self.member_id, self.client_host, self.client_id, self.assignor)
        return tuple(len(name or "") for name in names)

    @property
    def can_be(self) -> bool:
        return max(self.name_lengths) <= MAX_NAME_LENGTH and is_partition_number(self.partition or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierState:
    """A partition as its leader reported it; None for what it did not report."""

    window_start_ms: int  # the run's window, UTC milliseconds
    topic: str
    topic_id: str  # topic id, or ""
    partition: int
    leader_id: int
    leader_epoch: int | None
    log_start_offset: int | None
    log_end_offset: int | None  # high watermark; None where not reported
    size_bytes: int | None
    told_at_ms: int | None = None  # when the leader reported it
    observed_at_ms: int | None = None  # when its leader epoch was first observed
    settled_offset: int | None = None  # end of the log an hour or more before the span, as this leader said
    time_ahead_ms: int | None = None  # the largest `TIME_AHEAD` that runs saw, from an hour or more before the span on


def retention_ms(configs: Mapping[str, str]) -> int | None:
    """`retention.ms` where the topic sets it; None where it is not known or unlimited."""
    value = configs.get("retention.ms")
    return int(value) if value is not None and value.isascii() and value.isdecimal() and len(value) < 19 else None
