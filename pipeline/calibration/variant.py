"""Adaptive or uniform: what the order of batches does not tell of the built-in partitioner, its shares may."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.calibration.settings import INFERRED
from pipeline.calibration.trial import choose_minute, cut_beginning, observe, simulate_trial
from pipeline.calibration.trial_log import measure_misfit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.calibration.baseline import Baseline
    from pipeline.calibration.service import ServiceModel
    from pipeline.calibration.trial import SessionTopic

ADAPTIVE, UNIFORM = "java-builtin", "java-builtin-uniform"
_PRIOR = {ADAPTIVE: 0.9, UNIFORM: 0.1}
"""Few turn `partitioner.adaptive.partitioning.enable` off."""
_SEEDS = range(1, 7)
_LEAST_DELAY_MS = 1.0
_MOST_CHANCE = 0.95
_WELL = 6.0
"""A misfit over three brokers above which neither variant describes what was recorded; more brokers have more."""


def choose_variant(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], start_ms: int, end_ms: int
) -> Baseline:
    """Tells the adaptive partitioner from the uniform one, where a broker is slow enough to make a difference.

    Args:
        topics: Of one session in a window; the first one's baseline is looked at.
        models: Of all brokers, sharpened.
        start_ms: The window's start, epoch milliseconds.
        end_ms: Its end.

    Returns:
        The baseline, unchanged where it is another partitioner, is configured, or no delay is known.
    """
    baseline = topics[0].baseline
    is_slow = any(model.is_identifiable and model.delay_ms.value >= _LEAST_DELAY_MS for model in models.values())
    cut = cut_beginning(topics, *choose_minute(topics, start_ms, end_ms))
    if baseline.strategy != ADAPTIVE or baseline.source != INFERRED or not is_slow or not cut:
        return baseline
    seen = observe(cut, list(models))
    least = float(seen.records_per_batch[seen.batch_count > 0].min(initial=math.inf))
    misfits = {}
    for strategy in _PRIOR:
        runs = [simulate_trial(cut, list(models.values()), seed, strategy=strategy) for seed in _SEEDS]
        misfits[strategy] = measure_misfit(runs, seen, least)
    best = min(misfits.values())
    told = f"shares and batches have a misfit of {misfits[ADAPTIVE]:.1f} if adaptive, {misfits[UNIFORM]:.1f} if uniform"
    if best > _WELL * len(models) / 3:
        return replace(baseline, reason=f"{baseline.reason}; {told}: neither fits well, left open")
    weights = {each: prior * math.exp((best - misfits[each]) / 2) for each, prior in _PRIOR.items()}
    chosen = max(weights, key=lambda each: weights[each])
    chance = min(weights[chosen] / sum(weights.values()), _MOST_CHANCE)
    other = UNIFORM if chosen == ADAPTIVE else ADAPTIVE
    return replace(
        baseline,
        strategy=chosen,
        confidence=min(1.0, baseline.confidence / _PRIOR[ADAPTIVE]) * chance,
        runner_up=other,
        reason=f"{baseline.reason}; {told}",
    )
