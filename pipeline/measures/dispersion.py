"""How much more brokers' shares scatter within a window than independent batches would: the price of runs and bursts.

Batches that a sticky producer or a burst places together count as one unit. The window is cut into slots; between one slot
and the next the shares e of B brokers change by chance alone. The sum over brokers of the squared change over
`e (1/n_s + 1/n_s+1)`, n the effective batches of each slot, is chi-square with B - 1 degrees where batches are independent,
and larger by the size of a run where they come in runs. Its upper quartile over slots is taken: the median is 0 where a slot
holds a run or two, and neither sees a broker that is hot for half the window, which makes one large difference. Runs longer
than a slot show between longer blocks, so these are tried as well.

References:
    Wilson, Hilferty: The Distribution of Chi-Square, Proc. Natl. Acad. Sci. USA 17 (1931);
    von Neumann: Distribution of the Ratio of the Mean Square Successive Difference to the Variance, Ann. Math. Statist. 12
    (1941). docs/MEASURES.md: bursts make batches dependent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pipeline.measures.window_loads import Floats

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
    """Loads of a window's slots of equal length."""

    size_bytes: Floats  # of every broker, shape (slots, brokers)
    squared: Floats  # sums of squared batch sizes of all brokers, shape (slots,)


def estimate_inflation(slots: SlotLoads) -> float:
    """How many batches make one independent unit, 1 or more: 1 for independent ones; N_eff is to be divided by it.

    Slots without traffic are ignored. Where fewer than eight have any, the estimate is raised by what may be missing; one
    slot, or few that are all of one broker, show no change at all: what came in a slot is then one unit.

    >>> rng = np.random.default_rng(7)
    >>> single = rng.multinomial(10_000, [1 / 6] * 6, size=60).astype(float)
    >>> estimate_inflation(SlotLoads(size_bytes=single, squared=single.sum(axis=1)))
    1.0
    >>> runs = rng.multinomial(400, [1 / 6] * 6, size=60) * 25.0  # runs of 25 batches of 1 byte
    >>> bool(20 < estimate_inflation(SlotLoads(size_bytes=runs, squared=runs.sum(axis=1))) < 35)
    True
    """
    return max(1.0, *(_inflation_between(slots, length) for length in BLOCK_SLOTS))


def _inflation_between(slots: SlotLoads, length: int) -> float:
    """The estimate from neighbouring blocks of so many slots; 1 where it may be chance."""
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
    """Largest load of each broker in a slot over its fair part of the mean slot, shape (brokers,); 0 without traffic.

    A broker that has its fair share over the hour, all of it within five minutes, stands at 12 here.

    >>> slots = SlotLoads(size_bytes=np.array([[10.0, 10], [30, 10], [0, 0], [0, 0]]), squared=np.ones(4))
    >>> peak_share_ratios(slots, np.array([0.5, 0.5])).tolist()
    [4.0, 1.3333333333333333]
    """
    mean = float(slots.size_bytes.sum()) / max(1, len(slots.size_bytes))
    if mean <= 0:
        return np.zeros(len(expected_share))
    ratios: Floats = slots.size_bytes.max(axis=0) / (mean * expected_share)
    return ratios


def slot_ms(window_ms: int) -> int:
    """Length of a window's slots: a sixtieth of it, five seconds at least.

    >>> slot_ms(3_600_000), slot_ms(60_000)
    (60000, 5000)
    """
    return max(LEAST_SLOT_MS, -(-window_ms // SLOTS))


def place_slots(slots: Sequence[tuple[int, int, float, float]], broker_ids: Sequence[int]) -> SlotLoads | None:
    """Slots (number, broker, bytes, sum of squared batch sizes) as arrays, from the first to the last; None without any."""
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
