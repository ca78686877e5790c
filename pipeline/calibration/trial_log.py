"""Delays found in the batches alone, where no metrics tell: what is in use is simulated until its batches are the recorded ones.

Records per batch and the share of each broker decide; a delay is taken from them only where the misfit has a clear minimum.
From the log alone that is often not so: a broker that was saturated shows full batches under any delay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.service import INFERRED, Parameter
from pipeline.calibration.trial import (
    SEEDS,
    BrokerFigures,
    choose_minute,
    cut_beginning,
    observe,
    simulate_trial,
    with_delay,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.calibration.service import ServiceModel
    from pipeline.calibration.trial import SessionTopic

_GRID_MS = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_REFINEMENTS = 3
_SLOW_ERROR, _OTHER_ERROR, _SHARE_ERROR = 0.05, 0.2, 0.015
"""How far records per batch of slow brokers and of others, and shares, may be off for reasons nobody simulates."""
_SLOW_RATIO = 1.5
_CLEAR = 6.0
"""How much the misfit, in squared standard deviations, has to rise on both sides of a clear minimum."""
_CLEAR_WIDTH_RATIO, _CLEAR_WIDTH_MS = 0.5, 2.0
_LEAST_BATCHES = 50
_WELL = 4.0
"""Of a misfit so much for each figure is none."""


def fit_log(
    topics: Sequence[SessionTopic],
    models: dict[int, ServiceModel],
    open_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
) -> dict[int, ServiceModel]:
    """Looks for delays in the batches of brokers whose batches are larger than others'.

    Args:
        topics: Of one session in a window.
        models: Of all brokers; changed in place.
        open_ids: Brokers whose delay nothing else tells.
        start_ms: The window's start, epoch milliseconds.
        end_ms: Its end.

    Returns:
        The models.
    """
    minute = choose_minute(topics, start_ms, end_ms)
    cut = cut_beginning(topics, *minute)
    if not cut:
        return models
    seen = observe(cut, list(models))
    size = dict(zip(models, seen.records_per_batch.tolist(), strict=True))
    count = dict(zip(models, seen.batch_count.tolist(), strict=True))
    least = min((size[own] for own in models if count[own] >= _LEAST_BATCHES), default=0.0)
    for broker_id in sorted(open_ids, key=lambda own: -size[own]):
        if count[broker_id] < _LEAST_BATCHES:
            continue
        if size[broker_id] < _SLOW_RATIO * least:
            models[broker_id] = _take_as_quick(models[broker_id])
            continue
        delay, is_clear, told = _search(cut, models, broker_id, seen, least)
        models[broker_id] = _take_found(models[broker_id], delay, told, is_clear=is_clear)
    return models


def _take_as_quick(model: ServiceModel) -> ServiceModel:
    """A broker whose batches are no larger than others'."""
    told = f"broker {model.broker_id}: its batches are no larger than other brokers': taken to have no delay"
    if model.is_settled:
        return replace(model, assumptions=(*model.assumptions, told))
    none = Parameter(0.0, 0.0, model.delay_ms.high, INFERRED)
    return replace(model, delay_ms=none, delay_series=(), assumptions=(*model.assumptions, told))


def _take_found(model: ServiceModel, delay: Parameter, told: str, *, is_clear: bool) -> ServiceModel:
    assumptions = (*model.assumptions, told)
    if is_clear or not model.is_settled:
        return replace(model, delay_ms=delay, delay_series=(), is_identifiable=is_clear, assumptions=assumptions)
    return replace(model, assumptions=assumptions)


def measure_misfit(runs: Sequence[BrokerFigures], seen: BrokerFigures, least: float) -> float:
    """Squared deviations of records per batch and of shares, each by its error and the seeds' spread; on average.

    Args:
        runs: Simulated.
        seen: Recorded.
        least: Records per batch of the quickest broker.
    """
    is_slow = seen.records_per_batch >= _SLOW_RATIO * least
    size_error = np.where(is_slow, _SLOW_ERROR, _OTHER_ERROR) * seen.records_per_batch
    share_error = np.full(len(size_error), _SHARE_ERROR)
    total = 0.0
    for name, error in (("records_per_batch", size_error), ("share", share_error)):
        values: NDArray[np.float64] = np.stack([getattr(run, name) for run in runs])
        deviation = (values.mean(axis=0) - getattr(seen, name)) / np.hypot(error, values.std(axis=0))
        total += float((deviation**2).sum())
    return total


def _bound_minimum(misfits: Mapping[float, float]) -> tuple[float, float, float, float]:
    """Of the delays tried the last too small one, the first and the last that fit as well as the best, the first too large."""
    tried, least = sorted(misfits), min(misfits.values())
    near = [place for place, each in enumerate(tried) if misfits[each] <= least + _CLEAR]
    before, after = max(near[0] - 1, 0), min(near[-1] + 1, len(tried) - 1)
    return tried[before], tried[near[0]], tried[near[-1]], tried[after]


def _search(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    broker_id: int,
    seen: BrokerFigures,
    least: float,
) -> tuple[Parameter, bool, str]:
    """The delay with the least misfit, its range, whether that is a clear minimum, and that in words."""
    misfits: dict[float, float] = {}

    def look(delay_ms: float) -> None:
        if delay_ms not in misfits:
            runs = [simulate_trial(topics, with_delay(models, broker_id, delay_ms), seed) for seed in SEEDS]
            misfits[delay_ms] = measure_misfit(runs, seen, least)

    for delay_ms in _GRID_MS:
        look(delay_ms)
    for _ in range(_REFINEMENTS):
        best, tried = min(misfits, key=lambda each: misfits[each]), sorted(misfits)
        place = tried.index(best)
        for other in tried[max(place - 1, 0) : place + 2]:
            look((best + other) / 2)
    for _ in range(_REFINEMENTS):
        low, near_low, near_high, high = _bound_minimum(misfits)
        look((low + near_low) / 2)
        look((near_high + high) / 2)
    best = min(misfits, key=lambda each: misfits[each])
    low, _, near_high, high = _bound_minimum(misfits)
    is_open = near_high == high
    fits_well = misfits[best] <= 2 * _WELL * len(models)
    is_clear = fits_well and not is_open and high - low <= max(_CLEAR_WIDTH_RATIO * best, _CLEAR_WIDTH_MS)
    told = f"broker {broker_id}: its batches fit a delay of {low:g} {'ms or more' if is_open else f'to {high:g} ms'}"
    if not is_clear:
        told += ": no clear minimum, not identifiable" if fits_well else ", none of them well: not identifiable"
    return Parameter(best, low, float("inf") if is_open else high, INFERRED), is_clear, told
