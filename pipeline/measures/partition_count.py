"""How many partitions a topic should have: as many as its brokers and its consumers divide evenly."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CountAdvice:
    """Another number of partitions, None where the present one is fine or nothing better is near; and why, or ''."""

    partition_count: int | None
    reason: str


_NOTHING = CountAdvice(None, "")


def advise_partition_count(
    partition_count: int, *, broker_count: int, consumer_count: int = 0, is_keyed: bool = False
) -> CountAdvice:
    """Next count that is a multiple of the brokers and, where it is near, of the consumers.

    A count is not advised beyond twice the present one for evenness alone: partitions cost open files, memory, and
    time at each election. Fewer partitions than consumers (members of the topic's largest group) leave some idle,
    whatever it costs. Of records with keys a new count sends most elsewhere.

    >>> advise_partition_count(4, broker_count=3).partition_count
    6
    >>> advise_partition_count(6, broker_count=3, consumer_count=4).partition_count
    12
    >>> advise_partition_count(12, broker_count=3, consumer_count=4)
    CountAdvice(partition_count=None, reason='')
    >>> advise_partition_count(1, broker_count=3)  # one partition keeps all records in order
    CountAdvice(partition_count=None, reason='')
    """
    if partition_count <= 1 or broker_count < 1:
        return _NOTHING
    least = max(partition_count, consumer_count)
    both = math.lcm(broker_count, max(1, consumer_count))
    multiples = (-(-least // divisor) * divisor for divisor in (both, broker_count))
    count = next((multiple for multiple in multiples if multiple <= 2 * least), partition_count)
    why = []
    if partition_count % broker_count:
        why.append(f"{partition_count} partitions do not divide evenly over {broker_count} brokers")
    if partition_count < consumer_count:
        why.append(f"{consumer_count - partition_count} of {consumer_count} consumers have nothing to read")
    elif consumer_count and partition_count % consumer_count:
        why.append(f"some of {consumer_count} consumers read more partitions than others")
    if not why or count == partition_count:
        return _NOTHING
    moved = f"; {1 - kept_keys_ratio(partition_count, count):.0%} of the keys would move" if is_keyed else ""
    return CountAdvice(count, f"{', '.join(why)}: {count} would{moved}")


def kept_keys_ratio(partition_count: int, new_count: int) -> float:
    """Part of the keys that stay where they are when `hash mod P` becomes `hash mod P'`: `min / lcm`.

    >>> kept_keys_ratio(12, 24), kept_keys_ratio(12, 16), round(kept_keys_ratio(12, 13) * 13, 6)
    (0.5, 0.25, 1.0)
    """
    return min(partition_count, new_count) / math.lcm(partition_count, new_count)
