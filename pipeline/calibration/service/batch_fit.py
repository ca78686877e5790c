"""Finds delays and variants from batches alone: simulates the current setup until its batches match the recorded ones.

Records per batch and the share of each broker decide; a delay is taken from them only where the misfit has a clear minimum.
From the log alone that is often not so: a broker that was saturated shows full batches under any delay.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.calibration.caveats import Caveat, Origin, Statement
from pipeline.calibration.limits import ALIKE, HALF, LEAST_DELAY_MS, LEAST_SAMPLE, MOST_STRAY, SEEDS, STEPS
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.service.model import Models, Parameter, ServiceModel
from pipeline.calibration.service.trial import (
    BrokerFigures,
    SessionTopics,
    choose_minute,
    cut_beginning,
    observe,
    simulate_trial,
)
from pipeline.measures.chance import CHANCE_LEVEL

ADAPTIVE, UNIFORM = "java-builtin", "java-builtin-uniform"


def fit_batches(
    topics: SessionTopics, models: dict[int, ServiceModel], unknown: Sequence[int], start_ms: int, end_ms: int
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
        is_slow = size[broker_id] >= (1 + HALF) * least
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
    """Squared deviations of records per batch and of shares, summed, each by the seeds' spread and what is not simulated.

    `least` is the records per batch of the quickest broker: where batches are as small, wake-ups of threads decide.
    """
    is_slow = seen.records_per_batch >= (1 + HALF) * least
    size = np.maximum(seen.records_per_batch, 1.0)  # a broker may have got no batch at all
    size_error, share_error = np.where(is_slow, MOST_STRAY, ALIKE) * size, np.full(len(size), MOST_STRAY / len(size))
    total = 0.0
    for name, error in (("records_per_batch", size_error), ("share", share_error)):
        values: Floats = np.stack([getattr(run, name) for run in runs])
        deviation = (values.mean(axis=0) - getattr(seen, name)) / np.hypot(error, values.std(axis=0))
        total += float((deviation**2).sum())
    return total


def _bound_misfit(count: int, level: float = CHANCE_LEVEL) -> float:
    """What chance hardly exceeds, of so many squared deviations."""
    from scipy.special import chdtri  # noqa: PLC0415 - 0.3 s to import

    return float(chdtri(count, level))


def _search(
    topics: SessionTopics, models: Models, broker_id: int, seen: BrokerFigures, least: float
) -> tuple[Parameter, bool, Statement]:
    """The delay with the least misfit, its range, whether that is a clear minimum, and that in words."""
    misfits: dict[float, float] = {}

    def look(delay_ms: float) -> None:
        if delay_ms not in misfits:
            tried = [
                each.at_level(delay_ms if own == broker_id else each.delay_ms.value) for own, each in models.items()
            ]
            misfits[delay_ms] = measure_misfit([simulate_trial(topics, tried, seed) for seed in SEEDS], seen, least)

    look(0.0)
    tried_ms, most_ms = LEAST_DELAY_MS, _bound_delay(topics, broker_id)
    while tried_ms < 2 * most_ms:
        look(tried_ms)
        tried_ms *= 2
    for _ in range(STEPS):
        best, tried = min(misfits, key=misfits.__getitem__), sorted(misfits)
        number = tried.index(best)
        for other in tried[max(number - 1, 0) : number + 2]:
            look((best + other) / 2)
        low, near_low, near_high, high = _bound_minimum(misfits)
        look((low + near_low) / 2)
        look((near_high + high) / 2)
    best = min(misfits, key=misfits.__getitem__)
    low, _, near_high, high = _bound_minimum(misfits)
    is_open = near_high == high
    fits_well = misfits[best] <= _bound_misfit(2 * len(models))
    is_clear = fits_well and not is_open and high - low <= max(HALF * best, 2 * LEAST_DELAY_MS)
    doubt = ": no clear minimum, not identifiable" if fits_well else ", none of them well: not identifiable"
    caveat = Caveat.BATCHES_FIT.say(
        broker=broker_id, low=low, high="ms or more" if is_open else f"to {high:g} ms", doubt="" if is_clear else doubt
    )
    return Parameter(best, low, math.inf if is_open else high, Origin.INFERRED), is_clear, caveat


def _bound_delay(topics: SessionTopics, broker_id: int) -> float:
    """The longest delay that leaves time for a broker's requests, one after the other: each has a batch of each partition."""
    own = [topic.batches.partition[topic.batches.leader == broker_id] for topic in topics]
    requests = sum(map(len, own)) / sum(len(np.unique(each)) for each in own)
    return (max(topic.last_ms for topic in topics) - min(topic.first_ms for topic in topics)) / requests


def _bound_minimum(misfits: Mapping[float, float]) -> tuple[float, float, float, float]:
    """Of the delays tried the last too small one, the first and the last that fit as well as the best, the first too large."""
    tried, most = sorted(misfits), min(misfits.values()) + _bound_misfit(1, MOST_STRAY)
    near = [number for number, each in enumerate(tried) if misfits[each] <= most]
    before, after = max(near[0] - 1, 0), min(near[-1] + 1, len(tried) - 1)
    return tried[before], tried[near[0]], tried[near[-1]], tried[after]


def choose_variant(topics: SessionTopics, models: Models, start_ms: int, end_ms: int) -> Baseline:
    """Distinguishes the adaptive partitioner from the uniform one, where a broker is slow enough to make a difference.

    Returns the first topic's baseline, unchanged where it is another partitioner, is configured, or no delay is known.
    Confidence is what the data say, both as likely before them.
    """
    baseline = topics[0].baseline
    is_slow = any(model.is_identifiable and model.delay_ms.value >= LEAST_DELAY_MS for model in models.values())
    cut = cut_beginning(topics, *choose_minute(topics, start_ms, end_ms))
    if baseline.strategy != ADAPTIVE or baseline.source != Origin.INFERRED or not is_slow or not cut:
        return baseline
    seen, misfits = observe(cut, list(models)), {}
    least = float(seen.records_per_batch[seen.batch_count > 0].min(initial=math.inf))
    for strategy in (ADAPTIVE, UNIFORM):
        tried = [replace(cut[0], baseline=replace(baseline, strategy=strategy)), *cut[1:]]
        runs = [simulate_trial(tried, list(models.values()), seed) for seed in SEEDS]
        misfits[strategy] = measure_misfit(runs, seen, least)
    best = min(misfits.values())
    figures = f"{misfits[ADAPTIVE]:.1f} if adaptive, {misfits[UNIFORM]:.1f} if uniform"
    reason = f"{baseline.reason}; shares and batches have a misfit of {figures}"
    if best > _bound_misfit(2 * len(models)):
        return replace(baseline, reason=f"{reason}: neither fits well, left open")
    weights = {each: math.exp((best - misfit) / 2) for each, misfit in misfits.items()}
    adaptive = weights[ADAPTIVE] / sum(weights.values())
    chosen, chance = (ADAPTIVE, adaptive) if adaptive >= 2 * MOST_STRAY else (UNIFORM, 1 - adaptive)
    return replace(
        baseline,
        strategy=chosen,
        confidence=min(1.0, baseline.confidence / HALF) * min(chance, 1 - MOST_STRAY),
        runner_up=UNIFORM if chosen == ADAPTIVE else ADAPTIVE,
        reason=reason,
    )
