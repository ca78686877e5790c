"""Delays followed from scrape to scrape: metrics of requests between two scrapes, as `request_latency.measure_requests` gives them.

What a connection's requests took is known of all minutes then. It is no share of a broker and no size of a batch, which judge.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.service.fit import MOST_IN_FLIGHT, NodeMetrics, SettledLatency, estimate_delay
from pipeline.calibration.service.model import Parameter, ServiceModel, found_delay, service_ms
from pipeline.calibration.service.trial import SEEDS, SessionTopic, cut_beginning, simulate_answers
from pipeline.model.window import MINUTE_MS

_LEAST_COVERED = 0.5  # of a time, from which its own latency is known
_LEAST_SPANS = 3
MOST_FOLLOWED = 300_000  # records simulated at once; what delays of later ones are off by is taken to be the same
_STEPS = 5


def take_own(nodes: Iterable[NodeMetrics], spans: Sequence[NodeMetrics]) -> list[NodeMetrics]:
    """Metrics with the latency of their own time alone, where spans between scrapes cover it."""
    return [_take_own(node, [span for span in spans if span.broker_id == node.broker_id]) for node in nodes]


def _take_own(node: NodeMetrics, spans: Sequence[NodeMetrics]) -> NodeMetrics:
    inside = [(span, min(span.end_ms, node.end_ms) - max(span.start_ms, node.start_ms)) for span in spans]
    inside = [(span, length_ms) for span, length_ms in inside if length_ms > 0]
    if sum(length_ms for _, length_ms in inside) < _LEAST_COVERED * (node.end_ms - node.start_ms):
        return node
    weights = [(span.request_rate_per_s or 0.0) * length_ms for span, length_ms in inside]
    latency_ms = float(np.average([span.request_latency_avg_ms or 0.0 for span, _ in inside], weights=weights))
    return replace(node, request_latency_avg_ms=latency_ms, is_own=True)


def follow_delays(model: ServiceModel, spans: Sequence[NodeMetrics]) -> ServiceModel:
    """The model with the delay of each of its broker's spans; unchanged where they are few or as long as minutes."""
    spans = [span for span in spans if span.broker_id == model.broker_id]
    if len(spans) < _LEAST_SPANS or np.median([span.end_ms - span.start_ms for span in spans]) > MINUTE_MS / 2:
        return model
    found = [
        estimate_delay(SettledLatency(span, span.request_latency_avg_ms or 0.0, is_settled=True)) for span in spans
    ]
    series = tuple((span.start_ms, delay.value) for span, delay in zip(spans, found, strict=True))
    weights = [span.end_ms - span.start_ms for span in spans]
    levels = [(delay.value, delay.low, delay.high) for delay in found]
    value, low, high = (float(np.average(level, weights=weights)) for level in zip(*levels, strict=True))
    least, most = min(levels)[0], max(levels)[0]
    caveat = Caveat.FOLLOWED.say(broker=model.broker_id, count=len(spans), least=least, most=most)
    return replace(
        model,
        delay_ms=Parameter(value, low, high, Origin.INFERRED),
        delay_series=series,
        is_identifiable=True,
        is_settled=True,
        is_followed=True,
        assumptions=(caveat,),
    )


def fit_spans(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], spans: Sequence[NodeMetrics], end_ms: int
) -> dict[int, ServiceModel]:
    """Followed delays moved until simulated requests take as long as they did, span by span; others as they are.

    `topics` are of one session in a window until `end_ms`, `spans` those that the delays follow.
    """
    fitted = dict(models)
    start_ms = min((model.delay_series[0][0] for model in models.values() if model.is_followed), default=end_ms)
    cut = cut_beginning(topics, start_ms, end_ms, MOST_FOLLOWED)
    if not cut:
        return fitted
    from_ms, until_ms = min(topic.first_ms for topic in cut), max(topic.last_ms for topic in cut)
    inside = [span for span in spans if models[span.broker_id].is_followed and span.end_ms <= until_ms]
    edges = sorted({at_ms for span in inside for at_ms in (span.start_ms, span.end_ms) if at_ms > from_ms})
    numbers = {broker_id: number for number, broker_id in enumerate(models)}
    for _ in range(_STEPS if edges else 0):
        answered = np.sum([simulate_answers(cut, list(fitted.values()), edges, seed) for seed in SEEDS], axis=0)
        known = np.concatenate([np.zeros_like(answered[:1]), answered])
        moved: dict[int, dict[int, tuple[float, float]]] = {broker_id: {} for broker_id in models}
        for span in inside:
            first, last = np.searchsorted(edges, (span.start_ms, span.end_ms), side="right")
            count, took_ms = known[last, numbers[span.broker_id]] - known[first, numbers[span.broker_id]]
            if count:
                missing_ms = (span.request_latency_avg_ms or 0.0) - took_ms / count
                moved[span.broker_id][span.start_ms] = missing_ms, took_ms / count
        fitted = {broker_id: _move(model, moved[broker_id]) for broker_id, model in fitted.items()}
    return fitted


def _move(model: ServiceModel, seen: Mapping[int, tuple[float, float]]) -> ServiceModel:
    """Delays changed by what latencies, in ms by start of a span, were too short and took; those not seen as much on average."""
    if not seen:
        return model
    own_ms = service_ms(None)
    changed = {}
    for at_ms, delay_ms in model.delay_series:
        if at_ms in seen:
            missing_ms, took_ms = seen[at_ms]
            ahead = min(max(took_ms / (delay_ms + own_ms), 1.0), MOST_IN_FLIGHT)  # a request waits for those before it
            changed[at_ms] = max(0.0, delay_ms + missing_ms / ahead)
    before = sum(delay_ms for at_ms, delay_ms in model.delay_series if at_ms in changed)
    factor = sum(changed.values()) / before if before else 1.0
    series = tuple((at_ms, changed.get(at_ms, delay_ms * factor)) for at_ms, delay_ms in model.delay_series)
    value = float(np.mean([delay_ms for _, delay_ms in series]))
    return replace(model, delay_ms=found_delay(value), delay_series=series)
