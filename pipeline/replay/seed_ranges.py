"""Several seeds' runs as one: the median of a number, and the range in which one more run lies nine times of ten.

The real run is one more run. Few seeds tell little of the ends: of ten seeds the percentiles 5 and 95 hold only three
quarters of all runs. So the range is the prediction interval of a normal law for one further observation: mean and
deviation of the seeds, and Student's t for what so few of them leave open.

References:
    Hahn and Meeker, Statistical Intervals, 1991, section 4.2. Student's quantile: Abramowitz and Stegun, 26.7.5.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.replay.estimates import Loads, Range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

INSIDE = 0.9
"""Of further runs so many lie in the range."""


class WholeRange(NamedTuple):
    """A count over the seeds, rounded: the median to the nearest, the ends outwards."""

    value: int
    low: int
    high: int


def apportion(weights: NDArray[np.int64] | NDArray[np.float64], total: int) -> NDArray[np.int64]:
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
    """Half the range, in standard deviations over the seeds.

    >>> [round(reach_of(count), 2) for count in (2, 5, 10, 60)]
    [7.73, 2.34, 1.92, 1.68]
    """
    return _find_student(seed_count - 1) * math.sqrt(1 + 1 / seed_count) if seed_count > 1 else 0.0


def _find_student(freedom: int) -> float:
    """The quantile of Student's t above which half of what lies outside lies."""
    if freedom == 1:
        return math.tan(math.pi * INSIDE / 2)
    if freedom == 2:
        return INSIDE * math.sqrt(2 / (1 - INSIDE**2))
    z = NormalDist().inv_cdf((1 + INSIDE) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def expect_range(
    values: NDArray[np.int64] | NDArray[np.float64], least: float = 0.0, most: float = math.inf
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Where one more run lies.

    Args:
        values: Of the seeds, at least one; what is more than one axis is taken column by column.
        least: There is nothing below.
        most: Or above.

    Returns:
        The low end, the median, and the high end.

    >>> [float(end.round(1)) for end in expect_range(np.array([30, 31, 35, 32, 32]))]
    [27.6, 32.0, 36.4]
    """
    ordered = np.sort(values, axis=0).astype(np.float64)  # sums must not depend on the order
    middle = np.median(ordered, axis=0)
    mean, reach = ordered.mean(axis=0), 0.0
    if len(ordered) > 1:
        reach = reach_of(len(ordered)) * ordered.std(axis=0, ddof=1)
    is_same = ordered[0] == ordered[-1]
    low = np.where(is_same, middle, np.maximum(mean - reach, np.minimum(least, ordered[0])))
    high = np.where(is_same, middle, np.minimum(mean + reach, np.maximum(most, ordered[-1])))
    return low, middle, high


def spread_over_seeds(loads: NDArray[np.int64], total: int) -> Loads:
    """Loads of partitions or brokers, seed by seed, as one: the medians, evened out to sum to the total, and the ranges.

    Args:
        loads: Shape (seeds, partitions): each seed's in proportion to what it gave.
        total: What they are parts of.

    >>> spread_over_seeds(np.array([[21, 19], [19, 21], [20, 20]]), 40)
    Loads(low=array([16, 16]), median=array([20, 20]), high=array([24, 24]))
    """
    each = np.array([apportion(row, total) for row in loads])
    low, middle, high = expect_range(each, most=total)
    median = apportion(middle, total)
    return Loads(
        np.minimum(np.floor(low).astype(np.int64), median), median, np.maximum(np.ceil(high).astype(np.int64), median)
    )


def measure_seeds(values: Iterable[float | None], least: float = 0.0, most: float = math.inf) -> Range:
    """A measure over the seeds; nothing where no seed tells it.

    Args:
        values: Of the seeds.
        least: It cannot be less.
        most: Or more.
    """
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return Range(None, None, None)
    low, middle, high = (float(end) for end in expect_range(known, least, most))
    return Range(middle, low, high)


def count_seeds(values: Iterable[int]) -> WholeRange:
    """A count over the seeds.

    >>> count_seeds([30, 31, 35, 32, 32])
    WholeRange(value=32, low=27, high=37)
    """
    low, middle, high = (float(end) for end in expect_range(np.array(list(values))))
    return WholeRange(round(middle), math.floor(low), math.ceil(high))
