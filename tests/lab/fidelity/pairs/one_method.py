"""One method in place of trials: what is open is drawn, draws are simulated, and the likeliest ones are replayed.

Approximate Bayesian computation with a population in a few rounds: each draw is a level of every broker's delays, a variant of the
partitioner and a `linger.ms` where the log leaves them open. A sample of the session's own arrivals is simulated under each, and what
comes of it, records per batch and share of each broker and the mean latency of its requests where metrics show it, is held against
the recording. The nearest draws are the centre of the next round's; those of all rounds that are nearest are replayed, one for each seed.

References:
    Beaumont, Cornuet, Marin and Robert, Adaptive approximate Bayesian computation, Biometrika 96 (2009).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.calibration.caveats import Origin
from pipeline.calibration.limits import HALF, LEAST_SAMPLE, USUAL
from pipeline.calibration.service.batch_fit import ADAPTIVE, UNIFORM
from pipeline.calibration.service.model import Parameter, ServiceModel, make_broker
from pipeline.calibration.service.trial import (
    BrokerFigures,
    SessionTopic,
    choose_minute,
    cut_beginning,
    observe,
    simulate_trial,
)
from pipeline.replay.simulated.scenario import GroupScenario
from pipeline.simulator.clients.client import PLACEMENTS
from pipeline.simulator.clients.producer_configs import JAVA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.calibration.partitioner.baseline import Baseline
    from pipeline.calibration.service.fit import NodeMetrics
    from pipeline.replay.recorded import ProducerSession
    from pipeline.simulator.scenario.scenario import SimulatedBroker

ROUNDS, DRAWS, KEPT = 3, 20, 20
OPEN_MS, SLOW_RATIO, LEAST_MS = (1.0, 320.0), 1.5, 0.1
"""Prior of a delay that nothing shows: none, unless the broker's batches are larger; of another what metrics leave open."""
SIZE_ERROR, SHARE_ERROR, LATENCY_ERROR = 0.05, 0.015, 0.02
AGREED = 0.9


@dataclass(frozen=True)
class DrawnModel(ServiceModel):
    """A broker's model with the levels of its delays that are replayed, in ms, and the baseline that went with most of them."""

    levels_ms: tuple[float, ...] = ()
    baseline: Baseline | None = None


@dataclass(frozen=True)
class Draw:
    """What is open: levels of delays by broker, in ms, the partitioner and `linger.ms`; and how far it is from the recording."""

    levels_ms: tuple[float, ...]
    strategy: str
    linger: str
    distance: float = math.inf


def infer_services(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    nodes: Sequence[NodeMetrics],
    start_ms: int,
    end_ms: int,
    *,
    spans: Sequence[NodeMetrics] = (),
) -> dict[int, ServiceModel]:
    """In place of `sharpen_services`: models with levels that reproduce the recording."""
    cut = cut_beginning(topics, *choose_minute(topics, start_ms, end_ms))
    if not cut:
        return dict(models)
    seen = replace(observe(cut, list(models)), latency_ms=measure_latencies(cut, list(models), spans or nodes))
    rng = np.random.default_rng(int(start_ms) % 2**32)
    baseline = topics[0].baseline
    strategies = (ADAPTIVE, UNIFORM) if baseline.strategy == ADAPTIVE and baseline.source is Origin.INFERRED else ()
    lingers = list_lingers(baseline)
    size = seen.records_per_batch
    is_slow = (size >= SLOW_RATIO * size[size > 0].min(initial=math.inf)).tolist()
    found: list[Draw] = []
    for number in range(ROUNDS):
        seed = int(rng.integers(1 << 30))  # one for all draws: chance is no difference between them
        near = sorted(found, key=lambda draw: draw.distance)[:KEPT]
        for _ in range(DRAWS):
            if number:
                draw = perturb(rng, near)
            else:
                draw = Draw(
                    tuple(draw_level(rng, *each) for each in zip(models.values(), is_slow, strict=True)),
                    str(rng.choice(strategies)) if strategies else str(baseline.strategy),
                    str(rng.choice(lingers)),
                )
            found.append(replace(draw, distance=measure_distance(cut, models, draw, seen, seed)))
    near = sorted(found, key=lambda draw: draw.distance)[:KEPT]
    kept = settle(baseline, near)
    return {
        broker_id: _with_levels(model, [draw.levels_ms[number] for draw in near], kept)
        for number, (broker_id, model) in enumerate(models.items())
    }


def list_lingers(baseline: Baseline) -> list[str]:
    """Values of `linger.ms` that are drawn: the one taken, and usual ones within its bounds where it is not known."""
    linger = baseline.settings.get("linger.ms")
    if linger is None:
        return [""]
    if baseline.client != JAVA or linger.source is not Origin.UNKNOWN:
        return [linger.value]
    low, high = linger.low or 0.0, math.inf if linger.high is None else linger.high
    return sorted({linger.value, *(f"{each}" for each in USUAL["linger.ms"] if low <= each < min(high, 101))})


def draw_level(rng: np.random.Generator, model: ServiceModel, is_slow: bool) -> float:
    """From the prior."""
    if model.delay_ms.source is Origin.ASSUMED or math.isinf(model.delay_ms.high):
        return float(np.exp(rng.uniform(*np.log(OPEN_MS)))) if is_slow else 0.0
    ends = [max(end, LEAST_MS) for end in (model.delay_ms.low, model.delay_ms.high)]
    return float(np.exp(rng.uniform(*np.log(ends)))) if model.delay_ms.value else 0.0


def perturb(rng: np.random.Generator, near: Sequence[Draw]) -> Draw:
    """One of the nearest draws, moved by half of their spread."""
    draw = near[int(rng.integers(len(near)))]
    spread = np.log(np.array([each.levels_ms for each in near]) + LEAST_MS).std(axis=0)
    moved = np.array(draw.levels_ms) * np.exp(0.5 * spread * rng.standard_normal(len(spread)))
    return replace(draw, levels_ms=tuple(np.minimum(moved, OPEN_MS[1]).tolist()))


def measure_distance(
    cut: Sequence[SessionTopic], models: Mapping[int, ServiceModel], draw: Draw, seen: BrokerFigures, seed: int
) -> float:
    """Squared deviations, each by the error that the simulator has."""
    baseline = replace(_with_linger(cut[0].baseline, draw.linger), strategy=draw.strategy)
    tried = [replace(topic, baseline=baseline) for topic in cut]
    brokers = [model.at_level(level) for model, level in zip(models.values(), draw.levels_ms, strict=True)]
    run = simulate_trial(tried, brokers, seed)
    used = seen.batch_count > 0
    size = np.log(np.maximum(run.records_per_batch, 1) / np.maximum(seen.records_per_batch, 1))[used] / SIZE_ERROR
    share = (run.share - seen.share) / SHARE_ERROR
    known = np.isfinite(seen.latency_ms) & np.isfinite(run.latency_ms)
    latency = np.log((run.latency_ms[known] + 0.3) / (seen.latency_ms[known] + 0.3)) / LATENCY_ERROR
    return float((size**2).sum() + (share**2).sum() + (latency**2).sum())


def measure_latencies(
    cut: Sequence[SessionTopic], broker_ids: Sequence[int], nodes: Sequence[NodeMetrics]
) -> NDArray[np.float64]:
    """Mean latency of each broker's requests over the sample, from metrics that cover it; NaN where none do."""
    first, last = min(topic.first_ms for topic in cut), max(topic.last_ms for topic in cut)
    found = np.full(len(broker_ids), np.nan)
    for number, broker_id in enumerate(broker_ids):
        inside = [
            (node.request_latency_avg_ms or 0.0, node.request_rate_per_s or 0.0, min(node.end_ms, last) - max(node.start_ms, first))
            for node in nodes
            if node.broker_id == broker_id and node.is_usable and node.end_ms > first and node.start_ms < last
        ]  # fmt: skip
        weights = [rate * length for _, rate, length in inside]
        if sum(weights) > 0:
            found[number] = np.average([latency for latency, *_ in inside], weights=weights)
    return found


def settle(baseline: Baseline, near: Sequence[Draw]) -> Baseline:
    """The partitioner's default unless the nearest draws agree on its variant, and the `linger.ms` that they agree on."""
    uniform = sum(draw.strategy == UNIFORM for draw in near) / len(near)
    if baseline.strategy == ADAPTIVE and baseline.source is Origin.INFERRED:
        chosen, part = (UNIFORM, uniform) if uniform >= AGREED else (ADAPTIVE, 1 - uniform)
        baseline = replace(baseline, strategy=chosen, confidence=min(1.0, baseline.confidence / HALF) * part)
    values = [draw.linger for draw in near]
    best = max(sorted(set(values)), key=values.count)
    return _with_linger(baseline, best) if values.count(best) >= AGREED * len(near) else baseline


def _with_linger(baseline: Baseline, value: str) -> Baseline:
    linger = baseline.settings.get("linger.ms")
    if linger is None or linger.value == value:
        return baseline
    return replace(
        baseline, settings={**baseline.settings, "linger.ms": replace(linger, value=value, source=Origin.INFERRED)}
    )


def _with_levels(model: ServiceModel, levels_ms: Sequence[float], baseline: Baseline) -> DrawnModel:
    middle, low, high = (float(each) for each in np.quantile(levels_ms, (0.5, 0.05, 0.95)))
    known = model.at_level(middle) if model.is_followed else model
    if not model.is_followed and model.delay_ms.value > 0:
        factor = middle / model.delay_ms.value
        known = replace(model, delay_series=tuple((at, ms * factor) for at, ms in model.delay_series))
    given: dict[str, Any] = vars(replace(known, delay_ms=Parameter(middle, low, high, Origin.INFERRED)))
    is_known = high - low <= max(2.0, 0.5 * middle)
    return DrawnModel(**{**given, "is_identifiable": is_known}, levels_ms=tuple(levels_ms), baseline=baseline)


def take_baseline(topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], *_others: int) -> Baseline:
    """In place of `choose_variant`."""
    return next(
        (one.baseline for one in models.values() if isinstance(one, DrawnModel) and one.baseline), topics[0].baseline
    )


def make_drawn(scenario: GroupScenario, broker_id: int, seed: int) -> SimulatedBroker:
    """In place of `GroupScenario._make_broker`: all brokers of a seed have the levels of one draw."""
    model = scenario.group.services.get(broker_id)
    if not isinstance(model, DrawnModel) or scenario.candidate.brokers_alike or scenario.candidate.brokers:
        return _make_broker(scenario, broker_id, seed)
    level = model.levels_ms[seed % len(model.levels_ms)]
    factor = level / model.delay_ms.value if model.delay_ms.value > 0 else 1.0
    series = tuple((at, ms * factor) for at, ms in model.delay_series)
    drawn = replace(model, delay_ms=replace(model.delay_ms, value=level), delay_series=series)
    rack = scenario.candidate.change_racks(scenario.group.racks).get(broker_id, "")
    return replace(make_broker(drawn, scenario.base_ms), rack=rack)


_make_broker = GroupScenario._make_broker


def can_infer(topics: Sequence[ProducerSession], _models: object) -> bool:
    """In place of `can_refine`: of all sessions whose keyless records the simulator can follow."""
    strategies = {topic.baseline.strategy for topic in topics if topic.keyless_count}
    is_followed = bool(strategies) and strategies <= PLACEMENTS.keys()
    return sum(topic.batch_count for topic in topics) >= LEAST_SAMPLE and is_followed
