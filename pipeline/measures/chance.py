"""Variation of shares by chance alone, the traffic a verdict needs, and how runs of batches add to chance.

docs/MEASURES.md has the formulas. The tail is taken as normal: good where a broker expects some hundreds of units,
which `required_units_of_share` guards (290 or more at 20 % above share and level 0.001). With fewer, `bound_chance`
holds for any number of units and any weights.

Batches that a sticky producer or a burst places together count as one unit. Between one slot of the window and the next
the shares e of B brokers change by chance alone: the sum over brokers of the squared change over `e (1/n_s + 1/n_s+1)`,
n the effective batches of each slot, is chi-square with B - 1 degrees for independent batches, and larger by the size
of a run. Its upper quartile over slots is taken: the median is 0 where a slot holds a run or two, and neither sees a
broker that is hot for half the window. Runs longer than a slot show between longer blocks, so these are tried as well.

References: docs/MEASURES.md; Benjamini, Hochberg, J. R. Statist. Soc. B 57 (1995); Hoeffding, J. Am. Statist. Assoc. 58
(1963), theorem 2; Wilson, Hilferty, Proc. Natl. Acad. Sci. USA 17 (1931); von Neumann, Ann. Math. Statist. 12 (1941).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pipeline.arrays import Flags, Floats

_NORMAL = NormalDist()
CHANCE_LEVEL = 0.001
"""Chance that the ratio in `gold.broker_share.chance_ratio` is exceeded: once in a thousand windows."""
NORMAL_REACH = 1.645  # standard deviations of a normal law on either side that hold nine of ten


def effective_units(weight_sum: float, weight_squared_sum: float) -> float | None:
    """Number of equal units that would scatter as much: `(sum w)^2 / sum w^2`; None without weight."""
    if weight_sum <= 0 or weight_squared_sum <= 0:
        return None
    return weight_sum * weight_sum / weight_squared_sum


def chance_cv(partition_count: int, unit_count: float) -> float:
    """Root-mean-square CV of the loads of equal partitions under random placement: `sqrt((P - 1) / N_eff)`."""
    return math.sqrt((partition_count - 1) / unit_count)


def required_units_of_share(expected_share: float, excess: float, level: float, group_count: int) -> float:
    """Effective units that distinguish `excess` of one broker among some from chance, at a `level` over all of them."""
    quantile = _NORMAL.inv_cdf(1 - level / group_count)
    return (quantile / excess) ** 2 / expected_share


def required_units(partition_count: int, excess: float, level: float) -> float:
    """As for "peak-to-mean above 1 + excess" of equal partitions: `P (z_{1-a/P} / d)^2`."""
    return required_units_of_share(1 / partition_count, excess, level, partition_count)


def _ratio_deviation(expected_share: float, unit_count: float, ratio: float = 1.0) -> float:
    return math.sqrt(ratio * max(0.0, 1 - ratio * expected_share) / (expected_share * unit_count))


def chance_ratio(expected_share: float, unit_count: float, level: float = CHANCE_LEVEL) -> float:
    """Share ratio of one broker that chance exceeds with probability `level`: all of the traffic at most."""
    bound = 1 + _NORMAL.inv_cdf(1 - level) * _ratio_deviation(expected_share, unit_count)
    return min(bound, 1 / expected_share)


def chance_p_value(share_ratio: float, expected_share: float, unit_count: float, *, true_ratio: float = 1.0) -> float:
    """One-sided chance of this share ratio or more, for a broker of `true_ratio` in the long run; of a cluster 1."""
    deviation = _ratio_deviation(expected_share, unit_count, true_ratio)
    if deviation == 0:
        return 1.0
    return 0.5 * math.erfc((share_ratio - true_ratio) / deviation / math.sqrt(2))


def bound_chance(distance: float, unit_count: float) -> float:
    """Upper bound on the chance that a share is `distance` or more off to one side: `exp(-2 N d^2)`."""
    return math.exp(-2 * unit_count * max(0.0, distance) ** 2)


def significant(p_values: Sequence[float], level: float) -> Flags:
    """Benjamini-Hochberg: which p-values stay significant when at most `level` of the finds may be false."""
    values = np.asarray(p_values, dtype=np.float64)
    count = len(values)
    ordered = np.sort(values)
    passing = np.flatnonzero(ordered <= level * np.arange(1, count + 1) / max(count, 1))
    threshold = ordered[passing[-1]] if len(passing) else -1.0
    return values <= threshold


SLOTS = 60
LEAST_SLOT_MS = 5_000
LEAST_BLOCKS = 8
BLOCK_SLOTS = (1, 2, 4, 7)
_PART = 0.75
_DOUBT = 6.0
"""An estimate from m differences is taken for real above `1 + 6 / sqrt(m)`: once in some hundred windows by chance. One from
fewer than eight slots may be too low by as much."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlotLoads:
    size_bytes: Floats  # of every broker, shape (slots, brokers)
    squared: Floats  # sums of squared batch sizes of all brokers, shape (slots,)


def estimate_inflation(slots: SlotLoads) -> float:
    """How many batches make one independent unit, 1 or more; N_eff is to be divided by it.

    Slots without traffic are ignored. With fewer than eight the estimate is raised by what may be missing; one, or few
    of one broker, show no change at all: what came in a slot is then one unit.
    """
    return max(1.0, *(_inflation_between(slots, length) for length in BLOCK_SLOTS))


def _inflation_between(slots: SlotLoads, length: int) -> float:
    brokers = slots.size_bytes.shape[1]
    count = len(slots.size_bytes) // length
    size = slots.size_bytes[: count * length].reshape(count, length, brokers).sum(axis=1)
    squared = slots.squared[: count * length].reshape(count, length).sum(axis=1)
    total = size.sum(axis=1)
    used = (total > 0) & (squared > 0)
    size, squared, total = size[used], squared[used], total[used]
    is_short = len(total) < LEAST_BLOCKS
    if not len(total) or brokers < 2 or (is_short and length > 1):
        return 1.0
    expected = size.sum(axis=0) / total.sum()
    busy = (expected > 0) & (expected < 1)
    if len(total) < 2 or busy.sum() < 2:
        return float((total**2).sum() / squared.sum()) if is_short else 1.0
    share, unit = size[:, busy] / total[:, None], squared / total**2  # 1 / n
    changes = (np.diff(share, axis=0) ** 2 / expected[busy]).sum(axis=1) / (unit[1:] + unit[:-1])
    degrees = int(busy.sum()) - 1
    part = 2 / (9 * degrees)  # the quantile of chi square by Wilson and Hilferty: 1.32 for one degree, exact 1.32
    quantile = degrees * (1 - part + NormalDist().inv_cdf(_PART) * math.sqrt(part)) ** 3
    estimate = float(np.quantile(changes, _PART)) / quantile
    doubt = _DOUBT / math.sqrt((len(total) - 1) * degrees / 2)  # neighbouring differences share a slot
    if is_short:
        return max(1.0, estimate) * (1 + doubt)
    return estimate if estimate > 1 + doubt else 1.0


def peak_share_ratios(slots: SlotLoads, expected_share: Floats) -> Floats:
    """Largest load of each broker in a slot over its fair part of the mean slot; 0 without traffic."""
    mean = float(slots.size_bytes.sum()) / max(1, len(slots.size_bytes))
    if mean <= 0:
        return np.zeros(len(expected_share))
    ratios: Floats = slots.size_bytes.max(axis=0) / (mean * expected_share)
    return ratios


def slot_ms(window_ms: int) -> int:
    return max(LEAST_SLOT_MS, -(-window_ms // SLOTS))


def place_slots(slots: Sequence[tuple[int, int, float, float]], broker_ids: Sequence[int]) -> SlotLoads | None:
    place = {broker_id: number for number, broker_id in enumerate(broker_ids)}
    known = [row for row in slots if row[1] in place]
    if not known:
        return None
    first = min(row[0] for row in known)
    count = max(row[0] for row in known) - first + 1
    size, squared = np.zeros((count, len(broker_ids))), np.zeros(count)
    for slot, broker_id, size_bytes, of_batches in sorted(known):
        size[slot - first, place[broker_id]] += size_bytes
        squared[slot - first] += of_batches
    return SlotLoads(size_bytes=size, squared=squared)
