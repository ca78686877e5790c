"""Finds delays and variants from batches alone: simulates the current setup until its batches match the recorded ones.

Records per batch and the share of each broker decide; a delay is taken from them only where the misfit has a clear minimum.
From the log alone that is often not so: a broker that was saturated shows full batches under any delay.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.calibration.caveats import Caveat, Origin, Statement
from pipeline.calibration.partitioner.baseline import EVEN_ODDS, Baseline, with_linger
from pipeline.calibration.partitioner.switch_rules import USUAL_LINGERS_MS
from pipeline.calibration.service.fit import LEAST_DELAY_MS
from pipeline.calibration.service.model import SAME_LEVEL, Parameter, ServiceModel
from pipeline.calibration.service.trial import (
    SEEDS,
    BrokerFigures,
    SessionTopic,
    choose_minute,
    cut_beginning,
    observe,
    simulate_delay,
    simulate_trial,
)
from pipeline.calibration.session_traffic import LEAST_SAMPLE

_GRID_MS = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_REFINEMENTS = 3
# How far records per batch of slow brokers and of others, and shares, may be off for reasons that are not simulated.
_SLOW_ERROR, _OTHER_ERROR, _SHARE_ERROR = 0.05, 0.2, 0.015
_SLOW_RATIO = 1.5
_CLEAR = 6.0  # rise of the misfit, in squared standard deviations, on both sides of a clear minimum
_WELL = 4.0  # misfit for each figure below which the fit is accepted

ADAPTIVE, UNIFORM = "java-builtin", "java-builtin-uniform"
_LEAST_ADAPTIVE = (
    0.1  # chance below which the default is given up: few turn `partitioner.adaptive.partitioning.enable` off
)
_VARIANT_SEEDS = range(1, 7)
_MOST_CHANCE = 0.95
_VARIANT_WELL = (
    6.0  # misfit over three brokers above which neither variant describes the recording; more brokers have more
)


def fit_batches(
    topics: Sequence[SessionTopic], models: dict[int, ServiceModel], unknown: Sequence[int], start_ms: int, end_ms: int
) -> dict[int, ServiceModel]:
    """Looks for delays in the batches of brokers whose batches are larger than others', and whose delay nothing else shows.

    `topics` are of one session in a window of epoch milliseconds; `models`, of all brokers, is changed and returned.
    """
    cut = cut_beginning(topics, *choose_minute(topics, start_ms, end_ms))
    if not cut:
        return models
    seen = observe(cut, list(models))
    size = dict(zip(models, seen.records_per_batch.tolist(), strict=True))
    count = dict(zip(models, seen.batch_count.tolist(), strict=True))
    least = min((size[own] for own in models if count[own] >= LEAST_SAMPLE), default=0.0)
    for broker_id in sorted(unknown, key=lambda own: -size[own]):
        if count[broker_id] < LEAST_SAMPLE:
            continue
        model = models[broker_id]
        is_slow = size[broker_id] >= _SLOW_RATIO * least
        if is_slow:
            delay, is_clear, caveat = _search(cut, models, broker_id, seen, least)
        else:
            delay = Parameter(0.0, 0.0, model.delay_ms.high, Origin.INFERRED)
            is_clear, caveat = model.is_identifiable, Caveat.SMALL_BATCHES.say(broker=broker_id)
        models[broker_id] = model.noting(caveat)
        if (is_slow and is_clear) or not model.is_settled:
            models[broker_id] = replace(models[broker_id], delay_ms=delay, delay_series=(), is_identifiable=is_clear)
    return models


def measure_misfit(runs: Sequence[BrokerFigures], seen: BrokerFigures, least: float) -> float:
    """Squared deviations of records per batch and of shares, each by its error and the seeds' spread; on average.

    `least` is the records per batch of the quickest broker.
    """
    is_slow = seen.records_per_batch >= _SLOW_RATIO * least
    size = np.maximum(seen.records_per_batch, 1.0)  # a broker may have got no batch at all
    size_error = np.where(is_slow, _SLOW_ERROR, _OTHER_ERROR) * size
    share_error = np.full(len(size_error), _SHARE_ERROR)
    total = 0.0
    for name, error in (("records_per_batch", size_error), ("share", share_error)):
        values: NDArray[np.float64] = np.stack([getattr(run, name) for run in runs])
        deviation = (values.mean(axis=0) - getattr(seen, name)) / np.hypot(error, values.std(axis=0))
        total += float((deviation**2).sum())
    return total


def _measure_setup(topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], seeds: Iterable[int]) -> float:
    """The misfit of a session's setup, with the delays of `models`."""
    seen = observe(topics, list(models))
    least = float(seen.records_per_batch[seen.batch_count > 0].min(initial=math.inf))
    return measure_misfit([simulate_trial(topics, list(models.values()), seed) for seed in seeds], seen, least)


def _search(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    broker_id: int,
    seen: BrokerFigures,
    least: float,
) -> tuple[Parameter, bool, Statement]:
    """The delay with the least misfit, its range, whether that is a clear minimum, and that in words."""
    misfits: dict[float, float] = {}

    def look(delay_ms: float) -> None:
        if delay_ms not in misfits:
            misfits[delay_ms] = measure_misfit(simulate_delay(topics, models, broker_id, delay_ms), seen, least)

    for delay_ms in _GRID_MS:
        look(delay_ms)
    for _ in range(_REFINEMENTS):
        best, tried = min(misfits, key=misfits.__getitem__), sorted(misfits)
        number = tried.index(best)
        for other in tried[max(number - 1, 0) : number + 2]:
            look((best + other) / 2)
    for _ in range(_REFINEMENTS):
        low, near_low, near_high, high = _bound_minimum(misfits)
        look((low + near_low) / 2)
        look((near_high + high) / 2)
    best = min(misfits, key=misfits.__getitem__)
    low, _, near_high, high = _bound_minimum(misfits)
    is_open = near_high == high
    fits_well = misfits[best] <= 2 * _WELL * len(models)
    is_clear = fits_well and not is_open and high - low <= max(SAME_LEVEL * best, 2 * LEAST_DELAY_MS)
    doubt = ": no clear minimum, not identifiable" if fits_well else ", none of them well: not identifiable"
    caveat = Caveat.BATCHES_FIT.say(
        broker=broker_id, low=low, high="ms or more" if is_open else f"to {high:g} ms", doubt="" if is_clear else doubt
    )
    return Parameter(best, low, math.inf if is_open else high, Origin.INFERRED), is_clear, caveat


def _bound_minimum(misfits: Mapping[float, float]) -> tuple[float, float, float, float]:
    """Of the delays tried the last too small one, the first and the last that fit as well as the best, the first too large."""
    tried, least = sorted(misfits), min(misfits.values())
    near = [number for number, each in enumerate(tried) if misfits[each] <= least + _CLEAR]
    before, after = max(near[0] - 1, 0), min(near[-1] + 1, len(tried) - 1)
    return tried[before], tried[near[0]], tried[near[-1]], tried[after]


def choose_linger(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], start_ms: int, end_ms: int
) -> Baseline:
    """Takes the usual `linger.ms` whose batches are those recorded, where the log and the metrics leave it open.

    Returns the first topic's baseline, unchanged where the assumed value reproduces them as well.
    """
    baseline = topics[0].baseline
    linger = baseline.settings.get("linger.ms")
    if linger is None or linger.source != Origin.UNKNOWN or not models:
        return baseline  # of most sessions nothing is cut
    if not (cut := cut_beginning(topics, *choose_minute(topics, start_ms, end_ms))):
        return baseline
    low, high = linger.low or 0.0, math.inf if linger.high is None else linger.high
    misfits = {}
    usual = (each for each in USUAL_LINGERS_MS if low <= each <= high)
    for tried_ms in sorted({min(float(linger.value), USUAL_LINGERS_MS[-1]), *usual}):  # times may be far off
        chosen = replace(linger, value=f"{tried_ms:g}", source=Origin.INFERRED)
        tried = [replace(cut[0], baseline=with_linger(baseline, chosen)), *cut[1:]]
        misfits[tried_ms] = _measure_setup(tried, models, SEEDS)
    best = min(misfits, key=misfits.__getitem__)
    near = [tried_ms for tried_ms, misfit in misfits.items() if misfit <= misfits[best] + _CLEAR]
    if float(linger.value) in near or len(misfits) == 1:
        return baseline
    is_known = misfits[best] <= 2 * _WELL * len(models) and max(near) <= 2 * min(near)
    found = f"recorded batches are {'those of' if is_known else 'nearest to'} linger.ms {best:g}"
    reason = "; ".join(text for text in (baseline.reason, found) if text)
    chosen = replace(linger, value=f"{best:g}", source=Origin.INFERRED if is_known else Origin.UNKNOWN)
    return replace(with_linger(baseline, chosen), reason=reason)


def choose_variant(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], start_ms: int, end_ms: int
) -> Baseline:
    """Distinguishes the adaptive partitioner from the uniform one, where a broker is slow enough to make a difference.

    Returns the first topic's baseline, unchanged where it is another partitioner, is configured, or no delay is known.
    Confidence is what the data say, both as likely before them.
    """
    baseline = topics[0].baseline
    is_slow = any(model.is_identifiable and model.delay_ms.value >= LEAST_DELAY_MS for model in models.values())
    cut = cut_beginning(topics, *choose_minute(topics, start_ms, end_ms))
    if baseline.strategy != ADAPTIVE or baseline.source != Origin.INFERRED or not is_slow or not cut:
        return baseline
    misfits = {}
    for strategy in (ADAPTIVE, UNIFORM):
        tried = [replace(cut[0], baseline=replace(baseline, strategy=strategy)), *cut[1:]]
        misfits[strategy] = _measure_setup(tried, models, _VARIANT_SEEDS)
    best = min(misfits.values())
    figures = f"{misfits[ADAPTIVE]:.1f} if adaptive, {misfits[UNIFORM]:.1f} if uniform"
    reason = f"{baseline.reason}; shares and batches have a misfit of {figures}"
    if best > _VARIANT_WELL * len(models) / 3:
        return replace(baseline, reason=f"{reason}: neither fits well, left open")
    weights = {each: math.exp((best - misfit) / 2) for each, misfit in misfits.items()}
    adaptive = weights[ADAPTIVE] / sum(weights.values())
    chosen, chance = (ADAPTIVE, adaptive) if adaptive >= _LEAST_ADAPTIVE else (UNIFORM, 1 - adaptive)
    return replace(
        baseline,
        strategy=chosen,
        confidence=min(1.0, baseline.confidence / EVEN_ODDS) * min(chance, _MOST_CHANCE),
        runner_up=UNIFORM if chosen == ADAPTIVE else ADAPTIVE,
        reason=reason,
    )
