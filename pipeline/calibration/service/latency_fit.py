"""Finds delays that metrics leave open: simulates the current setup until requests take as long as recorded.

With metrics the mean latency of requests decides: it rises with the delay, whatever the load. Without, the records per
batch and the share of each broker do (`batch_fit`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.service.batch_fit import fit_batches
from pipeline.calibration.service.fit import (
    ALONE,
    LEAST_DELAY_MS,
    SATURATED,
    NodeMetrics,
    SettledLatency,
    settle_latencies,
)
from pipeline.calibration.service.follow import fit_spans
from pipeline.calibration.service.model import (
    LATENCY_ERROR,
    LATENCY_ERROR_MS,
    SAME_LEVEL,
    Parameter,
    ServiceModel,
    found_delay,
)
from pipeline.calibration.service.trial import SessionTopic, cut_beginning, simulate_delay
from pipeline.calibration.within_ms import Pattern, choose_pattern

_LEAST_CHANGE_MS = 2.0  # brokers without a delay differ by as much from minute to minute
_STEPS = 7


def needs_trial(model: ServiceModel, *, is_bursty: bool = False) -> bool:
    """Whether a simulation may determine the delay better than the metrics did.

    In bursts requests wait for one another, however idle the connection is on average.
    """
    if _is_unknown(model) or model.is_followed:
        return True
    is_open = model.delay_ms.source == Origin.INFERRED or (is_bursty and model.delay_ms.source == Origin.MEASURED)
    return is_open and model.delay_ms.value >= LEAST_DELAY_MS


def _is_unknown(model: ServiceModel) -> bool:
    """No metrics show the delay, or they are mostly of the minute before."""
    return model.delay_ms.source == Origin.ASSUMED or not model.is_settled


def sharpen_services(
    topics: Sequence[SessionTopic],
    models: Mapping[int, ServiceModel],
    nodes: Sequence[NodeMetrics],
    start_ms: int,
    end_ms: int,
    *,
    spans: Sequence[NodeMetrics] = (),
) -> dict[int, ServiceModel]:
    """Simulates a minute of the current setup to find the delays that metrics leave open; else models say why not.

    `topics` are of one session in a window of epoch milliseconds, the one with most records first; `models`, of all
    brokers, as `fit_services` gives them for the metrics of `nodes`, of which there may be none; `spans` are those
    between scrapes, which delays that are followed hold.
    """
    if not any(len(topic.traffic) for topic in topics):
        return dict(models)
    fitted = fit_spans(topics, models, spans, end_ms)
    latencies = {own: settle_latencies(nodes, own, start_ms, end_ms) for own in models}
    doubtful = _list_doubtful(topics, models, nodes)
    for broker_id, model in sorted(models.items(), key=lambda item: (item[0] not in doubtful, -item[1].delay_ms.value)):
        is_open = needs_trial(model) and not _is_unknown(model) and not model.is_followed
        if is_open or broker_id in doubtful:
            fitted[broker_id] = _Trials(topics, fitted, broker_id, latencies[broker_id]).fit_usual_level()
    for broker_id in fitted:
        fitted[broker_id] = _Trials(topics, fitted, broker_id, latencies[broker_id]).fit_other_level()
    unknown = [own for own, model in fitted.items() if _is_unknown(model)]
    return fit_batches(topics, fitted, unknown, start_ms, end_ms) if unknown else fitted


def _list_doubtful(
    topics: Sequence[SessionTopic], models: Mapping[int, ServiceModel], nodes: Sequence[NodeMetrics]
) -> set[int]:
    """Brokers whose connection is idle on average, while bursts make requests wait for one another."""
    if all(choose_pattern(topic.traffic.elapsed_ms) is not Pattern.BURST for topic in topics):
        return set()
    idle = {node.broker_id for node in nodes if node.under_way <= ALONE}
    return {
        broker_id
        for broker_id, model in models.items()
        if broker_id in idle
        and not model.is_followed
        and model.delay_ms.source == Origin.MEASURED
        and model.delay_ms.value >= LEAST_DELAY_MS
    }


@dataclass(frozen=True)
class _Trials:
    """Trials for the delay of one broker, given its latencies within the window."""

    topics: Sequence[SessionTopic]
    models: Mapping[int, ServiceModel]
    broker_id: int
    latencies: Sequence[SettledLatency]

    @property
    def model(self) -> ServiceModel:
        return self.models[self.broker_id]

    def fit_usual_level(self) -> ServiceModel:
        """The delay of most minutes; the series keeps its shape and takes the level found."""
        model = self.model
        latency = self._choose_minute(model.delay_ms.value)
        delay = self._match(latency, model.delay_ms.high) if latency else None
        if delay is None:
            return model
        factor = delay.value / model.delay_ms.value
        series = tuple(
            (at_ms, value * factor if value >= LEAST_DELAY_MS else value) for at_ms, value in model.delay_series
        )
        kept = tuple(statement for statement in model.assumptions if statement.kind is not Caveat.PARTLY_BUSY)
        model = replace(model, delay_ms=delay, delay_series=series, assumptions=kept)
        return model.noting(Caveat.SIMULATED_LATENCY.say(broker=self.broker_id, low=delay.low, high=delay.high))

    def fit_other_level(self) -> ServiceModel:
        """A broker that is slow for some minutes only: those minutes' delay, where the metrics leave it open."""
        model, usual_ms = self.model, self.model.delay_ms.value
        level_ms = max((delay_ms for _, delay_ms in model.delay_series), default=0.0)
        if model.is_followed or level_ms - usual_ms <= max(_LEAST_CHANGE_MS, SAME_LEVEL * level_ms):
            return model
        latency = self._choose_minute(level_ms)
        if latency is None or not self._is_open(latency):
            return model
        delay = self._match(latency, level_ms)
        if delay is None:
            return model
        factor = (delay.value - usual_ms) / (level_ms - usual_ms)  # what is between the two levels stays between
        series = tuple((at_ms, max(0.0, usual_ms + (each - usual_ms) * factor)) for at_ms, each in model.delay_series)
        caveat = Caveat.PARTLY_SLOW.say(broker=self.broker_id, low=delay.low, high=delay.high)
        return replace(model.noting(caveat), delay_series=series)

    @staticmethod
    def _is_open(latency: SettledLatency) -> bool:
        return ALONE < (latency.node.request_rate_per_s or 0.0) * latency.own_ms / 1000 < SATURATED

    def _choose_minute(self, level_ms: float) -> SettledLatency | None:
        """The minute in which the delay was such and had been before."""
        delays = dict(self.model.delay_series)

        def rank(latency: SettledLatency) -> tuple[bool, bool, bool, int]:
            node = latency.node
            before_ms = delays.get(2 * node.start_ms - node.end_ms, level_ms)
            is_other = abs(delays.get(node.start_ms, level_ms) - level_ms) > SAME_LEVEL * max(level_ms, LEAST_DELAY_MS)
            return (is_other, not latency.is_settled, abs(before_ms - level_ms) > SAME_LEVEL * level_ms, node.start_ms)

        return min(self.latencies, key=rank, default=None)

    def _match(self, latency: SettledLatency, most_ms: float) -> Parameter | None:
        """The delay, hardly above `most_ms`, under which requests take as long as they did; None where none does."""
        cut = cut_beginning(self.topics, latency.node.start_ms, latency.node.end_ms)
        if not cut:
            return None
        number = list(self.models).index(self.broker_id)

        def simulate_ms(delay_ms: float) -> float:
            runs = simulate_delay(cut, self.models, self.broker_id, delay_ms)
            known = [run.latency_ms[number] for run in runs if not np.isnan(run.latency_ms[number])]
            return float(np.mean(known)) if known else 0.0

        own_ms = latency.own_ms
        low, high = 0.0, max(2.0, min(2 * most_ms, own_ms + 1.0))
        error_ms = LATENCY_ERROR * own_ms + LATENCY_ERROR_MS
        if simulate_ms(low) >= own_ms - error_ms:
            return Parameter(0.0, 0.0, error_ms, Origin.MEASURED)
        if simulate_ms(high) < own_ms:
            return None
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if simulate_ms(middle) < own_ms else (low, middle)
        value = (low + high) / 2
        # How far the delay moves where the latency is off by what it may be.
        least = max(value - 1.0, 0.0)
        slope = max((simulate_ms(value + 1.0) - simulate_ms(least)) / (value + 1.0 - least), 0.5)
        return found_delay(value, error_ms / slope)
