"""Which hash placed these keys: what each family of strategies explains, and what chance would.

A key lies where a wrong family puts it with chance 1/P. Of n keys that a wrong family is asked about, a part q or more
lies right with a chance of at most exp(-n KL(q, 1/P)) (Chernoff's bound); times the number of families asked, as the
best of them is taken.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

LEVEL = 0.001  # chance of naming a family by luck
WHOLE = 0.99
"""Part of the records from which a family explains a topic; the rest is then stray, such as explicit partitions."""

MIXED, NONE_KNOWN, NOT_ENOUGH_KEYS = "mixed", "none-known", "not-enough-keys"


@dataclass(frozen=True)
class Explained:
    key_count: int
    record_count: int


@dataclass(frozen=True)
class HashVerdict:
    verdict: str  # a family's name, `mixed`, `none-known` or `not-enough-keys`
    best: str  # the family that explains most, or "" where none does better than chance
    tied_with: tuple[str, ...]  # families that explain as much
    explained_ratio: float | None  # part of the records the best family explains; None without records
    chance_ratio: float  # 1 / partitions
    chance_p_value: float | None  # bound on the chance of the best; None without keys
    reason: str  # in words


def bound_match_chance(explained_count: int, count: int, chance: float) -> float:
    """Bound on the chance that so many of `count` keys, or more, lie right by luck."""
    ratio = explained_count / count
    if ratio <= chance:
        return 1.0
    if ratio == 1:
        return chance**count
    divergence = ratio * math.log(ratio / chance) + (1 - ratio) * math.log((1 - ratio) / (1 - chance))
    return math.exp(-count * divergence)


def judge_hash(
    explained: Mapping[str, Explained], key_count: int, record_count: int, partition_count: int
) -> HashVerdict:
    """Names the family that placed a topic's keys; of families that explain the same, the first of `explained`."""
    chance = 1 / partition_count
    if not key_count or not record_count:
        return HashVerdict(NOT_ENOUGH_KEYS, "", (), None, chance, None, "no record with a key that can be judged")
    best = max(explained, key=lambda name: explained[name].record_count)  # the first of equals
    most = explained[best]
    ratio = most.record_count / record_count
    p_value = min(1.0, len(explained) * bound_match_chance(most.key_count, key_count, chance))
    tied = tuple(name for name, other in explained.items() if name != best and other.record_count == most.record_count)
    words = f"{best} explains {ratio:.1%} of the records and {most.key_count} of {key_count} keys, chance 1/{partition_count}"
    if tied and p_value <= LEVEL:
        words += f"; so do {', '.join(tied)}: {partition_count} partitions do not distinguish them"
    if p_value > LEVEL:
        # Were some family at work, every key would be explained: are there enough of them to show it?
        if len(explained) * chance**key_count > LEVEL:
            why = f"{key_count} keys on {partition_count} partitions are too few to distinguish a strategy from chance"
            return HashVerdict(NOT_ENOUGH_KEYS, "", (), ratio, chance, p_value, why)
        return HashVerdict(NONE_KNOWN, "", (), ratio, chance, p_value, f"the best, {words}: no more than chance")
    if ratio < WHOLE:
        return HashVerdict(MIXED, best, tied, ratio, chance, p_value, f"{words}; something else placed the rest")
    return HashVerdict(best, best, tied, ratio, chance, p_value, words)
