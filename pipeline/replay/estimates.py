"""Loads of which a part is unknown: what is certain, what is likely, and how far it may go.

What is unknown may lie on any one partition or be spread in any way. Likely is an even spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.replay.seed_ranges import WholeRange


class Loads(NamedTuple):
    """Load of each partition (or broker): at least, likely, at most; whole numbers.

    The likely ones sum to the total exactly.
    """

    low: NDArray[np.int64]
    median: NDArray[np.int64]
    high: NDArray[np.int64]


class Range(NamedTuple):
    """A measure with its range."""

    value: float | None
    low: float | None
    high: float | None


def of_range(name: str, measured: Range | WholeRange) -> dict[str, Any]:
    """A measure's three columns."""
    return {name: measured.value, f"{name}_low": measured.low, f"{name}_high": measured.high}


def of_loads(name: str, loads: Loads, place: int | None) -> dict[str, int]:
    """The three columns of the load at a place; zeros without one."""
    low, median, high = (0, 0, 0) if place is None else (int(part[place]) for part in loads)
    return {name: median, f"{name}_low": low, f"{name}_high": high}


def spread_unknown(known: NDArray[np.int64], unknown: int) -> Loads:
    """Adds a load of which nobody knows where it lies.

    >>> spread_unknown(np.array([5, 0, 1]), 4)
    Loads(low=array([5, 0, 1]), median=array([7, 1, 2]), high=array([9, 4, 5]))
    """
    each, rest = divmod(unknown, len(known))
    share = np.full(len(known), each, dtype=np.int64)
    share[:rest] += 1
    return Loads(known, known + share, known + unknown)


def measure_peak_to_mean(loads: Loads) -> Range:
    """Largest over mean load.

    >>> measure_peak_to_mean(spread_unknown(np.array([4, 2, 0]), 0))
    Range(value=2.0, low=2.0, high=2.0)
    """
    total = int(loads.median.sum())
    if total <= 0:
        return Range(None, None, None)
    mean = total / len(loads.median)
    return Range(
        float(loads.median.max() / mean), max(1.0, float(loads.low.max() / mean)), float(loads.high.max() / mean)
    )


def measure_effective_partitions(loads: Loads) -> Range:
    """1 over the sum of squared shares; least with all that is unknown on the largest, most with the gaps filled first.

    >>> measure_effective_partitions(Loads(*(np.array([3, 3, 0, 0]),) * 3))
    Range(value=2.0, low=2.0, high=2.0)
    """
    total = int(loads.median.sum())
    if total <= 0:
        return Range(None, None, None)
    unknown = total - int(loads.low.sum())
    heaped = loads.low.astype(np.float64)
    heaped[int(np.argmax(loads.low))] += unknown
    return Range(_effective(loads.median), _effective(heaped), _effective(_fill_gaps(loads.low, unknown)))


def _effective(loads: NDArray[np.int64] | NDArray[np.float64]) -> float:
    shares = np.sort(loads / loads.sum())  # in one order, whatever partition is which
    return float(1.0 / np.sum(shares * shares))


def _fill_gaps(loads: NDArray[np.int64], unknown: int) -> NDArray[np.float64]:
    """The most even loads that adding `unknown` can give: water poured on steps."""
    steps = np.sort(loads).astype(np.float64)
    for filled in range(1, len(steps) + 1):
        level = (steps[:filled].sum() + unknown) / filled
        if filled == len(steps) or level <= steps[filled]:
            break
    filled_steps: NDArray[np.float64] = np.maximum(steps, level)
    return filled_steps
