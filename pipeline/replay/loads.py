"""Loads and measures with a range: of which a part is unknown, or over the seeds of a simulation.

What is unknown may lie on any one partition or be spread in any way; likely is an even spread.

Over seeds the range is where one more run lies nine times of ten, for the real run is one more run. Few seeds say little of
the ends: of ten seeds the percentiles 5 and 95 hold only three quarters of all runs. So the range is the prediction
interval of a normal law for one further observation: mean and deviation of the seeds, and Student's t for what so few of
them leave open.

References:
    Hahn and Meeker, Statistical Intervals, 1991, section 4.2.
"""

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.calibration.limits import MOST_STRAY
from pipeline.measures.chance import NORMAL_REACH

INSIDE = 1 - 2 * MOST_STRAY  # part of further runs that lie in a range over seeds


class Loads(NamedTuple):
    """Load of each partition (or broker): at least, likely, at most; int64[n] each. The likely ones sum to the total."""

    low: Ints
    median: Ints
    high: Ints

    def columns(self, name: str, number: int | None) -> dict[str, int]:
        """The three columns of the load of a partition or broker; zeros without one."""
        low, median, high = (0, 0, 0) if number is None else (int(part[number]) for part in self)
        return {name: median, f"{name}_low": low, f"{name}_high": high}


class Estimate(NamedTuple):
    """A measure with its range; a count over seeds is rounded, its ends outwards."""

    value: float | None
    low: float | None
    high: float | None

    def columns(self, name: str) -> dict[str, Any]:
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


UNKNOWN = Estimate(None, None, None)


def known_loads(loads: Ints) -> Loads:
    return Loads(loads, loads, loads)


def spread_unknown(known: Ints, unknown: int) -> Loads:
    """Adds a load whose partition is unknown.

    >>> spread_unknown(np.array([5, 0, 1]), 4)
    Loads(low=array([5, 0, 1]), median=array([7, 1, 2]), high=array([9, 4, 5]))
    """
    share = apportion(np.ones(len(known)), unknown)
    return Loads(known, known + share, known + unknown)


def measure_peak_to_mean(loads: Loads) -> Estimate:
    """Largest over mean load.

    >>> measure_peak_to_mean(spread_unknown(np.array([4, 2, 0]), 0))
    Estimate(value=2.0, low=2.0, high=2.0)
    """
    total = int(loads.median.sum())
    if total <= 0:
        return UNKNOWN
    low, median, high = (float(part.max() / (total / len(part))) for part in loads)
    return Estimate(median, max(1.0, low), high)


def measure_effective_partitions(loads: Loads) -> Estimate:
    """1 over the sum of squared shares; least with all that is unknown on the largest, most with the gaps filled first.

    >>> measure_effective_partitions(Loads(*(np.array([3, 3, 0, 0]),) * 3))
    Estimate(value=2.0, low=2.0, high=2.0)
    """
    total = int(loads.median.sum())
    if total <= 0:
        return UNKNOWN
    unknown = total - int(loads.low.sum())
    heaped = loads.low.astype(np.float64)
    heaped[int(np.argmax(loads.low))] += unknown
    return Estimate(*(count_effective(part) for part in (loads.median, heaped, _fill_gaps(loads.low, unknown))))


def count_effective(loads: Ints | Floats) -> float:
    """1 over the sum of squared shares."""
    shares = np.sort(loads / loads.sum())  # in one order, whatever partition is which
    return float(1.0 / np.sum(shares * shares))


def _fill_gaps(loads: Ints, unknown: int) -> Floats:
    """The most even loads that adding `unknown` can give: water poured on steps."""
    steps = np.sort(loads).astype(np.float64)
    for filled in range(1, len(steps) + 1):
        level = (steps[:filled].sum() + unknown) / filled
        if filled == len(steps) or level <= steps[filled]:
            break
    filled_steps: Floats = np.maximum(steps, level)
    return filled_steps


def apportion(weights: Ints | Floats, total: int) -> Ints:
    """Splits a whole number in proportion to weights, so that the parts sum to it; evenly where all weights are 0.

    What rounding down leaves goes to the largest remainders, of equal ones to the first.

    >>> apportion(np.array([1, 1, 1]), 10)
    array([4, 3, 3])
    >>> apportion(np.array([5, 0]), 3)
    array([3, 0])
    """
    summed = float(weights.sum())
    exact = weights * (total / summed) if summed > 0 else np.full(len(weights), total / max(1, len(weights)))
    parts = np.floor(exact).astype(np.int64)
    missing = total - int(parts.sum())
    if missing > 0:
        parts[np.argsort(parts - exact, kind="stable")[:missing]] += 1
    elif missing < 0:  # a product rounded up past a whole number
        parts[np.argsort(exact - parts, kind="stable")[:-missing]] -= 1
    return parts


@functools.cache
def reach_of(seed_count: int) -> float:
    """Half the range over seeds, in their standard deviations.

    >>> [round(reach_of(count), 2) for count in (2, 5, 10, 60)]
    [7.73, 2.34, 1.92, 1.68]
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - 0.3 s to import, which a task need not pay

    student = float(stdtrit(seed_count - 1, (1 + INSIDE) / 2)) if seed_count > 1 else 0.0
    return student * math.sqrt(1 + 1 / seed_count)


def expect_range(
    values: Ints | Floats, least: float = 0.0, most: float = math.inf, *, error: float | Floats = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Where one more run lies, by the seeds' values, column by column: the low end, the median, and the high end.

    There is nothing below `least` or above `most`. The model itself is off by a factor, whose logarithm has the standard
    deviation `error`.

    >>> [float(end.round(1)) for end in expect_range(np.array([30, 31, 35, 32, 32]))]
    [27.6, 32.0, 36.4]
    >>> [float(end.round(1)) for end in expect_range(np.array([30, 31, 35, 32, 32]), error=0.05)]
    [27.0, 32.0, 37.2]
    """
    ordered = np.sort(values, axis=0).astype(np.float64)  # sums must not depend on the order
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2  # a third of the time of `np.median`
    mean = ordered.mean(axis=0)
    reach = reach_of(len(ordered)) * ordered.std(axis=0, ddof=1) if len(ordered) > 1 else 0.0
    below, above = (np.hypot(reach, mean * np.expm1(sign * NORMAL_REACH * error)) for sign in (-1, 1))
    is_same = ordered[0] == ordered[-1]
    low = np.where(is_same, middle, np.maximum(mean - below, np.minimum(least, ordered[0])))
    high = np.where(is_same, middle, np.minimum(mean + above, np.maximum(most, ordered[-1])))
    return low, middle, high


def spread_error(shares: Floats, error: float) -> Floats:
    """The error of shares p for `expect_range`, where the model is off by `error` x sqrt(p (1 - p)).

    >>> spread_error(np.array([0.5, 0.1, 0.0]), 0.02)
    array([0.02, 0.06, 0.  ])
    """
    return error * np.sqrt(np.divide(1 - shares, shares, out=np.zeros_like(shares), where=shares > 0))


def spread_over_seeds(loads: Ints, total: int, *, error: float = 0.0) -> Loads:
    """Loads by seed and partition (or broker) as one: the medians, evened out to sum to the total, and the ranges.

    `error` is the model's, as in `spread_error`.

    >>> spread_over_seeds(np.array([[21, 19], [19, 21], [20, 20]]), 40)
    Loads(low=array([16, 16]), median=array([20, 20]), high=array([24, 24]))
    """
    each = np.array([apportion(row, total) for row in loads])
    shares = each.mean(axis=0) / max(1, total)
    low, middle, high = expect_range(each, most=total, error=spread_error(shares, error))
    median = apportion(middle, total)
    return Loads(
        np.minimum(np.floor(low).astype(np.int64), median), median, np.maximum(np.ceil(high).astype(np.int64), median)
    )


def measure_seeds(
    values: Iterable[float | None], least: float = 0.0, most: float = math.inf, *, error: float = 0.0
) -> Estimate:
    """A measure over the seeds, from `least` to `most`, or None where no seed gives it; `error` as in `expect_range`."""
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return UNKNOWN
    low, middle, high = (float(end) for end in expect_range(known, least, most, error=error))
    return Estimate(middle, low, high)


def count_seeds(values: Iterable[int]) -> Estimate:
    """A count over the seeds.

    >>> count_seeds([30, 31, 35, 32, 32])
    Estimate(value=32, low=27, high=37)
    """
    low, middle, high = (float(end) for end in expect_range(np.array(list(values))))
    return Estimate(round(middle), math.floor(low), math.ceil(high))
