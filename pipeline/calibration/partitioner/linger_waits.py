"""Corrects `linger.ms` by what a producer's batches waited for."""

import math
from dataclasses import dataclass, replace

from pipeline.calibration.caveats import Origin
from pipeline.calibration.limits import HALF, LATENCY_ERROR_MS, MOST_IN_FLIGHT, USUAL
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.clients import rule_of
from pipeline.calibration.partitioner.settings import Setting
from pipeline.calibration.partitioner.switch_rules import SwitchRule
from pipeline.simulator.clients.producer_configs import JAVA, find_config

_MOST_UNDER_WAY = HALF * MOST_IN_FLIGHT  # from there on batches wait for their turn, too
NEW_DEFAULT_MS = 5.0  # default of `linger.ms` since Kafka 4.0 (KIP-1030)
_NEW_VERSION, _NEW_RANGE = "4.1.1", "4.0 or later, or linger.ms set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Reasons for a producer's mean batch wait, from its metrics; None where they show none."""

    queue_time_ms: float | None = None  # in the producer
    under_way: float | None = None  # requests, to the busiest broker
    least_under_way: float | None = None  # to the idlest broker
    least_latency_ms: float | None = None  # a request to the quickest broker

    def may_be_for_brokers(self, linger_ms: float) -> bool:
        """Whether even the quickest broker takes as long for a request as batches would wait for `linger.ms`."""
        return self.least_latency_ms is not None and self.least_latency_ms >= linger_ms


def settle_linger(baseline: Baseline, waiting: Waiting) -> Baseline:
    """Corrects `linger.ms` by why batches waited; a baseline that is configured, or of another client, stays as it is."""
    linger = baseline.settings.get("linger.ms")
    if linger is None or (baseline.client, baseline.source) != (JAVA, Origin.INFERRED):
        return baseline
    if linger.source == Origin.DEFAULT:
        return _take_wait(baseline, linger, waiting)
    return baseline if waiting.least_under_way is None else _judge_wait(baseline, linger, waiting)


def _judge_wait(baseline: Baseline, linger: Setting, waiting: Waiting) -> Baseline:
    """Batches that were open for long waited for `linger.ms` where some broker could take them at once; else for brokers."""
    is_idle = waiting.least_under_way is not None and waiting.least_under_way < _MOST_UNDER_WAY
    if is_idle and not waiting.may_be_for_brokers(float(linger.value)):
        changed = replace(linger, source=Origin.INFERRED)
    else:
        default = find_config(JAVA, baseline.version, "linger.ms").default or "0"
        changed = replace(linger, value=default, source=Origin.UNKNOWN, low=0.0)
    return _with_linger(baseline, changed)


def _take_wait(baseline: Baseline, linger: Setting, waiting: Waiting) -> Baseline:
    """Takes what batches waited for `linger.ms` where their shapes leave it open, such as 4.0's default of 5 ms.

    Records in bursts, or few of them, share a batch with and without `linger.ms`: the log looks the same. The batches'
    mean wait in the producer does not. Without linger a batch waits only while five requests to its broker are under way.
    Where brokers may be what batches waited for, `linger.ms` is not known.

    References:
        Kafka `ProducerMetrics`, `record-queue-time-avg`: from a batch's creation until it is drained, a mean over batches.
    """
    queue_time_ms, under_way = waiting.queue_time_ms, waiting.under_way
    if queue_time_ms is None or under_way is None or under_way >= _MOST_UNDER_WAY or float(linger.value) != 0:
        return baseline
    low, high = linger.low or 0.0, math.inf if linger.high is None else linger.high
    fitting = (
        usual for usual in USUAL["linger.ms"] if low <= usual < high and usual <= queue_time_ms + LATENCY_ERROR_MS
    )
    waited_ms = max(fitting, default=0)
    if waited_ms < NEW_DEFAULT_MS:
        return baseline
    if waiting.may_be_for_brokers(waited_ms) or queue_time_ms > (1 + HALF) * waited_ms:
        return _with_linger(baseline, replace(linger, source=Origin.UNKNOWN))
    waited = f"batches waited {queue_time_ms:.1f} ms in the producer: linger.ms is {waited_ms}, not 0"
    changed = replace(linger, value=str(waited_ms))
    settled = replace(baseline, reason="; ".join(text for text in (baseline.reason, waited) if text))
    switches_by_bytes = baseline.strategy is not None and rule_of(baseline.strategy) is SwitchRule.BYTES
    if switches_by_bytes and waited_ms == NEW_DEFAULT_MS and not baseline.is_told:
        settled = replace(settled, version=_NEW_VERSION, version_range=_NEW_RANGE)
    else:  # no client has such a default: it was set
        changed = replace(changed, source=Origin.INFERRED)
    return _with_linger(settled, changed)


def _with_linger(baseline: Baseline, linger: Setting) -> Baseline:
    return replace(baseline, settings={**baseline.settings, "linger.ms": linger})
