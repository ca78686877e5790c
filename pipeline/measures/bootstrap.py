"""Distribution of the largest of many partitions under chance, by repeated random placement.

For many partitions, or where a few units weigh as much as all others, the normal tail is too light. Here the units are
really placed: heavy ones each by itself, the others as so many equal ones. The seed comes from the window, so that the
same window gives the same answer.

References:
    Efron, Tibshirani: An Introduction to the Bootstrap, chapter 6 (parametric); docs/MEASURES.md.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

ROUNDS = 1_000


def derive_window_seed(cluster: str, window_start_ms: int, subject: str) -> int:
    """A seed that hangs on the window and what is judged, on nothing else.

    >>> derive_window_seed("demo", 1795251600000, "orders")
    849994506349356150
    """
    text = "\0".join((cluster, str(window_start_ms), subject))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def place_units(
    partition_count: int, unit_count: float, *, seed: int, heavy_ratios: Sequence[float] = ()
) -> NDArray[np.float64]:
    """Peak-to-mean of placements in which chance alone decides, one per round, ascending.

    Args:
        partition_count: Partitions, equally likely.
        unit_count: Effective number of all units, heavy ones included.
        seed: From `derive_window_seed`.
        heavy_ratios: Parts of the whole of units that weigh much, each placed by itself.

    >>> peaks = place_units(100, 10_000, seed=7)
    >>> bool(1.2 < np.median(peaks) < 1.3)
    True
    >>> set(place_units(4, 4, seed=7, heavy_ratios=[0.5]).tolist())  # one is half: the others are as small as can be
    {2.5}
    """
    rng = np.random.Generator(np.random.Philox(seed))
    heavy = np.asarray(heavy_ratios, dtype=np.float64)
    rest = max(0.0, 1.0 - float(heavy.sum()))
    squares = 1.0 / unit_count - float((heavy * heavy).sum())
    equal = max(1, round(rest * rest / squares)) if rest > 0 and squares > 0 else 0
    loads = np.zeros((ROUNDS, partition_count))
    if equal:
        loads += rng.multinomial(equal, np.full(partition_count, 1 / partition_count), size=ROUNDS) * (rest / equal)
    elif rest > 0:
        loads += rest / partition_count
    rows = np.arange(ROUNDS)
    for ratio in heavy.tolist():
        loads[rows, rng.integers(0, partition_count, ROUNDS)] += ratio
    peaks: NDArray[np.float64] = np.sort(loads.max(axis=1) * partition_count)
    return peaks


def exceeding_chance(peaks: NDArray[np.float64], value: float) -> float:
    """Chance of `value` or more, from placements: never 0, `1 / (rounds + 1)` where none came so high.

    >>> exceeding_chance(np.array([1.0, 1.1, 1.2]), 1.15)
    0.5
    """
    above = len(peaks) - int(np.searchsorted(peaks, value, side="left"))
    return (above + 1) / (len(peaks) + 1)
