"""How evenly a group's members read: by bytes, as they are assigned now and as each assignor would assign them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.measures.assignors import ASSIGNORS, assign_consumers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.measures.assignors import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupBalance:
    """Largest over mean load of a group's members.

    Attributes:
        member_count: Members that own a partition.
        now: As they are assigned; None without traffic.
        under: By assignor.
    """

    member_count: int
    now: float | None
    under: Mapping[str, float | None]


def balance_group(
    owned: Mapping[str, Sequence[Partition]], partition_counts: Mapping[str, int], loads: Mapping[Partition, int]
) -> GroupBalance:
    """Balance of a group now and under Kafka's assignors.

    Args:
        owned: Partitions by member.
        partition_counts: Partitions of every topic that the group reads.
        loads: Bytes of every partition in the window.

    >>> owned = {"x": [("a", 0), ("b", 0)], "y": [("a", 1)], "z": []}
    >>> found = balance_group(owned, {"a": 2, "b": 1}, {("a", 0): 10, ("a", 1): 10, ("b", 0): 40})
    >>> round(found.now, 2), {name: round(value, 2) for name, value in found.under.items()}
    (2.5, {'range': 2.5, 'roundrobin': 2.0, 'sticky': 2.0})
    """

    def peak_to_mean(assignment: Mapping[str, Sequence[Partition]]) -> float | None:
        carried = [sum(loads.get(part, 0) for part in parts) for parts in assignment.values()]
        return max(carried) / (sum(carried) / len(carried)) if sum(carried) else None

    return GroupBalance(
        member_count=len(owned),
        now=peak_to_mean(owned),
        under={name: peak_to_mean(assign_consumers(name, partition_counts, owned, owned)) for name in ASSIGNORS},
    )
