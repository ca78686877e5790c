"""Delays followed from scrape to scrape: metrics of requests between two scrapes, as `request_latency.measure_requests` gives them.

What a connection's requests took is known of all minutes then. It is no share of a broker and no size of a batch, which judge.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.service.fit import NodeMetrics, SettledLatency, estimate_delay
from pipeline.calibration.service.model import Parameter, ServiceModel
from pipeline.model.window import MINUTE_MS

_LEAST_COVERED = 0.5  # of a time, from which its own latency is known


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
    """The model with the delay of each of its broker's spans; unchanged where it has none or they are as long as minutes."""
    spans = [span for span in spans if span.broker_id == model.broker_id]
    if not spans or np.median([span.end_ms - span.start_ms for span in spans]) > MINUTE_MS / 2:
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
