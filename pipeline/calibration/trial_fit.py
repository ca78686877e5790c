"""Delays found by simulating what is in use, where metrics alone leave them open: until the simulation shows what was recorded.

With metrics the mean latency of requests decides: it rises with the delay, whatever the load. Without, the records per
batch and the share of each broker do; a delay is taken from them only where the misfit has a clear minimum. From the log
alone that is often not so: a broker that was saturated shows full batches under any delay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.service import ASSUMED, INFERRED, MEASURED, MINUTE_MS, Parameter, is_fit_minute
from pipeline.calibration.service_fit import take_out_stale
from pipeline.calibration.trial import BrokerFigures, cut_topic, observe, simulate_trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.calibration.service import ServiceModel
    from pipeline.calibration.service_fit import NodeMetrics
    from pipeline.calibration.trial import SessionTopic

SEEDS = (1, 2)
MOST_RECORDS = 60_000
"""Of a minute; of a fuller one its beginning is simulated."""
_GRID_MS = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
_REFINEMENTS = 3
_LATENCY_ERROR, _LATENCY_ERROR_MS = 0.03, 0.3
_DELAY_ERROR = 0.04
_SLOW_ERROR, _OTHER_ERROR, _SHARE_ERROR = 0.05, 0.2, 0.015
"""How far records per batch of slow brokers and of others, and shares, may be off for reasons nobody simulates."""
_SLOW_RATIO = 1.5
_CLEAR = 6.0
"""How much the misfit, in squared standard deviations, has to rise on both sides of a clear minimum."""
_CLEAR_WIDTH_RATIO, _CLEAR_WIDTH_MS = 0.5, 2.0
_LEAST_BATCHES = 50
_LEAST_DELAY_MS = 1.0
_WELL = 4.0
"""Of a misfit so much for each figure is none."""
_STEPS = 7


def needs_trial(model: ServiceModel) -> bool:
    """Whether a simulation may tell the delay better than the metrics did."""
    if model.delay_ms.source == ASSUMED or not model.is_settled:
        return True
    return model.delay_ms.source == INFERRED and model.delay_ms.value >= _LEAST_DELAY_MS


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
    for broker_id, model in sorted(models.items(), key=lambda item: -item[1].delay_ms.value):
        if needs_trial(model) and model.is_settled and model.delay_ms.source == INFERRED:
            found[broker_id] = _fit_latency(topics, found, broker_id, nodes, (start_ms, end_ms))
    open_ids = [own for own, model in found.items() if model.delay_ms.source == ASSUMED or not model.is_settled]
    return _fit_log(topics, found, open_ids, start_ms, end_ms) if open_ids else found


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
            abs(delays.get(node.start_ms, usual_ms) - usual_ms) > _SLOW_RATIO - 1,
            abs(delays.get(2 * node.start_ms - node.end_ms, usual_ms) - usual_ms) > usual_ms / 2,
            not is_fit_minute(node.start_ms),
            node.start_ms,
        ),
        default=None,
    )


def cut_beginning(topics: Sequence[SessionTopic], start_ms: int, end_ms: int) -> list[SessionTopic]:
    """A time's beginning, as much of it as is simulated."""
    cut = [cut_topic(topic, start_ms, end_ms) for topic in topics]
    count = sum(len(topic.traffic) for topic in cut)
    if count > MOST_RECORDS:
        length_ms = (end_ms - start_ms) * MOST_RECORDS // count
        cut = [cut_topic(topic, start_ms, start_ms + length_ms) for topic in cut]
    return [topic for topic in cut if len(topic.traffic)]


def _with_delay(models: Mapping[int, ServiceModel], broker_id: int, delay_ms: float) -> list[ServiceModel]:
    """All models without their series, one with another delay."""
    changed = replace(models[broker_id], delay_ms=Parameter(delay_ms, delay_ms, delay_ms, INFERRED))
    return [replace(changed if own == broker_id else model, delay_series=()) for own, model in models.items()]


def _match_latency(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], broker_id: int, latency_ms: float
) -> Parameter | None:
    """The delay under which requests take as long as they did, by halving."""
    place = list(models).index(broker_id)

    def simulate_ms(delay_ms: float) -> float:
        runs = [simulate_trial(topics, _with_delay(models, broker_id, delay_ms), seed) for seed in SEEDS]
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


def _fit_log(
    topics: Sequence[SessionTopic],
    models: dict[int, ServiceModel],
    open_ids: Sequence[int],
    start_ms: int,
    end_ms: int,
) -> dict[int, ServiceModel]:
    """Looks for delays in the batches of brokers whose batches are larger than others'."""
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
    if is_clear:
        return replace(
            model, delay_ms=delay, delay_series=(), is_identifiable=True, assumptions=(*model.assumptions, told)
        )
    if not model.is_settled:
        return replace(
            model, delay_ms=delay, delay_series=(), is_identifiable=False, assumptions=(*model.assumptions, told)
        )
    return replace(model, assumptions=(*model.assumptions, told))


def choose_minute(topics: Sequence[SessionTopic], start_ms: int, end_ms: int) -> tuple[int, int]:
    """The even minute with most batches, or the whole window where there is none."""
    first = start_ms + -start_ms % MINUTE_MS
    minutes = [at_ms for at_ms in range(first, end_ms, MINUTE_MS) if is_fit_minute(at_ms)]
    if end_ms - start_ms <= MINUTE_MS or not minutes:
        return start_ms, end_ms
    base_ms = np.concatenate([topic.batches.base_ms for topic in topics])
    counts = [int(((base_ms >= at_ms) & (base_ms < at_ms + MINUTE_MS)).sum()) for at_ms in minutes]
    at_ms = minutes[int(np.argmax(counts))]
    return at_ms, min(at_ms + MINUTE_MS, end_ms)


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
            runs = [simulate_trial(topics, _with_delay(models, broker_id, delay_ms), seed) for seed in SEEDS]
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
