"""Weighs which rule made a producer switch partitions, from the order in which keyless records got theirs.

From one keyless record of a session to the next it *joins* the open batch, a batch is opened on the current partition
(*stay*), or another partition is next (*change*). Each rule makes something impossible:

| rule | where | impossible |
|---|---|---|
| a batch each (KIP-480) | Java 2.4 to 3.2, `DefaultPartitioner` to 3.9 | a stay |
| bytes (KIP-794) | Java since 3.3 | a change before `batch.size` bytes |
| time | librdkafka since 1.6 | a change before the sticky time, going on after it unless drawn again |
| random | librdkafka before 1.6, and others | nothing, but going on has a chance of 1 / partitions |
| round robin | `RoundRobinPartitioner` | counts that differ by more than one |

In each rule's likelihood the share of impossible events is fitted, since ties within a millisecond, other threads and
records with keys in the same batches blur what is seen. The limits of bytes and time are fitted too.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Floats, Ints
from pipeline.calibration.limits import ALIKE, HALF, LEAST_SAMPLE, MOST_STRAY, USUAL
from pipeline.calibration.partitioner import switch_kernels as kernels
from pipeline.calibration.partitioner.keyless_bins import KeylessBins
from pipeline.measures.chance import CHANCE_LEVEL


class SwitchRule(StrEnum):
    """When a producer gives up its current partition for the next one."""

    BATCH = "with every batch"
    BYTES = "after batch.size bytes"
    TIME = "after a time"
    RANDOM = "random for every record"
    ROUND_ROBIN = "round robin"
    ROUND_ROBIN_HALF = "round robin, some partitions left out"


class _Weight(NamedTuple):
    log_likelihood: float
    broken_ratio: float

    def less_odd(self, *, is_odd: bool) -> "_Weight":
        """With what a limit loses that is no number people usually write: hardly one has such."""
        return _Weight(self.log_likelihood + is_odd * math.log(MOST_STRAY) / MOST_STRAY, self.broken_ratio)


@dataclass(frozen=True)
class RuleEvidence:
    log_likelihood: Mapping[SwitchRule, float]  # by rule, its limit's oddity with it; nats
    broken_ratio: Mapping[SwitchRule, float]  # by rule: the share of what it forbids among what it could forbid
    event_count: int  # stays and changes
    limit_bytes: int  # the best one for `SwitchRule.BYTES`; `limit_ms` for `SwitchRule.TIME`
    limit_ms: int
    stay_ratio: float  # part of the batches opened on the current partition
    tied_ratio: float  # part opened in a millisecond with records on several partitions: their order is not known
    refuted: Mapping[SwitchRule, str]  # by rule: what no client that follows it leaves in a log

    def rank(self) -> dict[SwitchRule, float]:
        """Rules with their probabilities, the likeliest first, each as likely before the data.

        Events are not independent and no rule is quite what a client does: likelihoods count for a part of themselves.
        Where most batches lie in ties, a batch each and random choice look alike.
        """
        best = max(self.log_likelihood.values())
        weights = {rule: math.exp(MOST_STRAY * (value - best)) for rule, value in self.log_likelihood.items()}
        ranked = sorted(weights, key=lambda rule: -weights[rule])
        is_tied = {*ranked[:2]} == {SwitchRule.BATCH, SwitchRule.RANDOM} and self.tied_ratio > HALF
        most, total = HALF if is_tied else 1 - MOST_STRAY, sum(weights.values())
        return {rule: min(weights[rule] / total, most) for rule in ranked}


def weigh_rules(
    bins: KeylessBins, partition_count: int, *, batch_bytes: Iterable[int] = (), least_bytes: int = 1
) -> RuleEvidence:
    """Weighs every rule, given two or more partitions with a leader.

    `batch_bytes` are values of `batch.size` to try besides the usual ones; it is not smaller than `least_bytes`.
    """
    stays_ms, stays_bytes = _measure_stays(bins)
    tried_bytes = {least_bytes, *USUAL["batch.size"], *batch_bytes, *_take_quantiles(stays_bytes)}
    usual_ms = {2 * linger_ms for linger_ms in USUAL["linger.ms"] if linger_ms}  # as librdkafka sets the sticky time
    tried_ms = {*usual_ms, *_take_quantiles(stays_ms)}
    columns = (bins.at_ms, bins.partition, bins.record_count)
    by_limit = {
        limit: _count(kernels.count_by_bytes, *columns, bins.body_bytes, bins.opened_count, limit)
        for limit in sorted(tried_bytes)
        if limit >= least_bytes
    }
    by_bytes = {
        limit: _weigh_bytes(counts, partition_count).less_odd(is_odd=limit not in USUAL["batch.size"])
        for limit, counts in by_limit.items()
    }
    by_ms = {}
    for limit in sorted(tried_ms):
        counts = _count(kernels.count_by_time, *columns, limit, max(1, int(ALIKE * limit)))
        stays, changes = counts[kernels.GOES_ON_BELOW_MS], counts[kernels.CHANGES_BELOW_MS]
        drawn = counts[kernels.GOES_ON_BEYOND_MS] + counts[kernels.CHANGES_BEYOND_MS]
        broken_ratio = _share(changes, changes + counts[kernels.CHANGES_BEYOND_MS])
        weight = _Weight(_weigh_limit(stays, changes, drawn, partition_count), broken_ratio)
        by_ms[limit] = weight.less_odd(is_odd=limit not in usual_ms)
    limit_bytes, limit_ms = max(by_bytes, key=by_bytes.__getitem__), max(by_ms, key=by_ms.__getitem__)
    counts, openings = by_limit[limit_bytes], _count(kernels.count_openings, *columns, bins.opened_count)
    weights = {
        SwitchRule.BATCH: _weigh_batch(openings, partition_count),
        SwitchRule.BYTES: by_bytes[limit_bytes],
        SwitchRule.TIME: by_ms[limit_ms],
        SwitchRule.RANDOM: _weigh_random(bins, counts, partition_count),
        **_weigh_round_robin(bins, partition_count, counts),
    }
    events = int(counts[kernels.STAYS] + counts[kernels.CHANGES])
    return RuleEvidence(
        log_likelihood={rule: weight.log_likelihood for rule, weight in weights.items()},
        broken_ratio={rule: weight.broken_ratio for rule, weight in weights.items()},
        event_count=events,
        limit_bytes=limit_bytes,
        limit_ms=limit_ms,
        stay_ratio=counts[kernels.STAYS] / events if events else 0.0,
        tied_ratio=openings[kernels.TIED] / (events + 1),
        refuted=_refute(bins, partition_count, openings),
    )


def _refute(bins: KeylessBins, partition_count: int, openings: Ints) -> dict[SwitchRule, str]:
    """Rules that the log excludes, however well they explain the order of batches; and why.

    kafka-go and KafkaJS give all records of a batch the time at which it is sent, so their batches change partition each
    time, as KIP-480's do. But they deal records out, in turn or by bytes: partitions get more even parts than any
    partitioner that draws leaves. Records drawn once for many, as by BYTES and TIME, are less even than those drawn singly.
    """
    even = (
        "partitions got more even parts than drawing them leaves, as where records are placed before they are batched"
    )
    dealt = _is_dealt(bins, bins.record_count, partition_count, 1.0)
    refuted = dict.fromkeys((SwitchRule.BYTES, SwitchRule.TIME, SwitchRule.RANDOM) if dealt else (), even)
    opened = np.minimum(bins.opened_count, bins.record_count)
    # Draws among the others are a chain with the eigenvalue -1 / (P - 1), and so more even.
    variance = (partition_count - 2) / partition_count
    if any(_is_dealt(bins, drawn, partition_count, variance) for drawn in (opened, bins.record_count)):
        refuted[SwitchRule.BATCH] = even
    stays = int(openings[kernels.STAYS])
    count = stays + int(openings[kernels.CHANGES])
    often = f"{stays / max(1, count):.1%} of the batches were opened on the partition of the one before: rarer than by chance"
    if stays >= LEAST_SAMPLE and stays > ALIKE * count / partition_count:
        refuted.setdefault(SwitchRule.BATCH, f"{often}, but no rule that is known here does it")
        if stays + NormalDist().inv_cdf(1 - CHANCE_LEVEL) * math.sqrt(stays) < count / partition_count:
            refuted.setdefault(SwitchRule.TIME, refuted[SwitchRule.BATCH])
    return refuted


def _is_dealt(bins: KeylessBins, drawn: Ints, partition_count: int, variance: float) -> bool:
    """Whether draws are too even for chance: chi-square over blocks of equally many draws; `variance` is over the multinomial's."""
    from scipy.special import chdtr  # noqa: PLC0415 - 0.3 s to import

    total = int(drawn.sum())
    blocks = min(LEAST_SAMPLE, total // (LEAST_SAMPLE * partition_count))
    if not blocks or not variance:
        return False
    used, numbers = np.unique(bins.partition, return_inverse=True)
    width = max(partition_count, len(used))
    block = np.minimum((np.cumsum(drawn) - drawn) * blocks // total, blocks - 1)
    counts = np.bincount(block * width + numbers, drawn, blocks * width).reshape(blocks, width)
    expected = counts.mean(axis=1, keepdims=True)
    squares = float(((counts - expected) ** 2 / np.maximum(expected, 1)).sum() / variance)
    return bool(chdtr(blocks * (width - 1), squares) < CHANCE_LEVEL)


def _count(count: Callable[..., None], *arguments: Ints | int) -> Ints:
    counts = np.zeros(kernels.COUNTS, np.int64)
    count(*arguments, counts)
    return counts


def _measure_stays(bins: KeylessBins) -> tuple[Ints, Ints]:
    """Milliseconds from one change of partition to the next, and the bytes between."""
    if not len(bins.at_ms):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(bins.partition) != 0))
    total = bins.body_bytes + kernels.HEADER_BYTES * bins.opened_count
    return np.diff(bins.at_ms[starts]), np.add.reduceat(total, starts)


def _take_quantiles(lengths: Ints) -> set[int]:
    return {max(1, int(value)) for value in np.quantile(lengths, (MOST_STRAY, HALF))} if len(lengths) else set()


def _share(count: float, total: float) -> float:
    """A fitted chance, away from 0 and 1."""
    return (count + 0.5) / (total + 1)


def _sum_logs(*terms: tuple[float, float]) -> float:
    return float(sum(count * math.log(max(chance, 1e-300)) for count, chance in terms if count))


def _weigh_joins(counts: Ints, partition_count: int) -> float:
    """Where a batch goes on, so does its partition."""
    joins, changes = counts[kernels.JOINS], counts[kernels.CHANGES_JOINING]
    broken = min(_share(changes, joins + changes), 2 * MOST_STRAY)
    return _sum_logs((joins, 1 - broken), (changes, broken / (partition_count - 1)))


def _weigh_batch(counts: Ints, partition_count: int) -> _Weight:
    stays, changes = counts[kernels.STAYS], counts[kernels.CHANGES]
    # Random choice stays with a chance of 1 / partitions: what stays as often is not this rule.
    broken = min(_share(stays, stays + changes), ALIKE / partition_count)
    openings = _sum_logs((stays, broken), (changes, (1 - broken) / (partition_count - 1)))
    return _Weight(_weigh_joins(counts, partition_count) + openings, _share(stays, stays + changes))


def _weigh_bytes(counts: Ints, partition_count: int) -> _Weight:
    stays, changes = counts[kernels.STAYS_BELOW_BYTES], counts[kernels.CHANGES_BELOW_BYTES]
    drawn = counts[kernels.STAYS_BEYOND_BYTES] + counts[kernels.CHANGES_BEYOND_BYTES]
    openings = _weigh_limit(stays, changes, drawn, partition_count)
    return _Weight(_weigh_joins(counts, partition_count) + openings, _share(changes, counts[kernels.CHANGES]))


def _weigh_limit(stays: float, changes: float, drawn: float, partition_count: int) -> float:
    """Below a limit nothing changes, beyond it every partition is as likely."""
    broken = min(_share(changes, stays + changes), 2 * MOST_STRAY)
    return _sum_logs((stays, 1 - broken), (changes, broken / (partition_count - 1)), (drawn, 1 / partition_count))


def _weigh_random(bins: KeylessBins, counts: Ints, partition_count: int) -> _Weight:
    """All orders of a millisecond's records are as likely: there are n! / (k! l! ...) of them."""
    if not len(bins.at_ms):
        return _Weight(0.0, 0.0)
    starts = np.flatnonzero(np.append(True, np.diff(bins.at_ms) != 0))
    orders = _log_factorial(np.add.reduceat(bins.record_count, starts)).sum()
    orders -= _log_factorial(bins.record_count).sum()
    return _Weight(_sum_logs((_count_records(counts), 1 / partition_count)) + float(orders), 0.0)


def _log_factorial(numbers: Ints) -> Floats:
    values, indexes = np.unique(numbers, return_inverse=True)
    return np.array([math.lgamma(each + 1) for each in values.tolist()])[indexes]


def _count_records(counts: Ints) -> int:
    events = (kernels.STAYS, kernels.JOINS, kernels.CHANGES, kernels.CHANGES_JOINING)
    return int(sum(counts[event] for event in events))


def _weigh_round_robin(bins: KeylessBins, partition_count: int, counts: Ints) -> dict[SwitchRule, _Weight]:
    """At the end of a millisecond no partition in use is more than a record ahead of another."""
    used, numbers = np.unique(bins.partition, return_inverse=True)
    moments = len(np.unique(bins.at_ms))
    if len(used) < 2 or moments < LEAST_SAMPLE:
        return {}
    even = kernels.count_even_moments(bins.at_ms, numbers.astype(np.int64), bins.record_count, len(used))
    broken = _share(moments - even, moments)
    if broken > MOST_STRAY:
        return _weigh_two_turns(numbers, bins.at_ms, bins.record_count, len(used), counts)
    weight = _Weight(_sum_logs((_count_records(counts), 1 - broken)), broken)
    if len(used) == partition_count:
        return {SwitchRule.ROUND_ROBIN: weight}
    # The defect of 2.4 to 3.9.1 passes over every other partition where their number is even (KAFKA-9965).
    if partition_count % 2 == 0 and len(used) == partition_count // 2:
        return {SwitchRule.ROUND_ROBIN_HALF: weight}
    return {}


def _weigh_two_turns(
    numbers: Ints, at_ms: Ints, record_count: Ints, used_count: int, counts: Ints
) -> dict[SwitchRule, _Weight]:
    """Weighs KAFKA-9965 where some records join a batch: only a record that opens one skips a partition.

    Records that are alone in their milliseconds show it: the next one lies one or two partitions on.
    """
    is_alone = (record_count == 1) & np.append(True, np.diff(at_ms) > 0) & np.append(np.diff(at_ms) > 0, True)
    steps = np.diff(numbers)[is_alone[1:] & is_alone[:-1]] % used_count
    broken = _share(int((steps > 2).sum() + (steps == 0).sum()), len(steps))
    if used_count < 3 or len(steps) < LEAST_SAMPLE or broken > MOST_STRAY:
        return {}
    return {SwitchRule.ROUND_ROBIN_HALF: _Weight(_sum_logs((_count_records(counts), (1 - broken) / 2)), broken)}
