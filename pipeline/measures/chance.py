"""Variation of shares by chance alone, and the traffic a verdict needs.

Units with weights w (batches, by their bytes) are placed independently, each on broker b with probability e_b. They count
as `N_eff = (sum w)^2 / sum w^2`; the share of b has mean e_b and variance `e_b (1 - e_b) / N_eff`, whatever the weights.

The tail is taken as normal: good where b expects some hundreds of units, which `required_units_of_share` guards (290 or
more at 20 % above share and level 0.001). With fewer, `bound_chance` holds for any number of units and any weights.
Batches sent in runs and records of one key are less independent than this assumes, so it is a lower bound on chance.

References:
    docs/MEASURES.md; Benjamini, Hochberg: Controlling the False Discovery Rate, J. R. Statist. Soc. B 57 (1995);
    Hoeffding: Probability Inequalities for Sums of Bounded Random Variables, J. Am. Statist. Assoc. 58 (1963), theorem 2.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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
    """Effective units needed to distinguish `excess` above its share from chance, for one broker among `group_count`.

    `level`: chance of a false alarm over all of them together.

    >>> round(required_units_of_share(1 / 3, 0.2, 0.001, 3))
    868
    """
    quantile = _NORMAL.inv_cdf(1 - level / group_count)
    return (quantile / excess) ** 2 / expected_share


def required_units(partition_count: int, excess: float, level: float) -> float:
    """Effective units needed to judge "peak-to-mean above 1 + excess" of equal partitions: `P (z_{1-a/P} / d)^2`."""
    return required_units_of_share(1 / partition_count, excess, level, partition_count)


def _ratio_deviation(expected_share: float, unit_count: float, ratio: float = 1.0) -> float:
    """Standard deviation of the share ratio of a broker that carries `ratio` times its expected share in the long run."""
    return math.sqrt(ratio * max(0.0, 1 - ratio * expected_share) / (expected_share * unit_count))


def chance_ratio(expected_share: float, unit_count: float, level: float = CHANCE_LEVEL) -> float:
    """Share ratio of one broker that chance exceeds with probability `level`: all of the traffic at most."""
    bound = 1 + _NORMAL.inv_cdf(1 - level) * _ratio_deviation(expected_share, unit_count)
    return min(bound, 1 / expected_share)


def chance_p_value(share_ratio: float, expected_share: float, unit_count: float, *, true_ratio: float = 1.0) -> float:
    """One-sided chance of this share ratio or more, for a broker of `true_ratio` in the long run; 1 for a whole cluster.

    >>> chance_p_value(1.0, 1 / 3, 10_000)
    0.5
    >>> f"{chance_p_value(1.2, 1 / 3, 10_000):.0e}"
    '1e-45'
    >>> chance_p_value(1.0, 1.0, 10_000)
    1.0
    >>> round(chance_p_value(1.25, 1 / 3, 10_000, true_ratio=1.2), 4)
    0.0003
    """
    deviation = _ratio_deviation(expected_share, unit_count, true_ratio)
    if deviation == 0:
        return 1.0
    return 0.5 * math.erfc((share_ratio - true_ratio) / deviation / math.sqrt(2))


def bound_chance(distance: float, unit_count: float) -> float:
    """Upper bound on the chance that a share is `distance` or more to one side of its expected value: `exp(-2 N d^2)`.

    >>> f"{bound_chance(1.689 / 3 - 1 / 3, 736):.0e}"
    '2e-34'
    >>> bound_chance(0.0, 736)
    1.0
    """
    return math.exp(-2 * unit_count * max(0.0, distance) ** 2)


def significant(p_values: Sequence[float], level: float) -> NDArray[np.bool_]:
    """Benjamini-Hochberg: which p-values stay significant when at most `level` of the finds may be false."""
    values = np.asarray(p_values, dtype=np.float64)
    count = len(values)
    ordered = np.sort(values)
    passing = np.flatnonzero(ordered <= level * np.arange(1, count + 1) / max(count, 1))
    threshold = ordered[passing[-1]] if len(passing) else -1.0
    flags: NDArray[np.bool_] = values <= threshold
    return flags
