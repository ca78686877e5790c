"""Bytes between zones, and plans about them: leaders where producers are, replicas in other racks, even rack-aware load.

A leader in another zone than a producer costs the bytes' way there, a follower in another zone than its leader their
way on. Rack-aware producers (KIP-1123) send what has no key to leaders in their zone, evenly, if it leads a partition
of the topic.

No plan leaves a broker further above its fair share than the target allows, or than the highest was before. Leadership
goes to in-sync replicas of live brokers; replicas go to live brokers that take some and have room, as far as their sizes
are known. A partition with a replica on a dead broker stays as it is: Kafka's tool refuses a file that names one. Ties go
to the lower broker id, then topic and partition.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeline.measures.leadership_board import MOST_EXAMINED, Effort
from pipeline.measures.reassignment import move_partition
from pipeline.measures.window_loads import fair_parts
from pipeline.model.placement import Brokers, PartitionMove, Partitions, Place, PlacedPartition

BytesByZone = Mapping[str, float]
_MOST_STEPS = 200
_MOST_RATED = 4_000_000  # partitions, over all steps: half a minute
_MOST_ROUNDS = 200  # of leaders that wait for room
_MOST_TRIED = 12  # partitions of the highest broker, and topics of its zone, that a step looks at: the largest
_LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class ZoneLoads:
    """Bytes of each partition in a window by its producers' zone; of them, those of records without a key."""

    sent: Mapping[Place, BytesByZone] = field(default_factory=dict)
    keyless: Mapping[Place, BytesByZone] = field(default_factory=dict)

    def make_rack_aware(self, partitions: Iterable[PlacedPartition], racks: Mapping[int, str]) -> "ZoneLoads":
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
    """Bytes between zones; what leaves or enters a zone that is not known counts as none."""
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
    parts = fair_parts(brokers)
    loads = Counter(dict.fromkeys(parts, 0))
    for partition in partitions:
        if partition.leader_id in loads:
            loads[partition.leader_id] += partition.load_bytes
    total = sum(loads.values()) or 1
    return {broker_id: loads[broker_id] / total / part for broker_id, part in parts.items()}


def diff_placements(before: Partitions, after: Partitions) -> tuple[PartitionMove, ...]:
    return tuple(
        move_partition(old, (new.leader_id, *(each for each in new.replicas if each != new.leader_id)))
        for old, new in zip(before, after, strict=True)
        if (old.leader_id, set(old.replicas)) != (new.leader_id, set(new.replicas))
    )


def lead_near_producers(
    partitions: Partitions, brokers: Brokers, loads: ZoneLoads, *, target_ratio: float
) -> Partitions:
    """Gives each partition an in-sync leader in its producers' zone, the largest savings first, where there is room."""
    racks, parts = _racks_of(brokers), fair_parts(brokers)
    ratios = rate_brokers(partitions, brokers)
    most = max(target_ratio, *ratios.values())
    total = sum(one.load_bytes for one in partitions if one.leader_id in parts) or 1
    now = list(partitions)
    waiting = []
    for number, one in enumerate(partitions):
        sent = loads.sent.get((one.topic, one.partition), {})
        for receiver in _followers_in_sync(one, racks):
            saved = _between(replace(one, leader_id=receiver), loads, racks) - _between(one, loads, racks)
            if sent and saved < 0:
                waiting.append((saved, receiver, number))
    waiting.sort()
    for _ in range(_MOST_ROUNDS):
        left = []
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
        if len(left) == len(waiting):
            break
        waiting = left
    return tuple(now)


def spread_replicas(partitions: Partitions, brokers: Brokers) -> tuple[Partitions, bool]:
    """Puts each partition's followers into racks that none of its replicas is in, while there are such; the leader stays.

    A partition without a leader, or whose leader is being reassigned away, stays as it is; so does what is left at the
    bound of the search: second, whether there is such.
    """
    effort = Effort(MOST_EXAMINED)
    racks = _racks_of(brokers)
    room = {one.broker_id: one.free_bytes for one in brokers if one.takes_replicas and not one.is_fenced and one.rack}
    held = Counter(replica for one in partitions for replica in one.replicas)
    after = []
    for one in partitions:
        replicas = list(one.replicas)
        may_copy = one.is_sized and one.leader_id in replicas and racks.keys() >= {*replicas}
        for place, follower in enumerate(replicas if may_copy else ()):
            others = {racks.get(each, "") for each in replicas if each != follower}
            if follower == one.leader_id or racks.get(follower, "") not in others or effort.is_spent():
                continue
            effort.left -= len(room)
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
    return tuple(after), effort.is_cut


def even_rack_aware(
    partitions: Partitions, brokers: Brokers, loads: ZoneLoads, *, target_ratio: float
) -> tuple[Partitions, bool]:
    """Leaders under which rack-aware producers load no broker above the target; and whether the search was cut.

    Each step brings the highest broker down most: one leader to another replica, or all of a topic out of a zone, whose
    producers of the topic then send to all of its leaders.
    """
    board, rated_left = _AwareBoard(partitions, brokers, loads, target_ratio), _MOST_RATED
    for _ in range(_MOST_STEPS):
        steps = [] if board.rank[0] <= target_ratio else board.list_steps()
        tried = [(board.rate(*step), number) for number, step in enumerate(steps)]
        best, number = min(tried, default=(board.rank, 0))
        if best[:2] >= (board.rank[0] - _LEAST_GAIN, board.rank[1] - _LEAST_GAIN):
            return board.placed(), False
        board.lead(*steps[number])
        rated_left -= sum(len(own) for _, own in steps)
        if rated_left <= 0:
            break
    return board.placed(), board.rank[0] > target_ratio


class _AwareBoard:
    """What rack-aware producers load brokers with, topic by topic: a step changes one topic and leaves all others as they are."""

    def __init__(self, partitions: Partitions, brokers: Brokers, loads: ZoneLoads, target_ratio: float) -> None:
        self._partitions, self._zone_loads, self._target = partitions, loads, target_ratio
        self._racks, self._parts = _racks_of(brokers), fair_parts(brokers)
        self._topics: dict[str, list[PlacedPartition]] = defaultdict(list)
        for one in partitions:
            self._topics[one.topic].append(one)
        self._sums: dict[str, tuple[Counter[int], float]] = {}
        self._loads, self._between = Counter(dict.fromkeys(self._parts, 0)), 0.0
        for topic, own in self._topics.items():
            self.lead(topic, own)

    def lead(self, topic: str, own: list[PlacedPartition]) -> None:
        self._loads, self._between = self._add_up(topic, own)
        self._topics[topic], self._sums[topic] = self._sum(own)
        self.rank = self._rank(self._loads, self._between)

    def rate(self, topic: str, own: list[PlacedPartition]) -> tuple[float, float, float]:
        """Rates a topic's partitions with other leaders: the highest broker, how much is above the target, bytes between zones."""
        return self._rank(*self._add_up(topic, own))

    def placed(self) -> Partitions:
        leaders = {(one.topic, one.partition): one.leader_id for own in self._topics.values() for one in own}
        return tuple(replace(one, leader_id=leaders[one.topic, one.partition]) for one in self._partitions)

    def list_steps(self) -> list[tuple[str, list[PlacedPartition]]]:
        """Topics with other leaders that take something from the highest broker: its largest partitions, its zone's topics."""
        ratios = self._ratios(self._loads)
        highest = max(ratios, key=lambda broker_id: (ratios[broker_id], -broker_id))
        own = [one for of_topic in self._topics.values() for one in of_topic if one.leader_id == highest]
        own.sort(key=lambda one: -one.load_bytes)
        steps = [
            (
                one.topic,
                [replace(each, leader_id=receiver) if each is one else each for each in self._topics[one.topic]],
            )
            for one in own[:_MOST_TRIED]
            for receiver in _followers_in_sync(one, self._racks)
        ]
        rack = self._racks[highest]
        for topic in list(dict.fromkeys(one.topic for one in own))[:_MOST_TRIED]:
            moved = [_led_outside(one, rack, self._racks) for one in self._topics[topic]]
            if not any(self._racks.get(one.leader_id) == rack for one in moved):
                steps.append((topic, moved))
        return steps

    def _sum(self, own: list[PlacedPartition]) -> tuple[list[PlacedPartition], tuple[Counter[int], float]]:
        aware = self._zone_loads.make_rack_aware(own, self._racks)
        carried: Counter[int] = Counter()
        loaded = aware.with_loads(own)
        for one in loaded:
            if one.leader_id in self._parts:
                carried[one.leader_id] += one.load_bytes
        return list(loaded), (carried, sum_between_zones(own, aware, self._racks).total)

    def _add_up(self, topic: str, own: list[PlacedPartition]) -> tuple[Counter[int], float]:
        _, (carried, between) = self._sum(own)
        was_carried, was_between = self._sums.get(topic, (Counter(), 0.0))
        loads = self._loads.copy()
        loads.update(carried)
        loads.subtract(was_carried)
        return loads, self._between + between - was_between

    def _ratios(self, loads: Mapping[int, int]) -> dict[int, float]:
        total = sum(loads.values()) or 1
        return {broker_id: loads[broker_id] / total / part for broker_id, part in self._parts.items()}

    def _rank(self, loads: Mapping[int, int], between: float) -> tuple[float, float, float]:
        ratios = self._ratios(loads).values()
        above = sum(max(0.0, ratio - self._target) ** 2 for ratio in ratios)
        return max(self._target, *ratios), above, between


def _followers_in_sync(partition: PlacedPartition, racks: Mapping[int, str]) -> list[int]:
    """Brokers that may lead it instead; none while one of its replicas is on a dead broker."""
    is_alive = racks.keys() >= {*partition.replicas}
    return sorted(set(partition.in_sync) & racks.keys() - {partition.leader_id}) if is_alive else []


def _led_outside(partition: PlacedPartition, rack: str, racks: Mapping[int, str]) -> PlacedPartition:
    if racks.get(partition.leader_id) != rack:
        return partition
    able = _followers_in_sync(partition, racks)
    others = [each for each in partition.in_sync if each in able and racks[each] != rack]
    return replace(partition, leader_id=others[partition.partition % len(others)]) if others else partition


def _racks_of(brokers: Brokers) -> dict[int, str]:
    return {one.broker_id: one.rack or "" for one in brokers if not one.is_fenced}


def _between(partition: PlacedPartition, loads: ZoneLoads, racks: Mapping[int, str]) -> float:
    return sum_between_zones([partition], loads, racks).total
