"""One topic in one window: how uneven its partitions are, what chance gives, how many partitions it should have.

For many partitions, or where a few units weigh as much as all others, the normal tail is too light: there the units are
really placed (Efron, Tibshirani: An Introduction to the Bootstrap, chapter 6; docs/MEASURES.md).
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from pipeline.arrays import Floats
from pipeline.measures.chance import CHANCE_LEVEL, chance_cv, required_units

ROUNDS = 1_000
_MOST_LOADS = 2_000_000  # that are placed at one time, of a topic of however many partitions


def advise_partition_count(
    partition_count: int, *, broker_count: int, consumer_count: int = 0, is_keyed: bool = False
) -> tuple[int | None, str]:
    """Next count that is a multiple of the brokers, and if near of the consumers, and why; None if none is better."""
    if partition_count <= 1 or broker_count < 1:
        return None, ""
    least = max(partition_count, consumer_count)
    both = math.lcm(broker_count, max(1, consumer_count))
    multiples = (-(-least // divisor) * divisor for divisor in (both, broker_count))
    count = next((multiple for multiple in multiples if multiple <= 2 * least), partition_count)
    why = []
    if partition_count % broker_count:
        why.append(f"{partition_count} partitions do not divide evenly over {broker_count} brokers")
    if partition_count < consumer_count:
        why.append(f"{consumer_count - partition_count} of {consumer_count} consumers have nothing to read")
    elif consumer_count and partition_count % consumer_count:
        why.append(f"some of {consumer_count} consumers read more partitions than others")
    if not why or count == partition_count:
        return None, ""
    kept = min(partition_count, count) / math.lcm(partition_count, count)  # `hash mod P` is `hash mod P'` for so many
    moved = f"; {1 - kept:.0%} of the keys would move" if is_keyed else ""
    return count, f"{', '.join(why)}: {count} would{moved}"


NORMAL_UP_TO = 50  # partitions from which on the normal tail is too light
HEAVY_UNIT = 0.01  # a unit this large a part of the topic is placed by itself
PEAK_EXCESS = 0.2
SURELY_CHANCE = 0.05
"""Chance of a peak, by a tail that is too light, from which on none is placed to find the true one: it is larger still, and
far from any level that counts."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounts:
    partition_count: int  # partitions
    record_count: int
    peak_to_mean: float | None  # largest over mean partition, by bytes; None without traffic
    batch_unit_count: float | None  # effective number of batches; None without traffic
    keyed_ratio: float  # part of the bytes whose key has a name, 0..1
    effective_key_count: float | None  # None where keys are not known
    top_key_ratio: float | None
    broker_count: int  # brokers that may lead partitions
    consumer_count: int  # members of its largest consumer group; 0 where none is known
    seed: int  # from `derive_window_seed`
    may_have_keys: bool = False  # some records have one, or nobody stored whether
    has_fixed_count: bool = False  # more partitions would break its use


def measure_topic(topic: TopicCounts) -> dict[str, Any]:
    """Columns of `gold.topic_health` that follow from the counts."""
    count = topic.partition_count
    # the luck of keys is real and lasts, and is no fault of the partitioner
    by_key = topic.keyed_ratio >= 0.5 and topic.effective_key_count is not None
    units = topic.effective_key_count if by_key else topic.batch_unit_count
    peak, p_value, method = _chance_of_peak(topic, units, by_key=by_key)
    brokers, consumers = 0 if topic.has_fixed_count else topic.broker_count, topic.consumer_count
    advised, reason = advise_partition_count(
        count, broker_count=brokers, consumer_count=consumers, is_keyed=topic.may_have_keys
    )

    def cv_of(unit_count: float | None) -> float | None:
        return chance_cv(count, unit_count) if unit_count else None

    return {
        "placement": "keys" if by_key else "batches",
        "unit_count": units,
        "required_unit_count": required_units(count, PEAK_EXCESS, CHANCE_LEVEL) if count > 1 else None,
        "record_chance_cv": cv_of(topic.record_count),
        "batch_chance_cv": cv_of(topic.batch_unit_count),
        "key_chance_cv": cv_of(topic.effective_key_count),
        "chance_peak_to_mean": peak,
        "peak_p_value": p_value,
        "chance_method": method,
        "best_peak_to_mean": None if topic.top_key_ratio is None else best_peak_to_mean(count, topic.top_key_ratio),
        "advised_partition_count": advised,
        "advice": reason,
    }


def _chance_of_peak(topic: TopicCounts, units: float | None, *, by_key: bool) -> tuple[float | None, float | None, str]:
    """Peak that chance exceeds once in a thousand windows, chance of the peak found, and how they were found."""
    count, peak = topic.partition_count, topic.peak_to_mean
    if not units or peak is None or count < 2:
        return None, None, "normal"
    bound, p_value = normal_peak(count, units), normal_peak_p_value(peak, count, units)
    heavy = topic.top_key_ratio if by_key and topic.top_key_ratio and topic.top_key_ratio > HEAVY_UNIT else None
    # Beside a heavy unit the others' luck can be rare, yet little of the whole.
    surely = SURELY_CHANCE if heavy is None else 0.5
    if (count <= NORMAL_UP_TO and heavy is None) or p_value > surely:
        return bound, p_value, "normal"
    peaks = place_units(count, units, seed=topic.seed, heavy_ratios=() if heavy is None else (heavy,))
    return float(peaks[-1]), exceeding_chance(peaks, peak), "bootstrap"


def best_peak_to_mean(partition_count: int, top_key_ratio: float) -> float:
    """Smallest peak-to-mean that any key hash can reach: a key is in one partition, so `max(1, P * p_1)`."""
    return max(1.0, partition_count * top_key_ratio)


def normal_peak(partition_count: int, unit_count: float, level: float = CHANCE_LEVEL) -> float:
    """Peak-to-mean that the largest of P partitions exceeds with probability `level`, by the normal tail."""
    bound = 1 + _NORMAL.inv_cdf(1 - level / partition_count) * chance_cv(partition_count, unit_count)
    return min(bound, float(partition_count))


def normal_peak_p_value(peak_to_mean: float, partition_count: int, unit_count: float) -> float:
    """Chance that the largest of P partitions is this far above the mean or farther, by the normal tail."""
    tail = 0.5 * math.erfc((peak_to_mean - 1) / chance_cv(partition_count, unit_count) / math.sqrt(2))
    return min(1.0, partition_count * tail)


def derive_window_seed(cluster: str, window_start_ms: int, subject: str) -> int:
    text = "\0".join((cluster, str(window_start_ms), subject))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def place_units(partition_count: int, unit_count: float, *, seed: int, heavy_ratios: Sequence[float] = ()) -> Floats:
    """Peak-to-mean of placements by chance alone, one per round, ascending; heavy units are among `unit_count`."""
    rng = np.random.Generator(np.random.Philox(seed))
    heavy = np.asarray(heavy_ratios, dtype=np.float64)
    rest = max(0.0, 1.0 - float(heavy.sum()))
    squares = 1.0 / unit_count - float((heavy * heavy).sum())
    equal = max(1, round(rest * rest / squares)) if rest > 0 and squares > 0 else 0
    peaks = np.empty(ROUNDS)
    at_once = max(1, _MOST_LOADS // partition_count)
    for first in range(0, ROUNDS, at_once):
        rows = np.arange(min(at_once, ROUNDS - first))
        loads = np.full((len(rows), partition_count), 0.0 if equal else rest / partition_count)
        if equal:
            chances = np.full(partition_count, 1 / partition_count)
            loads += rng.multinomial(equal, chances, size=len(rows)) * (rest / equal)
        for ratio in heavy.tolist():
            loads[rows, rng.integers(0, partition_count, len(rows))] += ratio
        peaks[first : first + len(rows)] = loads.max(axis=1) * partition_count
    peaks.sort()
    return peaks


def exceeding_chance(peaks: Floats, value: float) -> float:
    """Chance of `value` or more, from placements: never 0, `1 / (rounds + 1)` where none came so high."""
    above = len(peaks) - int(np.searchsorted(peaks, value, side="left"))
    return (above + 1) / (len(peaks) + 1)
