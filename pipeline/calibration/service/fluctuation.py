"""How delays change between two scrapes, of which metrics tell the mean alone.

A broker that answers late for a second and quickly for four keeps other batches waiting than one that is always a
little late, and the more so the busier a candidate makes it. How long delays last shows in the means: those of
neighbouring spans are alike where a delay outlasts a span. Delays are taken to change at random instants, to values
that do not depend on those before. With x the length of a span in lengths of a delay, the means of spans then have
2 (x - 1 + e^-x) / x^2 of the delays' variance, and neighbours a correlation of (1 - e^-x)^2 / (2 (x - 1 + e^-x)).

References:
    Yaglom, Correlation Theory of Stationary and Related Random Functions I, 1987, section 9: means of a process whose
    correlation falls exponentially.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.calibration.service.model import ServiceModel
from pipeline.calibration.within_ms import mix_bits
from pipeline.model.window import HOUR_MS
from pipeline.simulator.distributions import GAMMA


def fluctuate(model: ServiceModel, stream: int) -> ServiceModel:
    """The model with delays drawn within its spans, whose means stay; unchanged where they are not followed."""
    at_ms, means = (np.array(column, np.float64) for column in zip(*model.delay_series or ((0, 0.0),), strict=True))
    means = np.minimum(means, HOUR_MS)  # a metric may claim any
    correlation = _correlate(means)
    if not model.is_followed or not correlation < 1:
        return model
    span_ms = float(np.median(np.diff(at_ms)))
    end_ms = at_ms[-1] + span_ms // 1
    lasting = _invert_correlation(correlation)
    variance = means.var() * lasting**2 / (2 * (lasting + np.expm1(-lasting)))
    first, second, third = _draw_uniform(stream, 2 * int(lasting * (end_ms - at_ms[0]) / span_ms) + len(means))
    changes_ms = at_ms[0] + np.floor(np.cumsum(-np.log(first)) * span_ms / lasting)
    deviation = np.sqrt(np.log1p(variance / means.mean() ** 2))
    levels = np.exp(deviation * np.sqrt(-2 * np.log(second)) * np.cos(2 * np.pi * third))
    starts_ms = np.unique(np.concatenate([at_ms, changes_ms[changes_ms < end_ms]]))
    drawn = levels[np.minimum(np.searchsorted(changes_ms, starts_ms, side="right"), len(levels) - 1)]
    lengths_ms, number = np.diff(starts_ms, append=end_ms), np.searchsorted(at_ms, starts_ms, side="right") - 1
    share = drawn * np.bincount(number, lengths_ms)[number] / np.bincount(number, drawn * lengths_ms)[number]
    ends = [*starts_ms.tolist(), end_ms], [*(means[number] * share).tolist(), float(means[-1])]
    return replace(model, delay_series=tuple((int(at), delay_ms) for at, delay_ms in zip(*ends, strict=True)))


def _correlate(means: NDArray[np.float64]) -> float:
    """Of neighbouring means, with its error, for changes are no quicker than they must be; 1 where all are alike."""
    deviations = means - means.mean()
    if not deviations.any():
        return 1.0
    found = float((deviations[1:] * deviations[:-1]).sum() / (deviations**2).sum())
    return max(found, 0.0) + 1 / math.sqrt(len(means))


def _invert_correlation(correlation: float) -> float:
    """How many lengths of a delay a span is long, given the correlation of neighbouring means.

    >>> round(float(_invert_correlation((1 - np.exp(-2)) ** 2 / (2 * (1 + np.exp(-2))))), 6)
    2.0
    """
    low, high = 0.0, 2 / correlation  # the correlation is less than 2 / x
    for _ in range(40):
        middle = (low + high) / 2
        is_short = np.expm1(-middle) ** 2 > 2 * correlation * (middle + np.expm1(-middle))
        low, high = (middle, high) if is_short else (low, middle)
    return high


def _draw_uniform(stream: int, count: int) -> NDArray[np.float64]:
    """Numbers above 0 and below 1; float64[3, count]."""
    bits = mix_bits(np.arange(1, 3 * count + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(stream))
    uniform: NDArray[np.float64] = ((bits >> np.uint64(12)) + 0.5) / 2**52
    return uniform.reshape(3, count)
