"""The settings of a producer that its batches, and the time they waited, show.

A batch is closed when it is full, or when it has waited for linger.ms and its broker can take it. So on the broker that
keeps its batches waiting least, of a batch that was not full: linger.ms is at least the time from its first to its last
record, and at most the time to the record that would have joined it, had it still been open. A batch that shares its
broker with another one whose time is up is sent along early; therefore the value is sought that lies in most of these
intervals, and hardly below any batch's own span.
"""

from dataclasses import dataclass
from statistics import fmean

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.calibration.caveats import Origin
from pipeline.calibration.limits import HALF, LEAST_SAMPLE, MOST_STRAY, USUAL
from pipeline.calibration.partitioner.clients import Bounds, ClientChoice
from pipeline.calibration.partitioner.keyless_bins import LENGTH_BYTES
from pipeline.calibration.partitioner.switch_rules import RuleEvidence, SwitchRule
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic
from pipeline.simulator.clients.client import Compression
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES, ESTIMATION_FACTOR, FIRST_RATIO, update_ratio

DEFAULT_BATCH_BYTES = 16_384


def bound_batch_bytes(batches: SessionBatches, next_bytes: Floats | float) -> Bounds:
    """Bounds `batch.size`; a value where many batches had no room for the next record, if the largest was full.

    `next_bytes` is what the next record of its partition adds to each; batches' sizes are about those the client estimates.
    """
    is_several = batches.record_count > 1
    several, following = batches.size_bytes[is_several], np.broadcast_to(next_bytes, len(batches))[is_several]
    if not len(several):
        return Bounds(None, 0, None, "no batch holds two records")
    largest = int(several.max())
    high = largest + float(np.quantile(following, 1 - MOST_STRAY))
    full = int((several > largest - following).sum())
    below = int((several > largest - 2 * following).sum()) - full
    is_spike = full >= below and HALF * largest >= np.median(following)
    if not is_spike or full < max(LEAST_SAMPLE, MOST_STRAY * len(several)):
        return Bounds(None, largest, None, f"batches reach {largest} bytes, and few come near: they were not full")
    value = next((size for size in (DEFAULT_BATCH_BYTES, *USUAL["batch.size"]) if largest <= size <= high), high)
    reason = f"{full} batches end within a record below {largest} bytes: full"
    return Bounds(float(value), largest, high, reason)


def bound_linger_ms(batches: SessionBatches, traffic: SessionTraffic, *, sticks: bool, full_bytes: float) -> Bounds:
    """Bounds `linger.ms`; a batch from `full_bytes` on counts as full.

    `sticks` says that all records go to one partition at a time: any next record would have joined.
    """
    # the broker whose batches are open for the shortest time, of those with enough
    quickest: dict[int, tuple[float, int]] = {}
    for one in np.unique(batches.leader).tolist():
        spans = (batches.max_ms - batches.base_ms)[batches.leader == one]
        if len(spans) >= LEAST_SAMPLE:
            quickest[one] = float(np.quantile(spans, (1 + HALF) / 2)), -len(spans)
    broker = min(quickest, key=lambda one: quickest[one], default=None)
    if broker is None:
        return Bounds(None, 0, None, f"fewer than {LEAST_SAMPLE} batches on any broker")
    mine = batches.leader == broker
    waits = _measure_waits(batches, traffic, sticks=sticks)[mine]
    # Whole milliseconds: what spans one may last none.
    spans = np.maximum(batches.max_ms - batches.base_ms - 1, 0)[mine].astype(np.float64)
    least = float(np.quantile(spans, (1 + HALF) / 2 if sticks else 1 - MOST_STRAY))
    is_open = (batches.size_bytes[mine] < full_bytes) & (waits >= 0)
    if is_open.sum() < LEAST_SAMPLE:
        return Bounds(None, least, None, f"batches on broker {broker} were full before their time was up")
    low, high, ratio = _find_most_covered(spans[is_open], waits[is_open] + 1.0, least)
    if ratio < HALF:
        return Bounds(None, least, None, f"batches on broker {broker} were open for {least:g} ms or more")
    usual = [value for value in USUAL["linger.ms"] if low <= value < high]
    middle = (low + high) / 2
    nearest = min(usual, key=lambda each: abs(each - middle), default=round(middle))
    value = 0.0 if low == 0 else float(nearest)
    return Bounds(value, low, high, f"{ratio:.0%} of the batches on broker {broker} fit {low:g} to {high:g} ms")


def _find_most_covered(lows: Floats, highs: Floats, least: float) -> tuple[float, float, float]:
    """Where most intervals lie, at `least` or above, and the part of them that lies there."""
    edges = np.unique(np.concatenate([lows, highs, [least]]))
    edges = edges[edges >= least]
    if len(edges) < 2:
        return least, least, 0.0
    middles = (edges[:-1] + edges[1:]) / 2
    covered = np.searchsorted(np.sort(lows), middles, "right") - np.searchsorted(np.sort(highs), middles, "left")
    best = int(covered.argmax())
    far = np.flatnonzero(covered < (1 - 2 * MOST_STRAY) * covered.max())
    first = int(far[far < best].max(initial=-1)) + 1
    end = int(far[far > best].min(initial=len(covered)))
    return float(edges[first]), float(edges[end]), float(covered.max() / len(lows))


def _measure_waits(batches: SessionBatches, traffic: SessionTraffic, *, sticks: bool) -> Ints:
    """From each batch's first record to the first one that did not join it though it might have; -1 where none came."""
    waits = np.full(len(batches), -1, np.int64)
    if sticks:
        keyless = traffic.at_ms[~traffic.is_keyed]
        following = np.searchsorted(keyless, batches.max_ms, "right")
        has_next = following < len(keyless)
        waits[has_next] = keyless[following[has_next]] - batches.base_ms[has_next]
        return waits
    by_partition = np.lexsort((batches.max_ms, batches.base_ms, batches.partition))
    same = np.diff(batches.partition[by_partition]) == 0
    first, second = by_partition[:-1][same], by_partition[1:][same]
    waits[first] = batches.base_ms[second] - batches.base_ms[first]
    return waits


_LIBRDKAFKA_BATCH_BYTES = 1_000_000


@dataclass(frozen=True)
class Setting:
    """A setting of the producer and the bounds the data give; of one that is not known what the simulation takes."""

    value: str
    source: Origin
    low: float | None = None
    high: float | None = None


def measure_compression(traffic: SessionTraffic, batches: SessionBatches) -> Compression | None:
    """Measures the codec's ratio for this traffic; None without a codec.

    What records of a batch have in common is stored once, so small batches compress less: a batch takes so many bytes, and
    so many for each byte of its records. Least squares over the batches, each weighed by 1 over its bytes: a few full ones
    do not bend the line, and all batches together take as much as recorded. Batches that the cleaner emptied tell nothing.
    """
    if batches.codec == "none" or not len(traffic) or not len(batches):
        return None
    stored, plain = batches.size_bytes - BATCH_HEADER_BYTES, measure_plain(traffic, batches)
    stored, plain = stored[plain > 0], plain[plain > 0]
    if not len(plain):
        return None
    ratio, overhead_bytes = 0.0, 0
    if np.ptp(plain):
        ratio, overhead = np.polyfit(plain, stored, 1, w=1 / np.sqrt(plain))
        overhead_bytes = round(overhead)
    if ratio <= 0 or overhead_bytes < 0:
        ratio, overhead_bytes = float(stored.sum() / plain.sum()), 0
    return Compression(max(1, round(1_000_000 * ratio)), overhead_bytes)


def measure_plain(traffic: SessionTraffic, batches: SessionBatches) -> Floats:
    """Bytes of each batch's records before compression; by their number where not all records are known."""
    plain: Floats = batches.record_count * (traffic.body_bytes.mean() + LENGTH_BYTES)
    if ordered := _order_bodies(traffic, batches):
        of_batch, starts, bodies = ordered
        plain[of_batch] = np.add.reduceat(bodies, starts)
    return plain


def measure_next(traffic: SessionTraffic, batches: SessionBatches, record_bytes: float) -> Floats:
    """Bytes that the next record of its partition would have added to each batch; `record_bytes` where it is not known."""
    following = np.full(len(batches), record_bytes)
    if ordered := _order_bodies(traffic, batches):
        of_batch, starts, bodies = ordered
        has_next = np.diff(batches.partition[of_batch]) == 0
        following[of_batch[:-1][has_next]] = bodies[starts[1:][has_next]]
    return following


def _order_bodies(traffic: SessionTraffic, batches: SessionBatches) -> tuple[Ints, Ints, Floats] | None:
    """Batches by partition and time, where the records of each begin, and these records' bytes; None if some are not known."""
    of_record = np.lexsort((traffic.elapsed_ms, traffic.partition))
    of_batch = np.lexsort((batches.base_ms, batches.partition))
    counts = batches.record_count[of_batch]
    # batches of which no arrival is kept may count millions of records each
    are_known = len(counts) > 0 and counts.min() > 0 and counts.sum() == len(traffic)
    if are_known and np.array_equal(np.repeat(batches.partition[of_batch], counts), traffic.partition[of_record]):
        return of_batch, np.cumsum(counts) - counts, traffic.body_bytes[of_record].astype(np.float64) + LENGTH_BYTES
    return None


def estimate_ratio(traffic: SessionTraffic, batches: SessionBatches) -> float:
    """The compression ratio that the Java client assumes while it fills a batch, on average; 1 without a codec.

    The client raises it at once after a batch that compresses worse, and lowers it slowly after one that compresses better.

    References:
        Kafka `CompressionRatioEstimator`.
    """
    if batches.codec == "none" or not len(traffic) or not len(batches):
        return 1.0
    ratio, ratios, plain = FIRST_RATIO, list[float](), measure_plain(traffic, batches)
    for observed in (batches.size_bytes - BATCH_HEADER_BYTES)[plain > 0] / plain[plain > 0]:
        ratio = update_ratio(ratio, observed)
        ratios.append(float(ratio))
    return float(ESTIMATION_FACTOR) * fmean(ratios or [ratio])


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
    if len(batches.commits_ms) and choice.client in (JAVA, LIBRDKAFKA):
        settings["transactional.id"] = Setting("in the log", Origin.INFERRED)
    if batches.codec != "none":
        settings["compression.type"] = Setting(batches.codec, Origin.INFERRED)
    if rule is SwitchRule.TIME and evidence and choice.client == LIBRDKAFKA:
        # it keeps a partition for twice linger.ms unless configured otherwise
        limit_ms, half_ms = evidence.limit_ms, evidence.limit_ms / 2
        if linger.low <= half_ms < linger.most:
            source = Origin.DEFAULT if half_ms == choice.linger_ms else Origin.INFERRED
            settings["linger.ms"] = Setting(f"{half_ms:g}", source, linger.low, linger.high)
        else:
            settings["sticky.partitioning.linger.ms"] = Setting(str(limit_ms), Origin.INFERRED, limit_ms, limit_ms)
    return settings


def _infer_linger(choice: ClientChoice, bounds: Bounds) -> Setting:
    if bounds.low <= choice.linger_ms < bounds.most:
        return Setting(f"{choice.linger_ms:g}", Origin.DEFAULT, bounds.low, bounds.high)
    if bounds.value is not None:
        return Setting(f"{bounds.value:g}", Origin.INFERRED, bounds.low, bounds.high)
    value = min((usual for usual in USUAL["linger.ms"] if usual >= bounds.low), default=bounds.low)
    return Setting(f"{value:g}", Origin.UNKNOWN, bounds.low, bounds.high)


def _infer_batch_size(choice: ClientChoice, bounds: Bounds, limit_bytes: int | None) -> Setting:
    usual = DEFAULT_BATCH_BYTES if choice.client == JAVA else _LIBRDKAFKA_BATCH_BYTES
    # Where bursts lie within a millisecond, changes of partition cannot be distinguished; batches that were full still can.
    if limit_bytes is not None and (bounds.value is None or bounds.low <= limit_bytes <= bounds.most):
        value = float(limit_bytes)
    elif bounds.value is not None:
        value = bounds.value
    elif bounds.low > usual:
        value = float(min((size for size in USUAL["batch.size"] if size >= bounds.low), default=bounds.low))
    else:
        value = float(usual)
    return Setting(f"{value:.0f}", Origin.DEFAULT if value == usual else Origin.INFERRED, bounds.low, bounds.high)
