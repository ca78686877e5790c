"""Bytes between zones under other leaders, replicas and producers.

From where each partition's bytes come, by the zone of their producers: a leader in another zone costs their way there, a
follower in another zone than its leader costs their way on. Rack-aware producers (KIP-1123) send what has no key to leaders
in their zone, evenly, and as before where their zone leads no partition of the topic.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeline.model.placement import PlacedPartition

Place = tuple[str, int]  # topic and partition
BytesByZone = Mapping[str, float]


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
    """Bytes of a window between zones."""

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
