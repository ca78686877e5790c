"""The settings of a producer that its batches tell of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration.batching import DEFAULT_BATCH_BYTES, USUAL_BATCH_BYTES, USUAL_LINGERS_MS, Bounds
from pipeline.calibration.rules import Rule, RuleEvidence
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES

if TYPE_CHECKING:
    from pipeline.calibration.batches import SessionBatches
    from pipeline.calibration.in_use import Choice
    from pipeline.calibration.session_traffic import SessionTraffic

CONFIGURED, INFERRED, DEFAULT = "configured", "inferred", "default"
_LIBRDKAFKA_BATCH_BYTES = 1_000_000
_LENGTH_BYTES = 2


@dataclass(frozen=True)
class Setting:
    """A setting of the producer.

    Attributes:
        value: By Kafka's spelling.
        source: `configured`, `inferred` or `default`.
        low: Where inferred: it is hardly less.
        high: It is hardly more; None where nothing bounds it.
    """

    value: str
    source: str
    low: float | None = None
    high: float | None = None


def measure_compression(traffic: SessionTraffic, batches: SessionBatches) -> Compression | None:
    """What the codec did to this traffic, or None without one.

    What records of a batch have in common is stored once, so small batches compress less: a batch takes so many bytes, and
    so many for each byte of its records; by least squares over the batches.
    """
    plain = int((traffic.body_bytes.astype(np.int64) + _LENGTH_BYTES).sum())
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
    choice: Choice,
    traffic: SessionTraffic,
    batches: SessionBatches,
    *,
    linger: Bounds,
    batch_bytes: Bounds,
    rule: Rule | None,
    evidence: RuleEvidence | None,
) -> dict[str, Setting]:
    """Settings that the data tell, and the defaults that go with the client where they do not.

    Args:
        choice: The client.
        traffic: The session's records.
        batches: And batches.
        linger: Bounds on `linger.ms`.
        batch_bytes: And on `batch.size`.
        rule: How partitions change, where known.
        evidence: The limits that go with it.
    """
    limit_bytes = evidence.limit_bytes if evidence and rule is Rule.BYTES else None
    settings = {
        "linger.ms": _infer_linger(choice, linger),
        "batch.size": _infer_batch_size(choice, batch_bytes, limit_bytes),
    }
    is_idempotent = not traffic.is_pooled
    if is_idempotent != choice.is_idempotent:
        settings["enable.idempotence"] = Setting(str(is_idempotent).lower(), INFERRED)
    if batches.codec != "none":
        settings["compression.type"] = Setting(batches.codec, INFERRED)
    if rule is Rule.TIME and evidence and choice.client == LIBRDKAFKA:
        settings |= _infer_sticky(choice, linger, evidence.limit_ms)
    return settings


def _infer_sticky(choice: Choice, linger: Bounds, limit_ms: int) -> dict[str, Setting]:
    """Librdkafka keeps a partition for twice linger.ms unless told otherwise."""
    half_ms = limit_ms / 2
    if linger.low <= half_ms < (float("inf") if linger.high is None else linger.high):
        source = DEFAULT if half_ms == choice.linger_ms else INFERRED
        return {"linger.ms": Setting(f"{half_ms:g}", source, linger.low, linger.high)}
    return {"sticky.partitioning.linger.ms": Setting(str(limit_ms), INFERRED, limit_ms, limit_ms)}


def _infer_linger(choice: Choice, bounds: Bounds) -> Setting:
    low, high = bounds.low, bounds.high
    if low <= choice.linger_ms < (float("inf") if high is None else high):
        return Setting(f"{choice.linger_ms:g}", DEFAULT, low, high)
    if bounds.value is None:
        least = min((value for value in USUAL_LINGERS_MS if value >= low), default=low)
        return Setting(f"{least:g}", INFERRED, low, high)
    return Setting(f"{bounds.value:g}", INFERRED, low, high)


def _infer_batch_size(choice: Choice, bounds: Bounds, limit_bytes: int | None) -> Setting:
    usual = DEFAULT_BATCH_BYTES if choice.client == JAVA else _LIBRDKAFKA_BATCH_BYTES
    low, high = bounds.low, bounds.high
    is_within = limit_bytes is not None and low <= limit_bytes <= (float("inf") if high is None else high)
    # Where bursts lie within a millisecond, runs cannot be told apart; batches that were full still can.
    if limit_bytes is not None and (is_within or bounds.value is None):
        value = float(limit_bytes)
    elif bounds.value is not None:
        value = bounds.value
    elif low > usual:
        value = float(min((size for size in USUAL_BATCH_BYTES if size >= low), default=low))
    else:
        value = float(usual)
    return Setting(f"{value:.0f}", DEFAULT if value == usual else INFERRED, low, high)
