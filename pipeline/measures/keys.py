"""How uneven keys are, and what no hash of them can do better.

A key is in one partition. So however it is hashed, the partition that holds the heaviest key carries at least that key's
part of the topic, and a topic of few effective keys is uneven with nothing wrong in the hash.

References:
    docs/ARCHITECTURE.md, Measures. Effective keys are the inverse Simpson index, as effective partitions are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pipeline.measures.imbalance import Loads


def effective_keys(weights: Loads) -> float | None:
    """`(sum w)^2 / sum w^2`: as if that many keys had equal weight; None without weight.

    >>> effective_keys([2, 2, 0])
    2.0
    >>> w = 1 / np.arange(1, 100_001) ** 1.2  # Zipf 1.2
    >>> round(effective_keys(w), 1)
    18.7
    """
    values = np.asarray(weights, dtype=np.float64)
    squares = float((values * values).sum())
    return float(values.sum()) ** 2 / squares if squares > 0 else None


def top_keys_ratio(weights: Loads, count: int) -> float | None:
    """Part of the whole that the heaviest keys hold; None without weight.

    Args:
        weights: Bytes or records of every key.
        count: How many of the heaviest.

    >>> top_keys_ratio([1, 5, 1, 3], 2)
    0.8
    """
    values = np.sort(np.asarray(weights, dtype=np.float64))[::-1]
    total = float(values.sum())
    return float(values[:count].sum()) / total if total > 0 else None


def best_peak_to_mean(partition_count: int, top_key_ratio: float) -> float:
    """Smallest peak-to-mean that any key hash can reach: `max(1, P * p_1)`; no hash and no rebalance gets below it.

    >>> best_peak_to_mean(12, 0.14)
    1.6800000000000002
    >>> best_peak_to_mean(12, 0.01)
    1.0
    """
    return max(1.0, partition_count * top_key_ratio)


def kept_keys_ratio(partition_count: int, new_count: int) -> float:
    """Part of the keys that stay where they are when `hash mod P` becomes `hash mod P'`: `min / lcm`.

    >>> kept_keys_ratio(12, 24), kept_keys_ratio(12, 16), round(kept_keys_ratio(12, 13) * 13, 6)
    (0.5, 0.25, 1.0)
    """
    return min(partition_count, new_count) / math.lcm(partition_count, new_count)
