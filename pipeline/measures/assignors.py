"""Kafka's consumer assignors, for a group whose members all subscribe to the same topics.

1. *Range* goes topic by topic: members in order of their id get consecutive partitions, the first ones one more.
2. *RoundRobin* deals the partitions of all topics out one by one.
3. *Sticky* keeps what members own as far as quotas allow, then deals the rest out to those below quota.
4. *CooperativeSticky* does the same, but takes partitions from their owners first and deals them out in a second round.
5. *Uniform*, the brokers' default of KIP-848, keeps what members own up to a quota, and fills them up one after
   another.

Racks, static membership and members with different subscriptions are not modelled; topics come in order of their names.

References: Kafka 4.1 `RangeAssignor`, `RoundRobinAssignor`, the `ConstrainedAssignmentBuilder` of
`AbstractStickyAssignor`; `coordinator.group.assignor.UniformHomogeneousAssignmentBuilder`. Where Kafka walks a
`HashMap` of members, so do we.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

Partition = tuple[str, int]
Assignment = dict[str, list[Partition]]
Owned = Mapping[str, Sequence[Partition]]  # by member
Numbers = Mapping[str, Sequence[int]]  # of partitions, by topic
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky", "uniform")
MOST_DEALT = 10_000_000
"""Partitions of topics of all groups of a window that are assigned anew: a broker may claim any number of groups."""


def assign_consumers(
    assignor: str, partitions: Numbers, members: Iterable[str], owned: Owned | None = None
) -> Assignment:
    """Partitions by member, by one of `ASSIGNORS` (else `ValueError`); the last three ask what members own now."""
    ids = sorted(set(members))
    if assignor not in ASSIGNORS:
        raise ValueError(f"no assignor {assignor!r}; there are {', '.join(ASSIGNORS)}")
    if not ids:
        return {}
    if assignor == "range":
        assignment: Assignment = {member: [] for member in ids}
        for topic, numbers in sorted(partitions.items()):
            each, extra = divmod(len(numbers), len(ids))
            first = 0
            for index, member in enumerate(ids[: len(numbers)]):  # the others get none
                last = first + each + (index < extra)
                assignment[member] += [(topic, number) for number in numbers[first:last]]
                first = last
        return assignment
    if assignor == "roundrobin":
        dealt, turn = {member: list[Partition]() for member in ids}, cycle(ids)
        for partition in _all_partitions(partitions):
            dealt[next(turn)].append(partition)
        return dealt
    if assignor == "uniform":
        return _fill_up(partitions, ids, owned or {})
    assignment = _Sticky(partitions, ids, owned or {}).assign()
    if assignor == "cooperative-sticky":
        owner = {partition: member for member, owned_now in (owned or {}).items() for partition in owned_now}
        freed = {m: [part for part in parts if owner.get(part, m) == m] for m, parts in assignment.items()}
        assignment = _Sticky(partitions, ids, freed).assign()
    return assignment


def _fill_up(partitions: Numbers, ids: Sequence[str], owned: Owned) -> Assignment:
    everything = _all_partitions(partitions)
    known, taken = set(everything), {partition for parts in owned.values() for partition in parts}
    free = deque(partition for partition in everything if partition not in taken)
    each, extra = divmod(len(everything), len(ids))
    assignment: Assignment = {}
    quotas: dict[str, int] = {}
    for index, member in enumerate(hash_map_order(ids)):
        quota = each + (extra > 0)
        own = sorted(known.intersection(owned.get(member, ())))
        assignment[member], revoked = own[:quota], own[quota:]
        free += revoked
        # One more is for members that own it already, as long as enough others are left for what remains.
        if quota > each and len(own) < quota and len(ids) - index > extra:
            quota = each
        extra -= quota > each
        quotas[member] = quota
    for member, quota in quotas.items():
        while len(assignment[member]) < quota:
            assignment[member].append(free.popleft())
    return assignment


def _all_partitions(partitions: Numbers) -> list[Partition]:
    return [(topic, number) for topic, numbers in sorted(partitions.items()) for number in numbers]


class _Sticky:
    """`ConstrainedAssignmentBuilder`, by its own names."""

    def __init__(self, partitions: Numbers, ids: Sequence[str], owned: Owned) -> None:
        self.partitions = _all_partitions(partitions)
        known = set(self.partitions)
        self.owned = {
            member: sorted({p for p in owned.get(member, ()) if p in known}, key=lambda p: (p[1], p[0]))
            for member in hash_map_order(ids)
        }
        self.least, self.over_expected = divmod(len(self.partitions), len(ids))
        self.most = self.least + (self.over_expected > 0)
        self.over = 0
        self.assignment: Assignment = {member: [] for member in ids}
        self.under_least: list[str] = []
        self.at_least: deque[str] = deque()

    def assign(self) -> Assignment:
        for member, owned in self.owned.items():
            self._keep(member, owned)
        kept = {partition for partitions in self.assignment.values() for partition in partitions}
        self.under_least.sort()
        self.at_least = deque(sorted(self.at_least))
        self._deal([partition for partition in self.partitions if partition not in kept])
        return self.assignment

    def _keep(self, member: str, owned: list[Partition]) -> None:
        if len(owned) < self.least:
            self.assignment[member] += owned
            self.under_least.append(member)
        elif len(owned) >= self.most and self.over < self.over_expected:
            self.over += 1
            if self.over == self.over_expected:
                self.at_least.clear()
            self.assignment[member] += owned[: self.most]
        else:
            self.assignment[member] += owned[: self.least]
            if self.over < self.over_expected:
                self.at_least.append(member)

    def _deal(self, unassigned: Sequence[Partition]) -> None:
        turn = 0
        for partition in unassigned:
            if turn >= len(self.under_least):
                turn = 0
            member = self.under_least[turn] if self.under_least else self.at_least.popleft()
            self.assignment[member].append(partition)
            if self.under_least and len(self.assignment[member]) == self.least:
                self.under_least.pop(turn)
                self.at_least.append(member)
            else:
                turn += 1


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Keys in the order in which a `java.util.HashMap` that took them in ascending order is walked."""
    ordered = sorted(set(keys))
    capacity = 16
    while len(ordered) > capacity * 3 // 4:
        capacity *= 2
    return sorted(ordered, key=lambda key: _spread(key) & (capacity - 1))


def _spread(key: str) -> int:
    """`HashMap.hash` of `String.hashCode`."""
    code = 0
    data = key.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        code = (31 * code + int.from_bytes(data[index : index + 2], "big")) & 0xFFFFFFFF
    return code ^ (code >> 16)
