"""What texts of Kafka's tools describe together: leaders, replicas where no disk was read, groups, what is being moved."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipeline.model.cluster import ReplicaState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.codec.tools.tool_text import DescribedReplica
    from pipeline.model.cluster import ClusterHistory, PartitionState
    from pipeline.model.consumer_group import ConsumerGroupMember
    from pipeline.model.log import Problem, TopicPartition
    from pipeline.sources.files.cluster_rows import Moving


@dataclass(slots=True, kw_only=True)
class Described:
    """What the texts describe; every `TextSource` adds its part.

    Attributes:
        history: Leaders, replicas and configs; None where no text says.
        replicas: By partition, broker, and whether it is a copy on its way between disks.
        high_watermarks: By partition.
        groups: Instant, and what a group consumes of a partition.
        moving: Partitions that are being moved; with a broker, between its disks.
        problems: What was wrong, by kind of source.
    """

    history: ClusterHistory | None = None
    replicas: dict[tuple[TopicPartition, int | None, bool], DescribedReplica] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    groups: list[tuple[int, ConsumerGroupMember]] = field(default_factory=list)
    moving: set[Moving] = field(default_factory=set)
    problems: dict[str, list[Problem]] = field(default_factory=lambda: defaultdict(list))

    def list_replicas(
        self, partitions: Mapping[TopicPartition, PartitionState], *, besides: Sequence[ReplicaState]
    ) -> tuple[ReplicaState, ...]:
        """Replicas described and not found on disks (`besides`), by topic-partition and broker.

        A follower's log ends below the high watermark by its lag; `partitions` say who leads.
        """
        known = {(state.topic_partition, state.broker_id, state.is_future) for state in besides}
        return tuple(
            self._as_state(replica, partitions.get(key[0]))
            for key, replica in sorted(self.replicas.items())
            if key not in known
        )

    def _as_state(self, replica: DescribedReplica, partition: PartitionState | None) -> ReplicaState:
        high_watermark = self.high_watermarks.get(replica.topic_partition)
        is_leader = partition is not None and partition.leader_id == replica.broker_id
        return ReplicaState(
            topic=replica.topic_partition.topic,
            topic_id=None if partition is None else partition.topic_id,
            partition=replica.topic_partition.partition,
            broker_id=replica.broker_id,
            log_directory=replica.log_directory,
            log_end_offset=None if high_watermark is None or replica.is_future else high_watermark - replica.offset_lag,
            high_watermark=high_watermark if is_leader else None,
            size_bytes=replica.size_bytes,
            is_future=replica.is_future,
        )
