"""How long a broker takes for a producer's requests: the model, and the simulator's broker made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from pipeline.simulator.client import MS
from pipeline.simulator.distribution import ZERO, Distribution, Steps
from pipeline.simulator.measured import MEASURED_OVERSLEEP, MEASURED_SERVICE
from pipeline.simulator.scenario import Broker

MEASURED, INFERRED, CONFIGURED, ASSUMED = "measured", "inferred", "configured", "assumed"
MINUTE_MS = 60_000
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Parameter:
    """A number with its origin and range.

    Attributes:
        value: The number.
        low: It is hardly less.
        high: It is hardly more.
        source: `measured`, `inferred`, `configured` or `assumed`.
    """

    value: float
    low: float
    high: float
    source: str


@dataclass(frozen=True)
class ServiceModel:
    """How long a broker takes for a producer's requests in a window.

    Attributes:
        broker_id: Kafka's.
        request_ms: For each request, on average; it has the shape of `simulator.measured`.
        partition_ms: For each partition in a request beyond the first.
        kib_ms: For each 1,024 bytes.
        delay_ms: What a request takes longer; of several minutes the median.
        delay_series: Pairs of a start in epoch milliseconds and the delay from then on, rising.
        is_identifiable: The data tell the delay; else it is configured or assumed.
        is_settled: Metrics tell of this time, hardly of the minute before it.
        assumptions: In sentences.
    """

    broker_id: int
    request_ms: Parameter
    partition_ms: Parameter
    kib_ms: Parameter
    delay_ms: Parameter
    delay_series: tuple[tuple[int, float], ...] = ()
    is_identifiable: bool = False
    is_settled: bool = True
    assumptions: tuple[str, ...] = ()


def is_fit_minute(at_ms: int) -> bool:
    """Even minutes of UTC are fitted on, odd ones judge."""
    return at_ms // MINUTE_MS % 2 == 0


def assume_service(broker_id: int, delay_ms: float = 0.0, source: str = ASSUMED) -> ServiceModel:
    """A model without data: the times measured elsewhere, and a delay that is given."""
    request_ms = mean_of(MEASURED_SERVICE.request_ns) / _NS_PER_MS
    told = "configured" if source == CONFIGURED else "assumed to be none"
    return ServiceModel(
        broker_id,
        Parameter(request_ms, request_ms / 2, 3 * request_ms, ASSUMED),
        Parameter(MEASURED_SERVICE.partition_ns / _NS_PER_MS, 0.03, 0.07, ASSUMED),
        Parameter(MEASURED_SERVICE.kib_ns / _NS_PER_MS, 0.002, 0.01, ASSUMED),
        Parameter(delay_ms, delay_ms, delay_ms if source == CONFIGURED else float("inf"), source),
        assumptions=(f"broker {broker_id}: no metrics tell its delay; it is {told}",),
    )


def make_broker(model: ServiceModel, start_ms: int) -> Broker:
    """The broker as the simulator takes it.

    Args:
        model: Fitted.
        start_ms: When the simulation begins, epoch milliseconds.
    """
    series = model.delay_series or ((start_ms, model.delay_ms.value),)
    starts, values = [0], [round(series[0][1] * MS)]
    for at_ms, delay_ms in series:
        since_ns, value = (at_ms - start_ms) * MS, round(delay_ms * MS)
        if since_ns <= 0:
            values = [value]
        elif value != values[-1]:
            starts.append(since_ns)
            values.append(value)
    scale = model.request_ms.value / (mean_of(MEASURED_SERVICE.request_ns) / _NS_PER_MS)
    service = replace(
        MEASURED_SERVICE,
        request_ns=_scale(MEASURED_SERVICE.request_ns, scale),
        partition_ns=round(model.partition_ms.value * MS),
        kib_ns=round(model.kib_ms.value * MS),
    )
    return Broker(
        broker_id=model.broker_id,
        service=service,
        delay_ns=Steps(tuple(starts), tuple(values)),
        oversleep_ns=MEASURED_OVERSLEEP if any(values) else ZERO,
    )


def mean_of(distribution: Distribution) -> float:
    """The mean of a distribution given by quantiles."""
    points = distribution.points
    parts = ((high - low) * (first + second) / 2 for (low, first), (high, second) in pairwise(points))
    return float(sum(parts)) if points else float(distribution.mean)


def _scale(distribution: Distribution, scale: float) -> Distribution:
    if abs(scale - 1) < 1e-9:
        return distribution
    return Distribution(tuple((chance, round(value * scale)) for chance, value in distribution.points))


def service_ms(request_bytes: float | None, *, is_delayed: bool = True) -> float:
    """What a request takes by `simulator.measured` without a delay, and what a delay takes longer than asked."""
    kib = (request_bytes or 0.0) / 1024
    own = mean_of(MEASURED_SERVICE.request_ns) + kib * MEASURED_SERVICE.kib_ns
    return (own + (mean_of(MEASURED_OVERSLEEP) if is_delayed else 0.0)) / _NS_PER_MS
