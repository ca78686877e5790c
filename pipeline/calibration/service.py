"""How long a broker takes for a producer's requests: the model, and the simulator's broker made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from pipeline.model.window import MINUTE_MS
from pipeline.simulator.clients.client import MS
from pipeline.simulator.scenario.distribution import ZERO, Distribution, Steps
from pipeline.simulator.scenario.measured import MEASURED_OVERSLEEP, MEASURED_SERVICE
from pipeline.simulator.scenario.scenario import SimulatedBroker

MEASURED, INFERRED, CONFIGURED, ASSUMED = "measured", "inferred", "configured", "assumed"
_NS_PER_MS = 1e6
LEAST_RATIO, MOST_RATIO = 0.5, 3.0
"""What was measured elsewhere takes half to three times as long on machines that nobody timed."""
SAME_LEVEL = 0.5
"""A minute's delay that is off another by no more than such a part is the same, as far as is known."""
_OTHER_ERROR = 0.03
"""How far a saturated connection's time per request may be off: another level is told by such a one."""


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
        Parameter(request_ms, LEAST_RATIO * request_ms, MOST_RATIO * request_ms, ASSUMED),
        Parameter(MEASURED_SERVICE.partition_ns / _NS_PER_MS, 0.03, 0.07, ASSUMED),
        Parameter(MEASURED_SERVICE.kib_ns / _NS_PER_MS, 0.002, 0.01, ASSUMED),
        Parameter(delay_ms, delay_ms, delay_ms if source == CONFIGURED else float("inf"), source),
        assumptions=(f"broker {broker_id}: no metrics tell its delay; it is {told}",),
    )


def make_broker(model: ServiceModel, start_ms: int, *, chance: float | None = None) -> SimulatedBroker:
    """The broker as the simulator takes it.

    Args:
        model: Fitted.
        start_ms: When the simulation begins, epoch milliseconds.
        chance: Where in its range the delay lies, from 0 to 1; without it is the fitted one.
    """
    fitted = model.delay_series or ((start_ms, model.delay_ms.value),)
    series = fitted if chance is None else [(at, vary_delay(model.delay_ms, ms, chance)) for at, ms in fitted]
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
    return SimulatedBroker(
        broker_id=model.broker_id,
        service=service,
        delay_ns=Steps(tuple(starts), tuple(values)),
        oversleep_ns=MEASURED_OVERSLEEP if any(values) else ZERO,
    )


def vary_delay(usual: Parameter, delay_ms: float, chance: float) -> float:
    """A delay as it may have been: all that is known of it is a range, and that it is likelier near the fitted one.

    Args:
        usual: The delay of most minutes, with its range; one without a bound is not varied.
        delay_ms: That of a minute.
        chance: Uniform from 0 to 1; the same for all minutes, for they are fitted alike.

    Returns:
        Milliseconds, by the triangular law; a minute of another level than the usual one keeps within a few percent. None
        stays none: what a broker without a delay may take differs from run to run anyway.

    >>> usual = Parameter(20.0, 18.0, 22.0, INFERRED)
    >>> [vary_delay(usual, 20.0, chance) for chance in (0.0, 0.5, 1.0)]
    [18.0, 20.0, 22.0]
    >>> vary_delay(usual, 0.0, 1.0), vary_delay(Parameter(0.0, 0.0, 0.6, MEASURED), 20.0, 1.0)
    (0.0, 20.6)
    """
    if not usual.low < usual.high < math.inf:
        return delay_ms
    if usual.value and abs(delay_ms - usual.value) <= SAME_LEVEL * usual.value:
        return delay_ms * _draw_triangle(usual.low, usual.value, usual.high, chance) / usual.value
    return delay_ms * _draw_triangle(1 - _OTHER_ERROR, 1.0, 1 + _OTHER_ERROR, chance)


def vary_untimed(chance: float) -> float:
    """How many times as long as measured elsewhere something takes on a machine that nobody timed.

    Args:
        chance: Uniform from 0 to 1.

    >>> [vary_untimed(chance) for chance in (0.0, 0.5, 1.0)]
    [0.5, 1.0, 3.0]
    """
    if chance < 0.5:
        return LEAST_RATIO + 2 * chance * (1 - LEAST_RATIO)
    return 1 + (2 * chance - 1) * (MOST_RATIO - 1)


def _draw_triangle(low: float, mode: float, high: float, chance: float) -> float:
    if chance * (high - low) < mode - low:
        return low + math.sqrt(chance * (high - low) * (mode - low))
    return high - math.sqrt((1 - chance) * (high - low) * (high - mode))


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
