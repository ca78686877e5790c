"""Replicas of brokers that are gone, put on brokers that live.

Kafka keeps a dead broker in its partitions' replica lists until somebody reassigns them, and refuses a reassignment that
names it: `kafka-reassign-partitions` one of a broker that is away, the controller one of a broker that is not registered.

References:
    Kafka `ReassignPartitionsCommand.verifyBrokerIds`, `ReplicationControlManager.validateManualPartitionAssignment`.
"""

from collections import defaultdict
from dataclasses import replace

from pipeline.model.placement import Brokers, Partitions, PlacedPartition, PlacementBroker


def replace_dead(partitions: Partitions, brokers: Brokers, *, max_moved_bytes: float | None = None) -> Partitions:
    """Partitions as they are once no dead broker holds a replica, as far as live ones can take them.

    1. A broker that is fenced, or not among `brokers`, is dead. Nobody can copy a partition without a leader: it stays.
    2. Partitions with the fewest live replicas come first.
    3. A replica goes to a rack that has none of the partition, there to the broker with the fewest bytes for its capacity.
    4. A partition of which not every dead replica finds a place stays as it is.

    The leader stays and becomes the first replica, the preferred leader: nothing changes in who carries what.
    """
    live = {broker.broker_id: broker for broker in brokers if not broker.is_fenced}
    held: dict[int, float] = defaultdict(float)
    for partition in partitions:
        for replica in partition.replicas:
            held[replica] += partition.size_bytes
    room = {one: broker.free_bytes for one, broker in live.items()}
    budget = float("inf") if max_moved_bytes is None else max_moved_bytes
    restored = {}
    hurt = (p for p in partitions if p.leader_id in live and not live.keys() >= {*p.replicas})
    for partition in sorted(hurt, key=lambda p: (len(live.keys() & {*p.replicas}), p.topic, p.partition)):
        dead = [replica for replica in partition.replicas if replica not in live]
        copied = len(dead) * partition.size_bytes
        chosen = _choose(partition, live, held, room) if copied <= budget else None
        if chosen is None:
            continue
        budget -= copied
        for receiver in chosen.values():
            held[receiver] += partition.size_bytes
            free = room[receiver]
            room[receiver] = None if free is None else free - partition.size_bytes
        others = (chosen.get(replica, replica) for replica in partition.replicas if replica != partition.leader_id)
        replicas = (partition.leader_id, *others)
        in_sync = tuple(replica for replica in partition.in_sync if replica in live)
        restored[partition.topic, partition.partition] = replace(partition, replicas=replicas, in_sync=in_sync)
    return tuple(restored.get((p.topic, p.partition), p) for p in partitions)


def _choose(
    partition: PlacedPartition, live: dict[int, PlacementBroker], held: dict[int, float], room: dict[int, int | None]
) -> dict[int, int] | None:
    """A live broker for each dead replica; None where one finds none."""
    chosen: dict[int, int] = {}
    for dead in (replica for replica in partition.replicas if replica not in live):
        there = ({*partition.replicas} & live.keys()) | {*chosen.values()}
        racks = {live[replica].rack for replica in there}
        able = []
        for one, broker in live.items():
            free = room[one]
            if one not in there and broker.takes_replicas and (free is None or free >= partition.size_bytes):
                able.append((broker.rack in racks, held[one] / broker.capacity, one))
        if not able:
            return None
        chosen[dead] = min(able)[2]
    return chosen
