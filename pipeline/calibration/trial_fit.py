"""Delays found by simulating what is in use, where metrics alone leave them open: until the simulation shows what was recorded.

With metrics the mean latency of requests decides: it rises with the delay, whatever the load. Without, the records per
batch and the share of each broker do (`trial_log`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.service import ASSUMED, INFERRED, MEASURED, Parameter, is_fit_minute
from pipeline.calibration.service_fit import ALONE, take_out_stale
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
_OTHER_LEVEL = 0.5
"""A minute's delay that is off the usual one by such a part is another."""
_LEAST_DELAY_MS = 1.0
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
    node = _choose_node([node for node in nodes if node.broker_id == broker_id], model, window)
    cut = cut_beginning(topics, node.start_ms, node.end_ms) if node else []
    if node is None or not cut:
        return model
    before = next((each for each in nodes if each.broker_id == broker_id and each.end_ms == node.start_ms), None)
    latency_ms, _ = take_out_stale(node, before)
    delay = _match_latency(cut, models, broker_id, latency_ms)
    return _replace_delay(model, delay) if delay else model


def _choose_node(nodes: Sequence[NodeMetrics], model: ServiceModel, window: tuple[int, int]) -> NodeMetrics | None:
    """The minute, an even one if there is one, in which the delay was the model's and had been before."""
    inside = [
        node
        for node in nodes
        if node.request_latency_avg_ms is not None and node.start_ms < window[1] and node.end_ms > window[0]
    ]
    delays, usual_ms = dict(model.delay_series), model.delay_ms.value
    return min(
        inside,
        key=lambda node: (
            abs(delays.get(node.start_ms, usual_ms) - usual_ms) > _OTHER_LEVEL,
            abs(delays.get(2 * node.start_ms - node.end_ms, usual_ms) - usual_ms) > usual_ms / 2,
            not is_fit_minute(node.start_ms),
            node.start_ms,
        ),
        default=None,
    )


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
