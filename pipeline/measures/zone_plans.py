"""Bytes between zones, and plans about them: leaders where producers are, replicas in other racks, even rack-aware load.

From where each partition's bytes come, by the zone of their producers: a leader in another zone costs their way there, a
follower in another zone than its leader costs their way on. Rack-aware producers (KIP-1123) send what has no key to leaders
in their zone, evenly, and as before where their zone leads no partition of the topic.

No plan leaves a broker further above its fair share than the target allows, or than the highest was before. Leadership goes
to in-sync replicas of live brokers; replicas go to live brokers that take some and have room. The same input gives the same
plan: ties go to the lower broker id, then topic and partition.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeline.measures.reassignment import move_partition
from pipeline.measures.window_loads import fair_parts
from pipeline.model.placement import Brokers, PartitionMove, Partitions, Place, PlacedPartition

BytesByZone = Mapping[str, float]
_MOST_STEPS = 200
_MOST_RATED = 4_000_000  # partitions, over all steps and trials: half a minute
_MOST_TRIED = 12  # partitions of the highest broker, and topics of its zone, that a step looks at: the largest
_LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class ZoneLoads:
    """Bytes of each partition in a window by its producers' zone; of them, those of records without a key."""

    sent: Mapping[Place, BytesByZone] = field(default_factory=dict)
    keyless: Mapping[Place, BytesByZone] = field(default_factory=dict)

    def make_rack_aware(self, partitions: Iterable[PlacedPartition], racks: Mapping[int, str]) -> "ZoneLoads":
        """The same producers if all were rack-aware, on these leaders; `racks` are of brokers, "" without one."""
        by_topic: dict[str, list[PlacedPartition]] = defaultdict(list)
        for one in partitions:
            by_topic[one.topic].append(one)
        sent: dict[Place, dict[str, float]] = {}
        keyless: dict[Place, dict[str, float]] = {}
        for topic, own in by_topic.items():
            led = [one for one in own if one.leader_id >= 0]
            places = [(topic, one.partition) for one in own]
            for place in places:
                keyed = Counter(self.sent.get(place, {}))
                keyed.subtract(self.keyless.get(place, {}))
                sent[place], keyless[place] = dict(keyed), {}
            zones: Counter[str] = Counter()
            for place in places:
                zones.update(self.keyless.get(place, {}))
            for zone, size in zones.items():
                near = [one for one in led if zone and racks.get(one.leader_id) == zone] or led
                for one in near:
                    place = topic, one.partition
                    sent[place][zone] = sent[place].get(zone, 0.0) + size / len(near)
                    keyless[place][zone] = size / len(near)
        return ZoneLoads(sent, keyless)

    def with_loads(self, partitions: Iterable[PlacedPartition]) -> tuple[PlacedPartition, ...]:
        return tuple(
            replace(one, load_bytes=round(sum(self.sent.get((one.topic, one.partition), {}).values())))
            for one in partitions
        )


@dataclass(frozen=True, kw_only=True)
class ZoneBytes:
    produce: float  # from producers to leaders
    replication: float  # from leaders to followers

    @property
    def total(self) -> float:
        return self.produce + self.replication


def sum_between_zones(partitions: Iterable[PlacedPartition], loads: ZoneLoads, racks: Mapping[int, str]) -> ZoneBytes:
    """Bytes between zones; what leaves or enters a zone that is not known counts as none.

    >>> part = PlacedPartition(topic="t", partition=0, replicas=(1, 2), leader_id=1, in_sync=(1, 2), load_bytes=9, size_bytes=0)
    >>> sum_between_zones([part], ZoneLoads({("t", 0): {"a": 4.0, "b": 5.0}}), {1: "a", 2: "b"})
    ZoneBytes(produce=5.0, replication=9.0)
    """
    produce = replication = 0.0
    for one in partitions:
        near = racks.get(one.leader_id, "")
        sent = loads.sent.get((one.topic, one.partition), {})
        if near:
            produce += sum(size for zone, size in sent.items() if zone not in {"", near})
            others = sum(racks.get(each, "") not in {"", near} for each in one.replicas if each != one.leader_id)
            replication += others * sum(sent.values())
    return ZoneBytes(produce=produce, replication=replication)


def rate_brokers(partitions: Iterable[PlacedPartition], brokers: Brokers) -> dict[int, float]:
    """Share ratio by broker that lives; 0 for all without traffic."""
    parts = fair_parts(brokers)
    loads = Counter(dict.fromkeys(parts, 0))
    for partition in partitions:
        if partition.leader_id in loads:
            loads[partition.leader_id] += partition.load_bytes
    total = sum(loads.values()) or 1
    return {broker_id: loads[broker_id] / total / part for broker_id, part in parts.items()}


def diff_placements(before: Partitions, after: Partitions) -> tuple[PartitionMove, ...]:
    """Moves between two placements, as Kafka's tool takes them: the leader first."""
    return tuple(
        move_partition(old, (new.leader_id, *(each for each in new.replicas if each != new.leader_id)))
        for old, new in zip(before, after, strict=True)
        if (old.leader_id, set(old.replicas)) != (new.leader_id, set(new.replicas))
    )


def lead_near_producers(
    partitions: Partitions, brokers: Brokers, loads: ZoneLoads, *, target_ratio: float
) -> Partitions:
    """Gives each partition a leader in the zone that most of its bytes come from, the largest savings first.

    Only to in-sync replicas: no byte is copied. A change for which its receiver has no room waits until others have made some.
    """
    racks, parts = _racks_of(brokers), fair_parts(brokers)
    ratios = rate_brokers(partitions, brokers)
    most = max(target_ratio, *ratios.values())
    total = sum(one.load_bytes for one in partitions if one.leader_id in parts) or 1
    now = list(partitions)
    waiting = []
    for number, one in enumerate(partitions):
        sent = loads.sent.get((one.topic, one.partition), {})
        for receiver in sorted(set(one.in_sync) & racks.keys() - {one.leader_id}):
            saved = _between(replace(one, leader_id=receiver), loads, racks) - _between(one, loads, racks)
            if sent and saved < 0:
                waiting.append((saved, receiver, number))
    waiting.sort()
    has_moved = True
    while has_moved:
        has_moved, left = False, []
        for saved, receiver, number in waiting:
            one = now[number]
            if one.leader_id != partitions[number].leader_id:
                continue  # moved already
            part = one.load_bytes / total
            if ratios[receiver] + part / parts[receiver] > most:
                left.append((saved, receiver, number))
                continue
            ratios[receiver] += part / parts[receiver]
            if one.leader_id in ratios:
                ratios[one.leader_id] -= part / parts[one.leader_id]
            now[number] = replace(one, leader_id=receiver)
            has_moved = True
        waiting = left
    return tuple(now)


def spread_replicas(partitions: Partitions, brokers: Brokers) -> Partitions:
    """Puts each partition's followers into racks that none of its replicas is in, while there are such; the leader stays.

    A partition without a leader, or whose leader is being reassigned away, stays as it is.
    """
    racks = _racks_of(brokers)
    room = {one.broker_id: one.free_bytes for one in brokers if one.takes_replicas and not one.is_fenced and one.rack}
    held = Counter(replica for one in partitions for replica in one.replicas)
    after = []
    for one in partitions:
        replicas = list(one.replicas)
        for place, follower in enumerate(replicas if one.leader_id in replicas else ()):
            others = {racks.get(each, "") for each in replicas if each != follower}
            if follower == one.leader_id or racks.get(follower, "") not in others:
                continue
            roomy = [broker_id for broker_id, free in room.items() if free is None or free >= one.size_bytes]
            able = [broker_id for broker_id in roomy if racks[broker_id] not in others and broker_id not in replicas]
            if able:
                receiver = min(able, key=lambda broker_id: (held[broker_id], broker_id))
                held[receiver] += 1
                held[follower] -= 1
                free = room[receiver]
                room[receiver] = None if free is None else free - one.size_bytes
                replicas[place] = receiver
        in_sync = tuple(each for each in replicas if each in one.in_sync or each not in one.replicas)
        after.append(replace(one, replicas=tuple(replicas), in_sync=in_sync))
    return tuple(after)


def even_rack_aware(partitions: Partitions, brokers: Brokers, loads: ZoneLoads, *, target_ratio: float) -> Partitions:
    """Leaders under which rack-aware producers load no broker above the target, as far as leaders alone can do that.

    Step by step the change that brings the highest broker down most: one leader to another replica, or all leaders of a
    topic out of a zone, whose producers of the topic then send to all of its leaders.
    """
    racks = _racks_of(brokers)

    def rate(placed: Partitions) -> tuple[float, float, float]:
        aware = loads.make_rack_aware(placed, racks)
        ratios = rate_brokers(aware.with_loads(placed), brokers).values()
        above = sum(max(0.0, ratio - target_ratio) ** 2 for ratio in ratios)
        return max(target_ratio, *ratios), above, sum_between_zones(placed, aware, racks).total

    now = partitions
    rated, trials_left = rate(now), _MOST_RATED // max(1, len(now))
    for _ in range(_MOST_STEPS):
        if rated[0] <= target_ratio or trials_left <= 0:
            break
        loaded = loads.make_rack_aware(now, racks).with_loads(now)
        tried = [(rate(each), number, each) for number, each in enumerate(_list_steps(loaded, brokers, racks))]
        trials_left -= len(tried)
        best, _, placed = min(tried, default=(rated, 0, now))
        if best[:2] >= (rated[0] - _LEAST_GAIN, rated[1] - _LEAST_GAIN):
            break
        now, rated = placed, best
    return tuple(now)


def _list_steps(partitions: Partitions, brokers: Brokers, racks: Mapping[int, str]) -> list[Partitions]:
    """Placements one step away that take something from the highest broker: its largest partitions, its zone's topics."""
    ratios = rate_brokers(partitions, brokers)
    highest = max(ratios, key=lambda broker_id: (ratios[broker_id], -broker_id))
    own = [number for number, one in enumerate(partitions) if one.leader_id == highest]
    own.sort(key=lambda number: -partitions[number].load_bytes)
    steps: list[Partitions] = [
        (*partitions[:number], replace(partitions[number], leader_id=receiver), *partitions[number + 1 :])
        for number in own[:_MOST_TRIED]
        for receiver in sorted(set(partitions[number].in_sync) & racks.keys() - {highest})
    ]
    rack = racks[highest]
    for topic in list(dict.fromkeys(partitions[number].topic for number in own))[:_MOST_TRIED]:
        moved = tuple(_led_outside(one, rack, racks) if one.topic == topic else one for one in partitions)
        if not any(one.topic == topic and racks.get(one.leader_id) == rack for one in moved):
            steps.append(moved)
    return steps


def _led_outside(partition: PlacedPartition, rack: str, racks: Mapping[int, str]) -> PlacedPartition:
    if racks.get(partition.leader_id) != rack:
        return partition
    others = [each for each in partition.in_sync if racks.get(each, rack) != rack]
    return replace(partition, leader_id=others[partition.partition % len(others)]) if others else partition


def _racks_of(brokers: Brokers) -> dict[int, str]:
    """Zones of the brokers that live, "" without one."""
    return {one.broker_id: one.rack or "" for one in brokers if not one.is_fenced}


def _between(partition: PlacedPartition, loads: ZoneLoads, racks: Mapping[int, str]) -> float:
    return sum_between_zones([partition], loads, racks).total
