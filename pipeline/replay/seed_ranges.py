"""Several seeds' runs as one: the median of a number and the range that 90 % of the seeds lie in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.replay.estimates import Loads, Range
from pipeline.simulator.summary import HIGH_PERCENT, LOW_PERCENT, take_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


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


def spread_over_seeds(loads: NDArray[np.int64], total: int) -> Loads:
    """Loads of partitions or brokers, seed by seed, as one: the medians, evened out to sum to the total, and the ranges.

    Args:
        loads: Shape (seeds, partitions): each seed's in proportion to what it gave.
        total: What they are parts of.

    >>> spread_over_seeds(np.array([[3, 1], [1, 3], [2, 2]]), 40)
    Loads(low=array([11, 11]), median=array([20, 20]), high=array([29, 29]))
    """
    each = np.array([apportion(row, total) for row in loads])
    low, middle, high = np.percentile(each, [LOW_PERCENT, 50, HIGH_PERCENT], axis=0)
    median = apportion(middle, total)
    return Loads(
        np.minimum(np.floor(low).astype(np.int64), median), median, np.maximum(np.ceil(high).astype(np.int64), median)
    )


def measure_seeds(values: Iterable[float | None]) -> Range:
    """A measure over the seeds; nothing where no seed tells it."""
    return Range(*take_range(values))


def count_seeds(values: Iterable[int]) -> WholeRange:
    """A count over the seeds.

    >>> count_seeds([3, 1, 2])
    WholeRange(value=2, low=1, high=3)
    """
    low, middle, high = np.percentile(np.array(list(values)), [LOW_PERCENT, 50, HIGH_PERCENT])
    return WholeRange(round(float(middle)), int(np.floor(low)), int(np.ceil(high)))
