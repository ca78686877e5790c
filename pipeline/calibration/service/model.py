"""How long a broker takes for a producer's requests: the model, and the simulator's broker made of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pipeline.arrays import Floats
from pipeline.calibration.caveats import Caveat, Origin, Statement
from pipeline.calibration.limits import HALF, LATENCY_ERROR, LATENCY_ERROR_MS, UNTIMED_RATIO
from pipeline.calibration.within_ms import mix_bits
from pipeline.model.window import HOUR_MS, NS_PER_MS
from pipeline.simulator.distributions import GAMMA, ZERO, Distribution, Steps
from pipeline.simulator.scenario.measured import MEASURED_OVERSLEEP, MEASURED_SERVICE
from pipeline.simulator.scenario.scenario import SimulatedBroker


@dataclass(frozen=True)
class Parameter:
    """A number with its range and origin: it is hardly less than `low`, hardly more than `high`."""

    value: float
    low: float
    high: float
    source: Origin


@dataclass(frozen=True)
class ServiceModel:
    """How long a broker takes for a producer's requests in a window."""

    broker_id: int
    delay_ms: Parameter  # what a request takes longer than those of `simulator.measured`; of several minutes the median
    # pairs of a start in epoch milliseconds and the delay from then on, rising
    delay_series: tuple[tuple[int, float], ...] = ()
    is_identifiable: bool = False  # the data determine the delay; else it is assumed
    is_settled: bool = True  # metrics are of this time, hardly of the minute before it
    # `delay_series` is known from scrape to scrape, and its level alone is open: `delay_ms` is the mean
    is_followed: bool = False
    assumptions: tuple[Statement, ...] = ()

    def at_level(self, delay_ms: float) -> "ServiceModel":
        """The model with another delay: of a followed one all are as many times as long, of others it is the only one."""
        delay = Parameter(delay_ms, delay_ms, delay_ms, Origin.INFERRED)
        if not self.is_followed or not self.delay_ms.value:
            return replace(self, delay_ms=delay, delay_series=())
        factor = delay_ms / self.delay_ms.value
        return replace(self, delay_ms=delay, delay_series=tuple((at, ms * factor) for at, ms in self.delay_series))

    def noting(self, statement: Statement) -> "ServiceModel":
        return replace(self, assumptions=(*self.assumptions, statement))


Models = Mapping[int, ServiceModel]  # by broker


def assume_service(broker_id: int) -> ServiceModel:
    """A model without data: no delay."""
    delay = Parameter(0.0, 0.0, math.inf, Origin.ASSUMED)
    return ServiceModel(broker_id, delay, assumptions=(Caveat.DELAY_UNKNOWN.say(broker=broker_id),))


def lend_model(model: ServiceModel) -> ServiceModel:
    """A broker's model for another producer, of which no metrics are known."""
    delay = model.delay_ms
    caveat = Caveat.DELAY_OF_OTHERS.say(broker=model.broker_id, low=delay.low, high=delay.high)
    return replace(model, delay_ms=replace(delay, source=Origin.INFERRED), is_settled=True, assumptions=(caveat,))


def make_broker(model: ServiceModel, start_ms: int, *, chance: float | None = None) -> SimulatedBroker:
    """The broker for a simulation from `start_ms` on; `chance`, 0 to 1, says where in its range the delay lies."""
    series = model.delay_series or ((start_ms, model.delay_ms.value),)
    if chance is not None and model.is_followed:
        series = tuple((at, ms * _vary_level(model.delay_ms, chance)) for at, ms in series)
    elif chance is not None:
        series = tuple((at, vary_delay(model.delay_ms, ms, chance)) for at, ms in series)
    starts, values = [0], list[int]()
    for at_ms, delay_ms in series:
        since_ns, value = (
            (at_ms - start_ms) * NS_PER_MS,
            round(min(delay_ms, HOUR_MS) * NS_PER_MS),
        )  # a metric may claim any
        if since_ns <= 0 or not values:
            values = [value]
        elif value != values[-1]:
            starts.append(since_ns)
            values.append(value)
    return SimulatedBroker(
        broker_id=model.broker_id,
        service=MEASURED_SERVICE,
        delay_ns=Steps(tuple(starts), tuple(values)),
        oversleep_ns=MEASURED_OVERSLEEP if any(values) else ZERO,
    )


def vary_delay(usual: Parameter, delay_ms: float, chance: float) -> float:
    """A delay in milliseconds as it may have been: only its range is known, and that it is likelier near the fitted one.

    `usual` is the delay of most minutes, and one without a bound is not varied; `delay_ms` is that of a minute, `chance`
    uniform from 0 to 1 and the same for all minutes, for they are fitted alike. The law is triangular; a minute of another
    level than the usual one keeps within a few percent. No delay stays none: what such a broker takes differs anyway.

    >>> usual = Parameter(20.0, 18.0, 22.0, Origin.INFERRED)
    >>> [vary_delay(usual, 20.0, chance) for chance in (0.0, 0.5, 1.0)]
    [18.0, 20.0, 22.0]
    >>> vary_delay(usual, 0.0, 1.0), vary_delay(Parameter(0.0, 0.0, 0.6, Origin.MEASURED), 20.0, 1.0)
    (0.0, 20.6)
    """
    if not usual.low < usual.high < math.inf:
        return delay_ms
    if usual.value and abs(delay_ms - usual.value) <= HALF * usual.value:
        return delay_ms * _draw_triangle(usual.low, usual.value, usual.high, chance) / usual.value
    return delay_ms * _draw_triangle(1 - LATENCY_ERROR, 1.0, 1 + LATENCY_ERROR, chance)


def _vary_level(usual: Parameter, chance: float) -> float:
    is_open = usual.value and usual.low < usual.high < math.inf
    return _draw_triangle(usual.low, usual.value, usual.high, chance) / usual.value if is_open else 1.0


def vary_untimed(chance: float) -> float:
    """How many times as long as measured elsewhere something takes on a machine that nobody timed, by a chance of 0 to 1.

    >>> [vary_untimed(chance) for chance in (0.0, 0.5, 1.0)]
    [0.5, 1.0, 3.0]
    """
    return (HALF + chance) if chance < HALF else 1 + (UNTIMED_RATIO - 1) * (2 * chance - 1)


def _draw_triangle(low: float, mode: float, high: float, chance: float) -> float:
    if chance * (high - low) < mode - low:
        return low + math.sqrt(chance * (high - low) * (mode - low))
    return high - math.sqrt((1 - chance) * (high - low) * (high - mode))


def mean_of(distribution: Distribution) -> float:
    points = distribution.points
    parts = ((high - low) * (first + second) / 2 for (low, first), (high, second) in pairwise(points))
    return float(sum(parts)) if points else float(distribution.mean)


def found_delay(value_ms: float) -> Parameter:
    """A delay that simulation found, off by what simulation itself is."""
    reach_ms = LATENCY_ERROR * value_ms + LATENCY_ERROR_MS
    return Parameter(value_ms, max(0.0, value_ms - reach_ms), value_ms + reach_ms, Origin.MEASURED)


def service_ms(request_bytes: float | None) -> float:
    """Returns a request's time by `simulator.measured`, plus what a delay takes longer than asked."""
    kib = (request_bytes or 0.0) / 1024
    own_ns = mean_of(MEASURED_SERVICE.request_ns) + kib * MEASURED_SERVICE.kib_ns
    return (own_ns + mean_of(MEASURED_OVERSLEEP)) / NS_PER_MS


def fluctuate(model: ServiceModel, stream: int) -> ServiceModel:
    """The model with delays drawn within its spans, whose means stay; unchanged where they are not followed.

    Metrics tell the mean between two scrapes alone. A broker that answers late for a second and quickly for four keeps other
    batches waiting than one that is always a little late. How long delays last shows in the means: those of neighbouring
    spans are alike where a delay outlasts a span. Delays are taken to change at random instants, to values that do not
    depend on those before. With x the length of a span in lengths of a delay, the means of spans then have
    2 (x - 1 + e^-x) / x^2 of the delays' variance, and neighbours a correlation of (1 - e^-x)^2 / (2 (x - 1 + e^-x)).

    References:
        Yaglom, Correlation Theory of Stationary and Related Random Functions I, 1987, section 9: means of a process whose
        correlation falls exponentially.
    """
    at_ms, means = (np.array(column, np.float64) for column in zip(*model.delay_series or ((0, 0.0),), strict=True))
    means = np.minimum(means, HOUR_MS)  # a metric may claim any
    correlation = _correlate(means)
    if not model.is_followed or not correlation < 1:
        return model
    span_ms = float(np.median(np.diff(at_ms)))
    end_ms = at_ms[-1] + span_ms // 1
    lasting = _invert_correlation(correlation)
    variance = means.var() * lasting**2 / (2 * (lasting + np.expm1(-lasting)))
    first, second, third = _draw_uniform(stream, 2 * int(lasting * (end_ms - at_ms[0]) / span_ms) + len(means))
    changes_ms = at_ms[0] + np.floor(np.cumsum(-np.log(first)) * span_ms / lasting)
    deviation = np.sqrt(np.log1p(variance / means.mean() ** 2))
    levels = np.exp(deviation * np.sqrt(-2 * np.log(second)) * np.cos(2 * np.pi * third))
    starts_ms = np.unique(np.concatenate([at_ms, changes_ms[changes_ms < end_ms]]))
    drawn = levels[np.minimum(np.searchsorted(changes_ms, starts_ms, side="right"), len(levels) - 1)]
    lengths_ms, number = np.diff(starts_ms, append=end_ms), np.searchsorted(at_ms, starts_ms, side="right") - 1
    share = drawn * np.bincount(number, lengths_ms)[number] / np.bincount(number, drawn * lengths_ms)[number]
    ends = [*starts_ms.tolist(), end_ms], [*(means[number] * share).tolist(), float(means[-1])]
    return replace(model, delay_series=tuple((int(at), delay_ms) for at, delay_ms in zip(*ends, strict=True)))


def _correlate(means: Floats) -> float:
    """Of neighbouring means, with its error, for changes are no quicker than they must be; 1 where all are alike."""
    deviations = means - means.mean()
    if not deviations.any():
        return 1.0
    found = float((deviations[1:] * deviations[:-1]).sum() / (deviations**2).sum())
    return max(found, 0.0) + 1 / math.sqrt(len(means))


def _invert_correlation(correlation: float) -> float:
    """How many lengths of a delay a span is long, given the correlation of neighbouring means.

    >>> round(float(_invert_correlation((1 - np.exp(-2)) ** 2 / (2 * (1 + np.exp(-2))))), 6)
    2.0
    """
    low, high = 0.0, 2 / correlation  # the correlation is less than 2 / x
    for _ in range(40):
        middle = (low + high) / 2
        is_short = np.expm1(-middle) ** 2 > 2 * correlation * (middle + np.expm1(-middle))
        low, high = (middle, high) if is_short else (low, middle)
    return high


def _draw_uniform(stream: int, count: int) -> Floats:
    """Numbers above 0 and below 1; float64[3, count]."""
    bits = mix_bits(np.arange(1, 3 * count + 1, dtype=np.uint64) * np.uint64(GAMMA) + np.uint64(stream))
    uniform: Floats = ((bits >> np.uint64(12)) + 0.5) / 2**52
    return uniform.reshape(3, count)
