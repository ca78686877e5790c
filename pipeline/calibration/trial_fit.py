"""Delays found by simulating what is in use, where metrics alone leave them open: until the simulation shows what was recorded.

With metrics the mean latency of requests decides: it rises with the delay, whatever the load. Without, the records per
batch and the share of each broker do (`trial_log`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.service import ASSUMED, INFERRED, MEASURED, SAME_LEVEL, Parameter, is_fit_minute
from pipeline.calibration.service_fit import ALONE, SATURATED, settle_latencies
from pipeline.calibration.traffic import Pattern, choose_pattern
from pipeline.calibration.trial import SEEDS, cut_beginning, simulate_trial, with_delay
from pipeline.calibration.trial_log import fit_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.calibration.service import ServiceModel
    from pipeline.calibration.service_fit import NodeMetrics
    from pipeline.calibration.trial import SessionTopic

_LATENCY_ERROR, _LATENCY_ERROR_MS = 0.03, 0.3
_DELAY_ERROR = 0.04
_LEAST_DELAY_MS = 1.0
_LEAST_CHANGE_MS = 2.0
"""Brokers without a delay differ by as much from minute to minute."""
_STEPS = 7


def needs_trial(model: ServiceModel, *, is_bursty: bool = False) -> bool:
    """Whether a simulation may tell the delay better than the metrics did.

    Args:
        model: As the metrics tell it.
        is_bursty: Records come in bursts: requests wait for one another, however idle the connection is on average.
    """
    if model.delay_ms.source == ASSUMED or not model.is_settled:
        return True
    is_open = model.delay_ms.source == INFERRED or (is_bursty and model.delay_ms.source == MEASURED)
    return is_open and model.delay_ms.value >= _LEAST_DELAY_MS


def sharpen_services(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    nodes: Sequence[NodeMetrics],
    start_ms: int,
    end_ms: int,
) -> dict[int, ServiceModel]:
    """Sharpens the delays that metrics leave open, by simulating a minute of what is in use.

    Args:
        topics: Of one session in a window, with a strategy that the simulator follows; the one with most records first.
        models: Of all brokers, as `fit_services` gives them; those that need a trial are looked at.
        nodes: The metrics they were fitted to; may be none.
        start_ms: The window's start, epoch milliseconds.
        end_ms: Its end.

    Returns:
        The same models, sharper where the data tell more; else they say why not.
    """
    found = dict(models)
    if not any(len(topic.traffic) for topic in topics):
        return found
    doubtful = _list_doubtful(topics, models, nodes)
    for broker_id, model in sorted(models.items(), key=lambda item: (item[0] not in doubtful, -item[1].delay_ms.value)):
        is_open = needs_trial(model) and model.is_settled and model.delay_ms.source == INFERRED
        if is_open or broker_id in doubtful:
            found[broker_id] = _fit_latency(topics, found, broker_id, nodes, (start_ms, end_ms))
    for broker_id in found:
        found[broker_id] = _fit_other_level(topics, found, broker_id, nodes, (start_ms, end_ms))
    open_ids = [own for own, model in found.items() if model.delay_ms.source == ASSUMED or not model.is_settled]
    return fit_log(topics, found, open_ids, start_ms, end_ms) if open_ids else found


def _list_doubtful(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], nodes: Sequence[NodeMetrics]
) -> set[int]:
    """Brokers whose connection is idle on average, while bursts make requests wait for one another."""
    if all(choose_pattern(topic.traffic.elapsed_ms) is not Pattern.BURST for topic in topics):
        return set()
    idle = {
        node.broker_id
        for node in nodes
        if (node.request_rate_per_s or 0.0) * (node.request_latency_avg_ms or 0.0) / 1000 <= ALONE
    }
    return {
        broker_id
        for broker_id, model in models.items()
        if broker_id in idle and model.delay_ms.source == MEASURED and model.delay_ms.value >= _LEAST_DELAY_MS
    }


def _fit_latency(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    broker_id: int,
    nodes: Sequence[NodeMetrics],
    window: tuple[int, int],
) -> ServiceModel:
    model = models[broker_id]
    settled = _list_settled(nodes, broker_id, window)
    node, latency_ms = _choose_minute(settled, model, model.delay_ms.value)
    cut = cut_beginning(topics, node.start_ms, node.end_ms) if node else []
    delay = _match_latency(cut, models, broker_id, latency_ms) if cut else None
    return _replace_delay(model, delay) if delay else model


def _fit_other_level(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    broker_id: int,
    nodes: Sequence[NodeMetrics],
    window: tuple[int, int],
) -> ServiceModel:
    """A broker that is slow for some minutes only: those minutes' delay, where the metrics leave it open."""
    model, usual_ms = models[broker_id], models[broker_id].delay_ms.value
    level_ms = max((delay_ms for _, delay_ms in model.delay_series), default=0.0)
    if level_ms - usual_ms <= max(_LEAST_CHANGE_MS, SAME_LEVEL * level_ms):
        return model
    node, latency_ms = _choose_minute(_list_settled(nodes, broker_id, window), model, level_ms)
    if node is None or not _is_open(node, latency_ms):
        return model
    cut = cut_beginning(topics, node.start_ms, node.end_ms)
    as_if = replace(model, delay_ms=Parameter(level_ms, level_ms, level_ms, INFERRED))
    delay = _match_latency(cut, {**models, broker_id: as_if}, broker_id, latency_ms) if cut else None
    if delay is None:
        return model
    factor = (delay.value - usual_ms) / (level_ms - usual_ms)  # what is between the two levels stays between
    series = tuple((at_ms, max(0.0, usual_ms + (each - usual_ms) * factor)) for at_ms, each in model.delay_series)
    told = (
        f"broker {broker_id}: slow for a part of the time, then with a delay of"
        f" {delay.low:.1f} to {delay.high:.1f} ms, found by simulation"
    )
    return replace(model, delay_series=series, assumptions=(*model.assumptions, told))


def _is_open(node: NodeMetrics, latency_ms: float) -> bool:
    """The connection was neither idle nor saturated."""
    return ALONE < (node.request_rate_per_s or 0.0) * latency_ms / 1000 < SATURATED


def _list_settled(
    nodes: Sequence[NodeMetrics], broker_id: int, window: tuple[int, int]
) -> list[tuple[NodeMetrics, float, bool]]:
    """As `settle_latencies`, those inside the window; nodes before it tell what averages hold of them."""
    own = sorted((node for node in nodes if node.broker_id == broker_id), key=lambda node: node.start_ms)
    return [
        (node, own_ms, is_settled)
        for node, own_ms, is_settled in settle_latencies(own)
        if node.start_ms < window[1] and node.end_ms > window[0]
    ]


def _choose_minute(
    settled: Sequence[tuple[NodeMetrics, float, bool]], model: ServiceModel, level_ms: float
) -> tuple[NodeMetrics | None, float]:
    """The minute, an even one if there is one, in which the delay was such and had been before; and its latency."""
    delays = dict(model.delay_series)

    def rank(found: tuple[NodeMetrics, float, bool]) -> tuple[bool, bool, bool, bool, int]:
        node, _, is_settled = found
        before_ms = delays.get(2 * node.start_ms - node.end_ms, level_ms)
        return (
            abs(delays.get(node.start_ms, level_ms) - level_ms) > SAME_LEVEL * max(level_ms, _LEAST_DELAY_MS),
            not is_settled,
            abs(before_ms - level_ms) > SAME_LEVEL * level_ms,
            not is_fit_minute(node.start_ms),
            node.start_ms,
        )

    chosen = min(settled, key=rank, default=None)
    return (chosen[0], chosen[1]) if chosen else (None, 0.0)


def _match_latency(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], broker_id: int, latency_ms: float
) -> Parameter | None:
    """The delay under which requests take as long as they did, by halving."""
    place = list(models).index(broker_id)

    def simulate_ms(delay_ms: float) -> float:
        runs = [simulate_trial(topics, with_delay(models, broker_id, delay_ms), seed) for seed in SEEDS]
        latencies = [run.latency_ms[place] for run in runs if not np.isnan(run.latency_ms[place])]
        return float(np.mean(latencies)) if latencies else 0.0

    low, high = 0.0, max(2.0, min(2 * models[broker_id].delay_ms.high, latency_ms + 1.0))
    error_ms = _LATENCY_ERROR * latency_ms + _LATENCY_ERROR_MS
    if simulate_ms(low) >= latency_ms - error_ms:
        return Parameter(0.0, 0.0, error_ms, MEASURED)
    if simulate_ms(high) < latency_ms:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if simulate_ms(middle) < latency_ms else (low, middle)
    value = (low + high) / 2
    # How far the delay moves where the latency is off by what it may be.
    least = max(value - 1.0, 0.0)
    slope = max((simulate_ms(value + 1.0) - simulate_ms(least)) / (value + 1.0 - least), 0.5)
    reach = max(error_ms / slope, _DELAY_ERROR * value + _LATENCY_ERROR_MS)
    return Parameter(value, max(0.0, value - reach), value + reach, MEASURED)


def _replace_delay(model: ServiceModel, delay: Parameter) -> ServiceModel:
    """The series keeps its shape and takes the sharper one's level."""
    factor = delay.value / model.delay_ms.value
    series = tuple(
        (at_ms, value * factor if value >= _LEAST_DELAY_MS else value) for at_ms, value in model.delay_series
    )
    told = (
        f"broker {model.broker_id}: requests take as long as the metrics say with a delay of"
        f" {delay.low:.1f} to {delay.high:.1f} ms, found by simulation"
    )
    kept = tuple(text for text in model.assumptions if "neither idle nor saturated" not in text)
    return replace(model, delay_ms=delay, delay_series=series, assumptions=(*kept, told))
