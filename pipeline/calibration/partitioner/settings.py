"""The settings of a producer that its batches, and the time they waited, show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.calibration.caveats import Origin
from pipeline.calibration.partitioner.bounds import DEFAULT_BATCH_BYTES, USUAL_BATCH_BYTES, USUAL_LINGERS_MS, Bounds
from pipeline.calibration.partitioner.keyless_bins import LENGTH_BYTES
from pipeline.calibration.partitioner.switch_rules import RuleEvidence, SwitchRule
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES

if TYPE_CHECKING:
    from pipeline.calibration.partitioner.baseline import Baseline
    from pipeline.calibration.partitioner.clients import ClientChoice
    from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic

_LIBRDKAFKA_BATCH_BYTES = 1_000_000
MOST_UNDER_WAY = 3.0
"""Requests under way to a broker on average, above which batches wait for their turn, too."""
NEW_DEFAULT_MS = 5.0
"""Default of `linger.ms` since Kafka 4.0 (KIP-1030)."""
_NEW_VERSION, _NEW_RANGE = "4.1.1", "4.0 or later, or linger.ms set"
_TOLERANCE_MS = 0.3


@dataclass(frozen=True)
class Setting:
    """A setting of the producer: `CONFIGURED`, `INFERRED` or `DEFAULT`, with the bounds the data give."""

    value: str
    source: Origin
    low: float | None = None
    high: float | None = None


def measure_compression(traffic: SessionTraffic, batches: SessionBatches) -> Compression | None:
    """What the codec did to this traffic, or None without one.

    What records of a batch have in common is stored once, so small batches compress less: a batch takes so many bytes, and
    so many for each byte of its records; by least squares over the batches.
    """
    plain = int(traffic.body_bytes.sum(dtype="int64")) + LENGTH_BYTES * len(traffic)
    if batches.codec == "none" or not plain or not len(batches):
        return None
    stored = batches.size_bytes - BATCH_HEADER_BYTES
    sizes = batches.record_count * (plain / len(traffic))
    spread = sizes - sizes.mean()
    squares = float((spread**2).sum())
    ratio = float((spread * stored).sum()) / squares if squares else 0.0
    overhead_bytes = round(float(stored.mean() - ratio * sizes.mean()))
    if ratio <= 0 or overhead_bytes < 0:
        ratio, overhead_bytes = float(stored.sum()) / plain, 0
    return Compression(max(1, round(1_000_000 * ratio)), overhead_bytes)


def infer_settings(
    choice: ClientChoice,
    traffic: SessionTraffic,
    batches: SessionBatches,
    *,
    linger: Bounds,
    batch_bytes: Bounds,
    rule: SwitchRule | None,
    evidence: RuleEvidence | None,
) -> dict[str, Setting]:
    """Settings that the data show, and the client's defaults where they do not."""
    limit_bytes = evidence.limit_bytes if evidence and rule is SwitchRule.BYTES else None
    settings = {
        "linger.ms": _infer_linger(choice, linger),
        "batch.size": _infer_batch_size(choice, batch_bytes, limit_bytes),
    }
    is_idempotent = not traffic.is_pooled
    if is_idempotent != choice.is_idempotent:
        settings["enable.idempotence"] = Setting(str(is_idempotent).lower(), Origin.INFERRED)
    if batches.codec != "none":
        settings["compression.type"] = Setting(batches.codec, Origin.INFERRED)
    if rule is SwitchRule.TIME and evidence and choice.client == LIBRDKAFKA:
        settings |= _infer_sticky(choice, linger, evidence.limit_ms)
    return settings


def _infer_sticky(choice: ClientChoice, linger: Bounds, limit_ms: int) -> dict[str, Setting]:
    """Librdkafka keeps a partition for twice linger.ms unless configured otherwise."""
    half_ms = limit_ms / 2
    if linger.low <= half_ms < linger.most:
        source = Origin.DEFAULT if half_ms == choice.linger_ms else Origin.INFERRED
        return {"linger.ms": Setting(f"{half_ms:g}", source, linger.low, linger.high)}
    return {"sticky.partitioning.linger.ms": Setting(str(limit_ms), Origin.INFERRED, limit_ms, limit_ms)}


def _infer_linger(choice: ClientChoice, bounds: Bounds) -> Setting:
    if bounds.low <= choice.linger_ms < bounds.most:
        return Setting(f"{choice.linger_ms:g}", Origin.DEFAULT, bounds.low, bounds.high)
    value = bounds.value
    if value is None:
        value = min((usual for usual in USUAL_LINGERS_MS if usual >= bounds.low), default=bounds.low)
    return Setting(f"{value:g}", Origin.INFERRED, bounds.low, bounds.high)


def _infer_batch_size(choice: ClientChoice, bounds: Bounds, limit_bytes: int | None) -> Setting:
    usual = DEFAULT_BATCH_BYTES if choice.client == JAVA else _LIBRDKAFKA_BATCH_BYTES
    # Where bursts lie within a millisecond, changes of partition cannot be distinguished; batches that were full still can.
    if limit_bytes is not None and (bounds.value is None or bounds.low <= limit_bytes <= bounds.most):
        value = float(limit_bytes)
    elif bounds.value is not None:
        value = bounds.value
    elif bounds.low > usual:
        value = float(min((size for size in USUAL_BATCH_BYTES if size >= bounds.low), default=bounds.low))
    else:
        value = float(usual)
    return Setting(f"{value:.0f}", Origin.DEFAULT if value == usual else Origin.INFERRED, bounds.low, bounds.high)


def settle_linger(baseline: Baseline, queue_time_ms: float | None, under_way: float | None) -> Baseline:
    """Takes 4.0's default of 5 ms where batches leave `linger.ms` open between that and none, and they waited as long.

    Records in bursts, or few of them, share a batch with and without `linger.ms`: the log looks the same. The batches'
    wait in the producer does not. Without linger a batch waits only while five requests to its broker are under way.

    Args:
        baseline: What batches show.
        queue_time_ms: Mean wait of the session's batches, or None.
        under_way: The most requests under way to one broker, on average, or None.

    Returns:
        The baseline, unchanged where it is configured, of another client, or the wait says nothing.

    References:
        Kafka `ProducerMetrics`, `record-queue-time-avg`: from a batch's creation until it is drained, a mean over batches.
    """
    linger = baseline.settings.get("linger.ms")
    if linger is None or (baseline.client, baseline.source, linger.source) != (JAVA, Origin.INFERRED, Origin.DEFAULT):
        return baseline
    if queue_time_ms is None or under_way is None or under_way >= MOST_UNDER_WAY:
        return baseline
    is_open = (linger.low or 0.0) <= NEW_DEFAULT_MS and (linger.high is None or linger.high > NEW_DEFAULT_MS)
    if float(linger.value) != 0 or not is_open or queue_time_ms < NEW_DEFAULT_MS - _TOLERANCE_MS:
        return baseline
    waited = f"batches waited {queue_time_ms:.1f} ms in the producer: linger.ms is {NEW_DEFAULT_MS:g}, not 0"
    changed = replace(linger, value=f"{NEW_DEFAULT_MS:g}")
    settled = replace(baseline, reason="; ".join(text for text in (baseline.reason, waited) if text))
    if baseline.strategy is not None and baseline.strategy.startswith("java-builtin"):
        settled = replace(settled, version=_NEW_VERSION, version_range=_NEW_RANGE)
    else:  # an old client has no such default: it was set
        changed = replace(changed, source=Origin.INFERRED)
    return replace(settled, settings={**baseline.settings, "linger.ms": changed})
