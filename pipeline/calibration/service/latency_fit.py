"""Finds delays that metrics leave open: simulates the current setup until requests take as long as recorded.

With metrics the mean latency of requests decides: it rises with the delay, whatever the load. Without, the records per
batch and the share of each broker do (`batch_fit`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median_low

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.limits import LEAST_DELAY_MS, MOST_IN_FLIGHT, SEEDS, STEPS
from pipeline.calibration.service.batch_fit import fit_batches
from pipeline.calibration.service.fit import SATURATED, NodeMetrics, settle_latencies
from pipeline.calibration.service.model import Models, ServiceModel, found_delay, service_ms
from pipeline.calibration.service.trial import SessionTopics, cut_beginning, simulate_answers


def needs_trial(model: ServiceModel) -> bool:
    """Whether a simulation may determine the delay better than the metrics did: requests wait for one another."""
    most_ms = max((delay_ms for _, delay_ms in model.delay_series), default=model.delay_ms.value)
    return _is_unknown(model) or model.is_followed or most_ms >= LEAST_DELAY_MS


def _is_unknown(model: ServiceModel) -> bool:
    """No metrics show the delay, or they are mostly of the minute before."""
    return model.delay_ms.source == Origin.ASSUMED or not model.is_settled


def sharpen_services(
    topics: SessionTopics,
    models: Models,
    nodes: Sequence[NodeMetrics],
    start_ms: int,
    end_ms: int,
    *,
    spans: Sequence[NodeMetrics] = (),
) -> dict[int, ServiceModel]:
    """Simulates the current setup to find the delays that metrics leave open; else models say why not.

    `topics` are of one session in a window of epoch milliseconds, the one with most records first; `models`, of all
    brokers, as `fit_services` gives them for the metrics of `nodes`, of which there may be none; `spans` are those
    between scrapes, which delays that are followed hold.
    """
    if not any(len(topic.traffic) for topic in topics):
        return dict(models)
    times = {
        own: [span for span in spans if span.broker_id == own]
        if model.is_followed
        else [  # that of a saturated one follows from its rate
            node
            for node in settle_latencies(nodes, own, start_ms, end_ms)
            if node.is_settled and node.under_way < SATURATED
        ]
        for own, model in models.items()
        if needs_trial(model) and not _is_unknown(model)
    }
    fitted = {**models, **_fit_latencies(topics, models, times, end_ms)}
    unknown = [own for own, model in fitted.items() if _is_unknown(model)]
    return fit_batches(topics, fitted, unknown, start_ms, end_ms) if unknown else fitted


def _fit_latencies(
    topics: SessionTopics, models: Models, times: Mapping[int, Sequence[NodeMetrics]], end_ms: int
) -> dict[int, ServiceModel]:
    """Delays of brokers, each with the times to fit, moved until simulated requests take as long as they did in each time.

    As much is simulated as may be, from the first time on that has a delay; later delays are taken to be off by as much.
    """
    slow_ms = (at_ms for own in times for at_ms, delay_ms in models[own].delay_series if delay_ms >= LEAST_DELAY_MS)
    cut = cut_beginning(topics, min(slow_ms, default=end_ms), end_ms)
    if not cut:
        return {}
    from_ms, until_ms = min(topic.first_ms for topic in cut), max(topic.last_ms for topic in cut)
    seen = [node for nodes in times.values() for node in nodes if _is_covered(node, from_ms, until_ms)]
    edges = sorted({min(at_ms, until_ms) for node in seen for at_ms in (node.start_ms, node.end_ms) if at_ms > from_ms})
    fitted = dict(models)
    for step in range(1, STEPS + 1 if edges else 1):
        answered = np.sum([simulate_answers(cut, list(fitted.values()), edges, seed, step) for seed in SEEDS], axis=0)
        known = dict(zip(models, np.concatenate([np.zeros_like(answered[:1]), answered]).swapaxes(0, 1), strict=True))
        took_ms: dict[int, dict[int, tuple[float, float]]] = {own: {} for own in times}
        for node in seen:
            first, last = np.searchsorted(edges, (node.start_ms, min(node.end_ms, until_ms)), side="right")
            count, total_ms = known[node.broker_id][last] - known[node.broker_id][first]
            if count:
                took_ms[node.broker_id][node.start_ms] = total_ms / count, node.request_latency_avg_ms or 0.0
        fitted |= {own: _move(fitted[own], took_ms[own], step) for own in times if took_ms[own]}
    return {own: _note(fitted[own]) if any(node.broker_id == own for node in seen) else fitted[own] for own in times}


def _is_covered(node: NodeMetrics, from_ms: int, until_ms: int) -> bool:
    """At least half of it is simulated, or it is half of what is."""
    covered_ms = min(node.end_ms, until_ms) - max(node.start_ms, from_ms)
    return 2 * covered_ms >= min(node.end_ms - node.start_ms, until_ms - from_ms)


def _move(model: ServiceModel, took_ms: Mapping[int, tuple[float, float]], step: int) -> ServiceModel:
    """Delays changed by what simulated latencies differ from recorded ones, by start of a time; others as much on average.

    Each step is shorter, for in an overloaded producer latencies rise steeper than the queue's length says, and so that what
    steps' own delays within spans change evens out (Robbins and Monro, A Stochastic Approximation Method, 1951).
    """
    changed = {}
    for at_ms, delay_ms in model.delay_series:
        if at_ms in took_ms and (model.is_followed or delay_ms >= LEAST_DELAY_MS):
            simulated_ms, recorded_ms = took_ms[at_ms]
            waited_for = min(
                max(simulated_ms / (delay_ms + service_ms(None)), 1.0), MOST_IN_FLIGHT
            )  # requests, with its own
            changed[at_ms] = max(0.0, delay_ms + (recorded_ms - simulated_ms) / (waited_for * step))
    before = sum(delay_ms for at_ms, delay_ms in model.delay_series if at_ms in changed)
    factor = sum(changed.values()) / before if before else 1.0
    series = tuple((at_ms, changed.get(at_ms, delay_ms * factor)) for at_ms, delay_ms in model.delay_series)
    delays = [delay_ms for _, delay_ms in series]
    delay = found_delay(fmean(delays) if model.is_followed else median_low(delays))
    return replace(model, delay_ms=delay, delay_series=series)


def _note(model: ServiceModel) -> ServiceModel:
    """Says what was found of a broker whose delays are not followed from scrape to scrape."""
    if model.is_followed:
        return model
    delays = [delay_ms for _, delay_ms in model.delay_series]
    slow = [delay_ms for delay_ms in delays if delay_ms >= LEAST_DELAY_MS] or delays
    kind = Caveat.SIMULATED_LATENCY if len(slow) == len(delays) else Caveat.PARTLY_SLOW
    kept = tuple(each for each in model.assumptions if each.kind is not Caveat.PARTLY_BUSY)
    low, high = found_delay(min(slow)).low, found_delay(max(slow)).high
    return replace(model, assumptions=kept).noting(kind.say(broker=model.broker_id, low=low, high=high))
