"""By which rule keyless records got their partitions, from the order in which they did.

What happens from one keyless record of a session to the next: it *joins* the batch at work, a batch is opened on the
partition at work (*stay*), or another partition is next (*change*). Each rule makes something impossible:

| rule | where | impossible |
|---|---|---|
| a batch each (KIP-480) | Java 2.4 to 3.2, `DefaultPartitioner` to 3.9 | a stay |
| bytes (KIP-794) | Java since 3.3 | a change before `batch.size` bytes |
| time | librdkafka since 1.6 | a change before the sticky time, going on after it unless drawn again |
| random | librdkafka before 1.6, and others | nothing, but going on has a chance of 1 / partitions |
| in turn | `RoundRobinPartitioner` | counts that differ by more than one |

Each rule's likelihood has the share of impossible events fitted, since ties within a millisecond, other threads and
records with keys in the same batches blur what is seen. The limits of bytes and time are fitted too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from pipeline.calibration import rule_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from pipeline.calibration.cells import Cells

_EVEN_RATIO = 0.98
_MOST_EVEN_CELLS = 200_000
_USUAL_BYTES = (*(1 << power for power in range(10, 21)), 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
_USUAL_MS = (1, 2, 4, 5, 10, 20, 40, 50, 100, 200, 400, 1_000, 2_000)
_LEAST_CHANCE = 1e-3
_USUAL_BONUS = 10.0
"""Nats that a limit people write is taken to be likelier by than one between."""
_MOST_BROKEN = 0.1
"""A rule that is broken more often is none."""
_MOST_STAYS = 0.3
_TEMPER = 0.02
_ODD_LIMIT = 0.05
"""Part of the users whose limit is no number that people usually write."""
_TIED, _TIED_CHANCE = 0.5, 0.6
_ODD_CHANCE = 0.6
"""Hardly a client with producer ids does so: it may be something that no rule here describes."""
_TOLERANCE_PARTS = 8
_TENTHS = (0.01, 0.03, 0.1, 0.25, 0.5)


class Rule(StrEnum):
    """How a partition is given up for the next one."""

    BATCH = "with every batch"
    BYTES = "after batch.size bytes"
    TIME = "after a time"
    RANDOM = "random for every record"
    TURN = "in turn"
    TURN_OF_HALF = "in turn, half of the partitions"


_PRIORS = {
    Rule.BATCH: (0.25, 0.2),
    Rule.BYTES: (0.6, 0.1),
    Rule.TIME: (0.05, 0.35),
    Rule.RANDOM: (0.04, 0.25),
    Rule.TURN: (0.03, 0.05),
    Rule.TURN_OF_HALF: (0.03, 0.05),
}
"""With producer ids, and without."""


@dataclass(frozen=True)
class RuleEvidence:
    """What the order of partitions says.

    Attributes:
        log_likelihood: By rule; nats.
        broken_ratio: By rule: the share of what it forbids among what it could forbid.
        event_count: Stays and changes.
        limit_bytes: The best one for `Rule.BYTES`.
        limit_ms: The best one for `Rule.TIME`.
        stay_ratio: Of batches opened, those on the partition at work.
        tied_ratio: Those opened in a millisecond with records on several partitions: their order is not known.
    """

    log_likelihood: Mapping[Rule, float]
    broken_ratio: Mapping[Rule, float]
    event_count: int
    limit_bytes: int
    limit_ms: int
    stay_ratio: float
    tied_ratio: float

    def rank(self, *, is_idempotent: bool) -> dict[Rule, float]:
        """Rules with their probabilities, the likeliest first.

        Events are not independent and no rule is quite what a client does, so a likelihood counts for a part of itself, and
        nothing is believed beyond 1 in 1,000. Where most batches lie in ties, a batch each and random choice look alike.

        Args:
            is_idempotent: The batches have producer ids: as Java's by default since 3.0, librdkafka's only when asked for.
        """
        scores = {
            rule: _TEMPER * value + math.log(_PRIORS[rule][0 if is_idempotent else 1])
            for rule, value in self.log_likelihood.items()
        }
        scores[Rule.BYTES] += 0 if self.limit_bytes in _USUAL_BYTES else math.log(_ODD_LIMIT)
        scores[Rule.TIME] += 0 if self.limit_ms in _USUAL_MS else math.log(_ODD_LIMIT)
        best = max(scores.values())
        weights = {rule: math.exp(max(score - best, -700)) for rule, score in scores.items()}
        total = sum(weights.values())
        ranked = sorted(weights, key=lambda rule: -weights[rule])
        found = {rule: min(weights[rule] / total, 1 - _LEAST_CHANCE) for rule in ranked}
        if is_idempotent and ranked[0] in {Rule.TIME, Rule.RANDOM}:
            found[ranked[0]] = min(found[ranked[0]], _ODD_CHANCE)
        if {ranked[0], ranked[1]} == {Rule.BATCH, Rule.RANDOM} and self.tied_ratio > _TIED:
            found[ranked[0]] = min(found[ranked[0]], _TIED_CHANCE)
        return found


def weigh_rules(
    cells: Cells, partition_count: int, *, batch_bytes: Iterable[int] = (), least_bytes: int = 1
) -> RuleEvidence:
    """Weighs every rule.

    Args:
        cells: See `cells.collect_cells`.
        partition_count: Partitions with a leader; 2 or more.
        batch_bytes: Values of `batch.size` to try besides the usual ones.
        least_bytes: It is not smaller.
    """
    lengths_ms, lengths_bytes = _measure_runs(cells)
    tried_bytes = {least_bytes, *_USUAL_BYTES, *batch_bytes, *_cut(lengths_bytes, 1)}
    tried_ms = {*_USUAL_MS, *_cut(lengths_ms, 1)}
    by_bytes = {
        limit: _weigh_bytes(_count_by_bytes(cells, limit), partition_count)
        for limit in sorted(tried_bytes)
        if limit >= least_bytes
    }
    by_ms = {limit: _weigh_time(_count_by_time(cells, limit), partition_count) for limit in sorted(tried_ms)}
    limit_bytes = max(by_bytes, key=lambda limit: by_bytes[limit][0] + _USUAL_BONUS * (limit in _USUAL_BYTES))
    limit_ms = max(by_ms, key=lambda limit: by_ms[limit][0] + _USUAL_BONUS * (limit in _USUAL_MS))
    counts, openings = _count_by_bytes(cells, limit_bytes), _count_openings(cells)
    found = {
        Rule.BATCH: _weigh_batch(openings, partition_count),
        Rule.BYTES: by_bytes[limit_bytes],
        Rule.TIME: by_ms[limit_ms],
        Rule.RANDOM: _weigh_random(cells, counts, partition_count),
        **_weigh_turns(cells, partition_count, counts),
    }
    events = int(counts[kernels.STAYS] + counts[kernels.CHANGES])
    return RuleEvidence(
        {rule: value for rule, (value, _) in found.items()},
        {rule: broken for rule, (_, broken) in found.items()},
        events,
        limit_bytes,
        limit_ms,
        counts[kernels.STAYS] / events if events else 0.0,
        openings[kernels.TIED] / (events + 1),
    )


def _count_by_bytes(cells: Cells, limit_bytes: int) -> NDArray[np.int64]:
    counts = np.zeros(kernels.COUNTS, np.int64)
    kernels.count_by_bytes(
        cells.at_ms,
        cells.partition,
        cells.record_count,
        cells.body_bytes,
        cells.opened_count,
        limit_bytes,
        counts,
    )
    return counts


def _count_by_time(cells: Cells, limit_ms: int) -> NDArray[np.int64]:
    counts = np.zeros(kernels.COUNTS, np.int64)
    tolerance_ms = max(1, limit_ms // _TOLERANCE_PARTS)
    kernels.count_by_time(cells.at_ms, cells.partition, cells.record_count, limit_ms, tolerance_ms, counts)
    return counts


def _count_openings(cells: Cells) -> NDArray[np.int64]:
    counts = np.zeros(kernels.COUNTS, np.int64)
    kernels.count_openings(cells.at_ms, cells.partition, cells.record_count, cells.opened_count, counts)
    return counts


def _measure_runs(cells: Cells) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Milliseconds from one partition's turn to the next one's, and the bytes of each turn."""
    if not len(cells.at_ms):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.flatnonzero(np.append(True, np.diff(cells.partition) != 0))
    total = cells.body_bytes + kernels.HEADER_BYTES * cells.opened_count
    return np.diff(cells.at_ms[starts]), np.add.reduceat(total, starts)


def _cut(lengths: NDArray[np.int64], least: int) -> set[int]:
    if not len(lengths):
        return set()
    return {max(least, int(value)) for value in np.quantile(lengths, _TENTHS)}


def _share(count: float, total: float) -> float:
    """A fitted chance, away from 0 and 1."""
    return (count + 0.5) / (total + 1)


def _sum_of(*terms: tuple[float, float]) -> float:
    """The sum of count x log(chance)."""
    return float(sum(count * math.log(max(chance, 1e-300)) for count, chance in terms if count))


def _weigh_joins(counts: NDArray[np.int64], partition_count: int) -> float:
    """Where a batch goes on, so does its partition."""
    joins, changes = counts[kernels.JOINS], counts[kernels.CHANGES_JOINING]
    broken = min(_share(changes, joins + changes), _MOST_BROKEN)
    return _sum_of((joins, 1 - broken), (changes, broken / (partition_count - 1)))


def _weigh_batch(counts: NDArray[np.int64], partition_count: int) -> tuple[float, float]:
    stays, changes = counts[kernels.STAYS], counts[kernels.CHANGES]
    # Random choice stays with a chance of 1 / partitions: what stays as often is not this rule.
    broken = min(_share(stays, stays + changes), _MOST_BROKEN, _MOST_STAYS / partition_count)
    told = _sum_of((stays, broken), (changes, (1 - broken) / (partition_count - 1)))
    return _weigh_joins(counts, partition_count) + told, _share(stays, stays + changes)


def _weigh_bytes(counts: NDArray[np.int64], partition_count: int) -> tuple[float, float]:
    stays, changes = counts[kernels.STAYS_BELOW_BYTES], counts[kernels.CHANGES_BELOW_BYTES]
    broken = min(_share(changes, stays + changes), _MOST_BROKEN)
    drawn = counts[kernels.STAYS_BEYOND_BYTES] + counts[kernels.CHANGES_BEYOND_BYTES]
    told = _sum_of((stays, 1 - broken), (changes, broken / (partition_count - 1)), (drawn, 1 / partition_count))
    return _weigh_joins(counts, partition_count) + told, _share(changes, counts[kernels.CHANGES])


def _weigh_time(counts: NDArray[np.int64], partition_count: int) -> tuple[float, float]:
    stays, changes = counts[kernels.GOES_ON_BELOW_MS], counts[kernels.CHANGES_BELOW_MS]
    broken = min(_share(changes, stays + changes), _MOST_BROKEN)
    drawn = counts[kernels.GOES_ON_BEYOND_MS] + counts[kernels.CHANGES_BEYOND_MS]
    told = _sum_of((stays, 1 - broken), (changes, broken / (partition_count - 1)), (drawn, 1 / partition_count))
    return told, _share(changes, changes + counts[kernels.CHANGES_BEYOND_MS])


def _weigh_random(cells: Cells, counts: NDArray[np.int64], partition_count: int) -> tuple[float, float]:
    """All orders of a millisecond's records are as likely: there are n! / (k! l! ...) of them."""
    if not len(cells.at_ms):
        return 0.0, 0.0
    starts = np.flatnonzero(np.append(True, np.diff(cells.at_ms) != 0))
    orders = _log_factorial(np.add.reduceat(cells.record_count, starts)).sum()
    orders -= _log_factorial(cells.record_count).sum()
    return _sum_of((_count_records(counts), 1 / partition_count)) + float(orders), 0.0


def _log_factorial(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    found, places = np.unique(numbers, return_inverse=True)
    return np.array([math.lgamma(each + 1) for each in found.tolist()])[places]


def _count_records(counts: NDArray[np.int64]) -> int:
    """All records but the first."""
    events = (kernels.STAYS, kernels.JOINS, kernels.CHANGES, kernels.CHANGES_JOINING)
    return int(sum(counts[event] for event in events))


def _weigh_turns(cells: Cells, partition_count: int, counts: NDArray[np.int64]) -> dict[Rule, tuple[float, float]]:
    """In turn: at the end of a millisecond no partition in use is more than a record ahead of another."""
    part = slice(_MOST_EVEN_CELLS)
    used, numbers = np.unique(cells.partition[part], return_inverse=True)
    moments = len(np.unique(cells.at_ms[part]))
    records = int(cells.record_count[part].sum())
    half = (partition_count + 1) // 2 if partition_count % 2 == 0 else partition_count
    told: dict[Rule, tuple[float, float]] = {}
    if len(used) > 1 and records >= 3 * len(used):
        even = kernels.count_even_moments(
            cells.at_ms[part], numbers.astype(np.int64), cells.record_count[part], len(used), 1
        )
        broken = _share(moments - even, moments)
        if broken <= 1 - _EVEN_RATIO or moments < 1 / (1 - _EVEN_RATIO):
            likelihood = _sum_of((_count_records(counts), 1 - broken))
            if len(used) == partition_count:
                told[Rule.TURN] = likelihood, broken
            elif len(used) == half:
                told[Rule.TURN_OF_HALF] = likelihood, broken
    return told
