"""How long a broker takes for a producer's requests, from what the producer's metrics say of the connection.

A broker takes the requests of a connection one at a time; the producer has at most five of them under way. So latency seen
in a producer is waiting as well as service. With N = rate x latency, the requests under way on average (Little's law):

* N near five: the connection is saturated, and a request takes 1 / rate;
* N below a twentieth: hardly a request waits, and a request takes the latency;
* between: N is what a queue cut at five shows, N = r + r^2 + ... + r^5 with r the part of time the connection is busy;
  that holds for independent requests, and the true time lies between latency / 5 and the smaller of latency and 1 / rate.

What a request takes beyond `simulator.measured` is the broker's delay. Between scrapes, as
`request_latency.measure_requests` gives them, it is known of all minutes: no share of a broker and no size of a batch,
which judge, is used for it.

References:
    Little, A Proof for the Queuing Formula L = lambda W, 1961. Kafka `Sender.SenderMetrics`, `metrics/stats/Avg.java`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.calibration import limits
from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.service.model import Parameter, ServiceModel, assume_service, service_ms
from pipeline.model.window import MINUTE_MS

# requests under way on average from which a connection is saturated
SATURATED = (1 - limits.LATENCY_ERROR) * limits.MOST_IN_FLIGHT
# Of what Kafka's averages of two samples of 30 s show in a minute, so much is of the minute before, at equal rates.
_STALE_RATIO = 0.375


@dataclass(frozen=True)
class NodeMetrics:
    """A producer's metrics of its connection to a broker from `start_ms` to `end_ms`; None where missing."""

    broker_id: int
    start_ms: int
    end_ms: int
    request_rate_per_s: float | None
    request_latency_avg_ms: float | None
    request_bytes: float | None = None
    is_own: bool = False  # the latency is that of this time alone, nothing trails
    is_settled: bool = True  # the latency holds hardly anything of the minute before

    @property
    def under_way(self) -> float:
        """Requests under way on average, by Little's law; 0 where rate or latency are not known."""
        return (self.request_rate_per_s or 0.0) * (self.request_latency_avg_ms or 0.0) / 1000

    @property
    def has_latency(self) -> bool:
        return self.request_rate_per_s is not None and self.request_latency_avg_ms is not None

    @property
    def is_usable(self) -> bool:
        """It has a rate and a latency, of enough requests."""
        rate, latency_ms = self.request_rate_per_s, self.request_latency_avg_ms
        if rate is None or latency_ms is None or not rate > 0 or not latency_ms >= 0:
            return False
        return rate * (self.end_ms - self.start_ms) / 1000 >= limits.LEAST_SAMPLE


def fit_services(
    nodes: Sequence[NodeMetrics], broker_ids: Sequence[int], start_ms: int, end_ms: int
) -> dict[int, ServiceModel]:
    """Fits every broker's service; `nodes` are one producer's, those before the window tell what averages hold of that time."""
    models = {}
    for broker_id in broker_ids:
        settled = settle_latencies(nodes, broker_id, start_ms, end_ms)
        models[broker_id] = _fit_broker(broker_id, settled) if settled else assume_service(broker_id)
    return models


def estimate_request_time(rate_per_s: float, latency_ms: float) -> Parameter:
    """Time per request, in milliseconds, on a connection that takes one at a time and has five under way at most.

    >>> estimate_request_time(48.5, 103.0).value == 1000 / 48.5
    True
    >>> estimate_request_time(4.0, 21.0).value
    19.372743663552683
    """
    most_ms = 1000 / rate_per_s
    under_way = rate_per_s * latency_ms / 1000
    alone_ms = max(latency_ms - limits.LATENCY_ERROR_MS, 0.0)  # without what the client itself takes
    if under_way >= SATURATED:
        return Parameter(
            most_ms, (1 - limits.LATENCY_ERROR) * most_ms, (1 + limits.LATENCY_ERROR) * most_ms, Origin.MEASURED
        )
    if under_way <= limits.MOST_STRAY:
        return Parameter(alone_ms, alone_ms * (1 - under_way / 2), alone_ms, Origin.MEASURED)
    value = min(_invert_queue(under_way) * most_ms, alone_ms)
    low, high = min(latency_ms / limits.MOST_IN_FLIGHT, value), max(min(alone_ms, most_ms), value)
    return Parameter(value, low, high, Origin.INFERRED)


def _invert_queue(under_way: float) -> float:
    """The busy part of time r where r + r^2 + ... + r^5 requests are under way on average."""
    powers = np.arange(1, limits.MOST_IN_FLIGHT + 1)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (middle**powers).sum() < under_way else (low, middle)
    return high


def take_own(node: NodeMetrics, spans: Sequence[NodeMetrics]) -> NodeMetrics:
    """A time with the latency of itself alone, where spans between scrapes cover it."""
    own = (span for span in spans if span.broker_id == node.broker_id)
    lengths_ms = [(span, min(span.end_ms, node.end_ms) - max(span.start_ms, node.start_ms)) for span in own]
    inside = [(span, length_ms) for span, length_ms in lengths_ms if length_ms > 0]
    if sum(length_ms for _, length_ms in inside) < limits.HALF * (node.end_ms - node.start_ms):
        return node
    weights = [(span.request_rate_per_s or 0.0) * length_ms for span, length_ms in inside]
    latency_ms = float(np.average([span.request_latency_avg_ms or 0.0 for span, _ in inside], weights=weights))
    return replace(node, request_latency_avg_ms=latency_ms, is_own=True)


def follow_delays(model: ServiceModel, spans: Sequence[NodeMetrics]) -> ServiceModel:
    """The model with the delay of each of its broker's spans; unchanged where they are few or as long as minutes."""
    spans = [span for span in spans if span.broker_id == model.broker_id]
    if len(spans) < 2 or np.median([span.end_ms - span.start_ms for span in spans]) > limits.HALF * MINUTE_MS:
        return model
    found = [estimate_delay(span) for span in spans]
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


def settle_latencies(nodes: Sequence[NodeMetrics], broker_id: int, start_ms: int, end_ms: int) -> list[NodeMetrics]:
    """One broker's times within a window; those before it serve to take out what averages hold of them."""
    own = sorted((node for node in nodes if node.broker_id == broker_id), key=lambda node: node.start_ms)
    return [
        take_out_stale(node, before)
        for before, node in zip([None, *own], own, strict=False)
        if node.is_usable and node.start_ms < end_ms and node.end_ms > start_ms
    ]


def take_out_stale(node: NodeMetrics, before: NodeMetrics | None) -> NodeMetrics:
    """A time with its own latency: Kafka's averages over two samples of 30 s hold a part of the minute before."""
    rate, latency_ms = node.request_rate_per_s or 0.0, node.request_latency_avg_ms or 0.0
    if node.is_own or before is None or before.end_ms != node.start_ms or before.request_latency_avg_ms is None:
        return node
    if not rate:  # how much of the average is older, nobody knows
        return replace(node, is_settled=False)
    ratio = _STALE_RATIO * min(1.0, MINUTE_MS / (node.end_ms - node.start_ms))
    old = ratio * (before.request_rate_per_s or 0.0)
    old_part = old / (old + (1 - ratio) * rate)
    own_ms = max(0.0, (latency_ms - old_part * before.request_latency_avg_ms) / (1 - old_part))
    own_ms = min(own_ms, limits.MOST_IN_FLIGHT * 1000 / rate)
    is_settled = abs(own_ms - latency_ms) <= limits.ALIKE * latency_ms + limits.LATENCY_ERROR_MS
    return replace(node, request_latency_avg_ms=own_ms, is_settled=is_settled)


def estimate_delay(node: NodeMetrics) -> Parameter:
    """A time's delay: what a request takes beyond `simulator.measured`."""
    time = estimate_request_time(node.request_rate_per_s or 0.0, node.request_latency_avg_ms or 0.0)
    own_part = service_ms(node.request_bytes)
    value, low, high = (max(0.0, part - own_part) for part in (time.value, time.low, time.high))
    if value < limits.LEAST_DELAY_MS:
        value, low = 0.0, 0.0
    source = time.source if node.is_settled else Origin.INFERRED
    return Parameter(value, max(0.0, low - limits.LATENCY_ERROR_MS), high + limits.LATENCY_ERROR_MS, source)


def _fit_broker(broker_id: int, nodes: Sequence[NodeMetrics]) -> ServiceModel:
    times = [(node, estimate_delay(node)) for node in nodes]
    usable = [time for time in times if time[0].is_settled] or times
    typical, delay = sorted(usable, key=lambda time: time[1].value)[(len(usable) - 1) // 2]
    model = replace(assume_service(broker_id), is_identifiable=True, assumptions=())
    if not typical.is_settled:
        model = model.noting(Caveat.TRAILING_AVERAGE.say(broker=broker_id))
    elif delay.source == Origin.INFERRED:
        model = model.noting(Caveat.PARTLY_BUSY.say(broker=broker_id, low=delay.low, high=delay.high))
    return replace(model, delay_ms=delay, delay_series=_list_delays(times), is_settled=typical.is_settled)


def _list_delays(times: Sequence[tuple[NodeMetrics, Parameter]]) -> tuple[tuple[int, float], ...]:
    """Every minute's delay: its own, or, where its latency is mostly that of the minute before, the level next to it."""
    settled = {node.start_ms: delay.value for node, delay in times if node.is_settled}

    def find_level(node: NodeMetrics, own_ms: float) -> float:
        earlier = [delay_ms for at_ms, delay_ms in settled.items() if at_ms < node.start_ms][-1:]
        later = [delay_ms for at_ms, delay_ms in settled.items() if at_ms > node.start_ms][:1]
        level = min(earlier + later, key=lambda each: abs(each - own_ms), default=own_ms)
        is_near = abs(level - own_ms) <= max(limits.LEAST_DELAY_MS, limits.HALF * max(level, own_ms))
        return level if is_near else own_ms  # else it is another level altogether

    return tuple((node.start_ms, d.value if node.is_settled else find_level(node, d.value)) for node, d in times)
