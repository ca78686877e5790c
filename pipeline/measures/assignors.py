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
    assignment = _stick(partitions, ids, owned or {})
    if assignor == "cooperative-sticky":
        owner = {partition: member for member, owned_now in (owned or {}).items() for partition in owned_now}
        freed = {m: [part for part in parts if owner.get(part, m) == m] for m, parts in assignment.items()}
        assignment = _stick(partitions, ids, freed)
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


def _stick(partitions: Numbers, ids: Sequence[str], owned: Owned) -> Assignment:
    """`ConstrainedAssignmentBuilder`, by its own names."""
    everything = _all_partitions(partitions)
    known = set(everything)
    least, over_expected = divmod(len(everything), len(ids))
    most, over = least + (over_expected > 0), 0
    assignment: Assignment = {member: [] for member in ids}
    under_least, at_least = list[str](), deque[str]()
    for member in hash_map_order(ids):
        own = sorted({p for p in owned.get(member, ()) if p in known}, key=lambda p: (p[1], p[0]))
        if len(own) < least:
            assignment[member] += own
            under_least.append(member)
        elif len(own) >= most and over < over_expected:
            over += 1
            if over == over_expected:
                at_least.clear()
            assignment[member] += own[:most]
        else:
            assignment[member] += own[:least]
            if over < over_expected:
                at_least.append(member)
    kept = {partition for partitions_of in assignment.values() for partition in partitions_of}
    under_least.sort()
    at_least = deque(sorted(at_least))
    turn = 0
    for partition in everything:
        if partition in kept:
            continue
        if turn >= len(under_least):
            turn = 0
        member = under_least[turn] if under_least else at_least.popleft()
        assignment[member].append(partition)
        if under_least and len(assignment[member]) == least:
            under_least.pop(turn)
            at_least.append(member)
        else:
            turn += 1
    return assignment


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
