"""`linger.ms` where batches leave it open: what the producer says of the time its batches waited.

Records in bursts, or few of them, share a batch with and without `linger.ms`: the log looks the same. The batches' wait in
the producer does not. Without linger a batch waits only while five requests to its broker are under way.

References:
    Kafka `ProducerMetrics`, `record-queue-time-avg`: from a batch's creation until it is drained, a mean over batches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.calibration.settings import DEFAULT, INFERRED
from pipeline.simulator.clients.producer_configs import JAVA

if TYPE_CHECKING:
    from pipeline.calibration.baseline import Baseline

MOST_UNDER_WAY = 3.0
"""Requests under way to a broker on average, above which batches wait for their turn, too."""
NEW_DEFAULT_MS = 5.0
_NEW_VERSION, _NEW_RANGE = "4.1.1", "4.0 or later, or linger.ms set"
_TOLERANCE_MS = 0.3


def settle_linger(baseline: Baseline, queue_time_ms: float | None, under_way: float | None) -> Baseline:
    """Takes 4.0's default of 5 ms where batches leave `linger.ms` open between that and none, and they waited as long.

    Args:
        baseline: What batches tell.
        queue_time_ms: Mean wait of the session's batches, or None.
        under_way: The most requests under way to one broker, on average, or None.

    Returns:
        The baseline, unchanged where it is configured, of another client, or the wait says nothing.
    """
    linger = baseline.settings.get("linger.ms")
    if linger is None or baseline.client != JAVA or baseline.source != INFERRED or linger.source != DEFAULT:
        return baseline
    if queue_time_ms is None or under_way is None or under_way >= MOST_UNDER_WAY:
        return baseline
    is_open = (linger.low or 0.0) <= NEW_DEFAULT_MS and (linger.high is None or linger.high > NEW_DEFAULT_MS)
    if float(linger.value) != 0 or not is_open or queue_time_ms < NEW_DEFAULT_MS - _TOLERANCE_MS:
        return baseline
    told = f"batches waited {queue_time_ms:.1f} ms in the producer: linger.ms is {NEW_DEFAULT_MS:g}, not 0"
    waits = replace(linger, value=f"{NEW_DEFAULT_MS:g}")
    reason = "; ".join(text for text in (baseline.reason, told) if text)
    if baseline.strategy is None or not baseline.strategy.startswith("java-builtin"):
        settings = {**baseline.settings, "linger.ms": replace(waits, source=INFERRED)}
        return replace(baseline, settings=settings, reason=reason)
    return replace(
        baseline,
        version=_NEW_VERSION,
        version_range=_NEW_RANGE,
        settings={**baseline.settings, "linger.ms": waits},
        reason=reason,
    )
