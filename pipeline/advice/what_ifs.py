"""What-ifs of a cluster: brokers added, lost or resized, topics that grow, a reassignment.

What Kafka does by itself is done: of a lost broker's partitions the first replica in sync leads. What it leaves alone is left
alone: a new broker gets nothing until replicas are moved there. A partition's load follows the partition.

References:
    Kafka `PartitionChangeBuilder.electAnyLeader`: the first replica of the assignment that is in sync and alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline.errors import ConfigError
from pipeline.measures.reassignment import ReassignmentPlan, plan_leaders, plan_replicas
from pipeline.measures.window_loads import expected_shares
from pipeline.model.placement import PlacedPartition, PlacementBroker


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """A change of brokers, traffic and placement."""

    added: tuple[PlacementBroker, ...] = ()
    lost: frozenset[int] = frozenset()
    lost_racks: frozenset[str] = frozenset()
    sizes: Mapping[int, float] = field(default_factory=dict)  # capacity by broker, as a multiple of what it has
    growth: Mapping[str, float] = field(default_factory=dict)  # traffic by topic, as a multiple of what it has
    # replicas by topic and partition after a reassignment, the leader first
    replicas: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCluster:
    """Partitions and brokers of a cluster, present or changed."""

    partitions: tuple[PlacedPartition, ...]
    brokers: tuple[PlacementBroker, ...]
    moved_bytes: int = 0  # copied between brokers to get there

    @property
    def loads(self) -> dict[int, int]:
        """Bytes by broker."""
        loads = {broker.broker_id: 0 for broker in self.brokers}
        for partition in self.partitions:
            if partition.leader_id in loads:
                loads[partition.leader_id] += partition.load_bytes
        return loads

    @property
    def ratios(self) -> dict[int, float]:
        """Share ratio by broker; 0 for all without traffic."""
        fair = expected_shares([broker.capacity for broker in self.brokers])
        loads, total = self.loads, sum(self.loads.values()) or 1
        return {
            broker.broker_id: loads[broker.broker_id] / total / float(part)
            for broker, part in zip(self.brokers, fair, strict=True)
        }

    @property
    def leaderless(self) -> tuple[PlacedPartition, ...]:
        """Partitions without an eligible leader."""
        return tuple(partition for partition in self.partitions if partition.leader_id < 0)


def change_cluster(cluster: PlacedCluster, change: ClusterChange) -> PlacedCluster:
    """Applies a change: reassignment first, then brokers added, resized and lost, then traffic.

    Raises:
        ConfigError: The change names a broker, rack, topic or partition that is not there, adds a broker that is, or leaves
            none.
    """
    _check(cluster, change)
    racks = {broker.broker_id: broker.rack for broker in cluster.brokers}
    lost = change.lost | {broker_id for broker_id, rack in racks.items() if rack in change.lost_racks}
    brokers = tuple(
        replace(broker, capacity=broker.capacity * change.sizes.get(broker.broker_id, 1.0))
        for broker in sorted((*cluster.brokers, *change.added), key=lambda broker: broker.broker_id)
        if broker.broker_id not in lost
    )
    if not brokers:
        raise ConfigError("no broker would be left")
    partitions, moved_bytes = [], 0
    for partition in cluster.partitions:
        wanted = change.replicas.get((partition.topic, partition.partition))
        placed = (
            partition if wanted is None else replace(partition, replicas=wanted, leader_id=wanted[0], in_sync=wanted)
        )
        moved_bytes += partition.size_bytes * len({*placed.replicas} - {*partition.replicas})
        in_sync = tuple(replica for replica in placed.replicas if replica in placed.in_sync and replica not in lost)
        leader_id = next(iter(in_sync), -1) if placed.leader_id in lost else placed.leader_id
        load_bytes = round(placed.load_bytes * change.growth.get(placed.topic, 1.0))
        partitions.append(replace(placed, in_sync=in_sync, leader_id=leader_id, load_bytes=load_bytes))
    return PlacedCluster(partitions=tuple(partitions), brokers=brokers, moved_bytes=moved_bytes)


def _check(cluster: PlacedCluster, change: ClusterChange) -> None:
    known = {broker.broker_id for broker in cluster.brokers}
    added = {broker.broker_id for broker in change.added}
    places = {(partition.topic, partition.partition) for partition in cluster.partitions}
    topics, racks = {topic for topic, _ in places}, {broker.rack for broker in cluster.brokers}
    replicas = {replica for wanted in change.replicas.values() for replica in wanted}
    wrong = [
        *(f"broker {one} is there already" for one in sorted(added & known)),
        *(f"there is no broker {one}" for one in sorted((change.lost | change.sizes.keys()) - known)),
        *(f"there is no broker {one}" for one in sorted(replicas - known - added)),
        *(f"there is no rack {one}" for one in sorted(change.lost_racks - racks)),
        *(f"there is no topic {one}" for one in sorted(change.growth.keys() - topics)),
        *(f"there is no partition {topic}-{number}" for topic, number in sorted(change.replicas.keys() - places)),
    ]
    if wrong:
        raise ConfigError("; ".join(wrong[:5]))


def plan_even(cluster: PlacedCluster, *, target_ratio: float, max_moved_bytes: int | None = None) -> ReassignmentPlan:
    """Plans to bring every broker below a share ratio, by leaders alone where that suffices."""
    capped = partial(plan_replicas, max_moved_bytes=max_moved_bytes)
    plans = [make(cluster.partitions, cluster.brokers, target_ratio=target_ratio) for make in (plan_leaders, capped)]
    return next((plan for plan in plans if plan.peak_ratio <= target_ratio), plans[-1])


def describe_places(partitions: Sequence[PlacedPartition]) -> str:
    """Formats the names of the first eight partitions."""
    names = ", ".join(f"{partition.topic}-{partition.partition}" for partition in partitions[:8])
    return names + (f" and {len(partitions) - 8} more" if len(partitions) > 8 else "")
