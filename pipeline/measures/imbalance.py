"""How uneven loads are: share ratios of brokers, peak-to-mean, CV and effective partitions of a topic.

All functions take loads of one window, in any one unit (bytes or records, never mixed), and answer None where there is
no load to compare: no traffic is neither balanced nor skewed.

References:
    docs/ARCHITECTURE.md, Measures. The share ratio equals Cruise Control's utilisation over the cluster's average, so its thresholds
    compare directly. Effective partitions are the inverse Simpson index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Loads = Sequence[float] | NDArray[np.float64] | NDArray[np.int64]


def expected_shares(capacities: Loads) -> NDArray[np.float64]:
    """Part of the cluster's capacity of each broker.

    Args:
        capacities: Capacity weight of each broker, above 0, shape (brokers,).

    Raises:
        ValueError: if a capacity is not above 0.

    >>> expected_shares([1, 1, 2]).tolist()
    [0.25, 0.25, 0.5]
    """
    weights = np.asarray(capacities, dtype=np.float64)
    if not np.all(weights > 0):
        raise ValueError(f"capacities must be above 0, found {weights.tolist()}")
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def share_ratios(loads: Loads, capacities: Loads) -> NDArray[np.float64] | None:
    """Share of the load over share of the capacity, per broker: 1 is fair, 1.2 is a fifth too much.

    Args:
        loads: Load of each broker, shape (brokers,).
        capacities: Capacity weight of each broker, the same shape.

    >>> share_ratios([30, 30, 60], [1, 1, 1]).tolist()
    [0.75, 0.75, 1.5]
    >>> share_ratios([30, 30, 60], [1, 1, 2]).tolist()
    [1.0, 1.0, 1.0]
    >>> share_ratios([0, 0], [1, 1]) is None
    True
    """
    carried = np.asarray(loads, dtype=np.float64)
    total = float(carried.sum())
    if total <= 0:
        return None
    ratios: NDArray[np.float64] = carried / total / expected_shares(capacities)
    return ratios


def peak_to_mean(loads: Loads) -> float | None:
    """Largest load over the mean load: the head-room the hottest partition needs.

    >>> peak_to_mean([1, 1, 4])
    2.0
    """
    carried = np.asarray(loads, dtype=np.float64)
    if carried.sum() <= 0:
        return None
    return float(carried.max() / carried.mean())


def cv(loads: Loads) -> float | None:
    """Coefficient of variation: population standard deviation (ddof 0) over the mean.

    >>> cv([1, 3])
    0.5
    """
    carried = np.asarray(loads, dtype=np.float64)
    if carried.sum() <= 0:
        return None
    return float(carried.std() / carried.mean())


def effective_partitions(loads: Loads) -> float | None:
    """1 over the sum of squared shares, `P / (1 + CV^2)`: as if that many partitions were used evenly.

    >>> effective_partitions([5, 5, 0, 0])
    2.0
    """
    carried = np.asarray(loads, dtype=np.float64)
    total = float(carried.sum())
    if total <= 0:
        return None
    shares = carried / total
    return float(1.0 / np.sum(shares * shares))
