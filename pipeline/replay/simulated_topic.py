"""A topic in a window under one candidate: what its seeds' runs say together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pipeline.replay.seed_ranges import WholeRange, count_seeds, measure_seeds, spread_over_seeds
from pipeline.replay.unit_runs import CELL_BATCHES, CELL_BYTES, CELL_LEADER, CELL_LOG_BYTES, CELL_RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.replay.estimates import Loads, Range
    from pipeline.replay.unit_runs import TopicRun

_NS_PER_MS = 1e6
_NS_PER_S = 1e9


@dataclass(frozen=True, eq=False)
class RecordedTopic:
    """What a topic did in a window.

    Attributes:
        topic: Its name.
        topic_id: Its id, or "".
        leaders: Id of each partition's leader at the window's end, or -1.
        broker_ids: All brokers of the window.
        records: Data records by partition; int64, like the next ones.
        sizes: Their bytes before compression, without batch headers.
        batches: Batches with data.
        log_sizes: Bytes of the batches in the log.
        broker_log_sizes: The same by broker that led when they were written.
        keyless_count: Records without a key.
        judged_log_sizes: Bytes of the batches in the log by broker, of odd minutes.
    """

    topic: str
    topic_id: str
    leaders: Mapping[int, int]
    broker_ids: Sequence[int]
    records: NDArray[np.int64]
    sizes: NDArray[np.int64]
    batches: NDArray[np.int64]
    log_sizes: NDArray[np.int64]
    broker_log_sizes: Mapping[int, int]
    keyless_count: int
    judged_log_sizes: Mapping[int, int] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        """Partitions it has."""
        return len(self.records)


@dataclass(frozen=True, eq=False)
class SimulatedTopic:
    """The runs of a topic, window and candidate.

    Attributes:
        recorded: What the topic did.
        runs: By seed, at least one.
        records: By partition; they sum to the recorded ones, like sizes.
        sizes: Bytes before compression, without batch headers.
        log_sizes: Bytes of the batches in the log.
    """

    recorded: RecordedTopic
    runs: Mapping[int, TopicRun]
    records: Loads = field(init=False)
    sizes: Loads = field(init=False)
    log_sizes: Loads = field(init=False)

    def __post_init__(self) -> None:
        totals = {CELL_RECORDS: int(self.recorded.records.sum()), CELL_BYTES: int(self.recorded.sizes.sum())}
        for name, column in (("records", CELL_RECORDS), ("sizes", CELL_BYTES), ("log_sizes", CELL_LOG_BYTES)):
            cells = self.cells(column)
            total = totals.get(column, round(float(np.median(cells.sum(axis=1)))))
            object.__setattr__(self, name, spread_over_seeds(cells, total))

    @property
    def partition_count(self) -> int:
        """Partitions under the candidate."""
        return int(self.cells(CELL_RECORDS).shape[1])

    @property
    def seed_count(self) -> int:
        """Seeds behind the ranges."""
        return len(self.runs)

    def cells(self, column: int) -> NDArray[np.int64]:
        """One number of each seed and partition; shape (seeds, partitions)."""
        return np.array([self.runs[seed].cells[:, column] for seed in sorted(self.runs)])

    def batch_counts(self) -> list[WholeRange]:
        """Batches by partition."""
        return [count_seeds(column) for column in self.cells(CELL_BATCHES).T.tolist()]

    def by_broker(self, column: int, total: int | None = None) -> tuple[tuple[int, ...], Loads]:
        """Ids of brokers, ascending, and one number of each; leaders that are open differ from seed to seed.

        Args:
            column: One of `unit_runs.CELLS`.
            total: What the numbers sum to; by default the median of what they sum to.
        """
        brokers, found = self._sum_by_broker(column)
        if total is None:
            total = round(float(np.median(found.sum(axis=1))))
        return brokers, spread_over_seeds(found, total)

    def shares(self, column: int, *, of_brokers: bool) -> list[Range]:
        """The part of each broker or partition in one number of the topic."""
        found = self._sum_by_broker(column)[1] if of_brokers else self.cells(column)
        sums = found.sum(axis=1)
        return [
            measure_seeds(
                (part / whole if whole else None for part, whole in zip(one.tolist(), sums.tolist(), strict=True)),
                most=1.0,
            )
            for one in found.T
        ]

    def share_deviations(self, column: int) -> list[float]:
        """The standard deviation of each broker's share over the seeds."""
        found = self._sum_by_broker(column)[1]
        sums = np.maximum(found.sum(axis=1, keepdims=True), 1)
        deviations: list[float] = (found / sums).std(axis=0, ddof=1 if len(found) > 1 else 0).tolist()
        return deviations

    def _sum_by_broker(self, column: int) -> tuple[tuple[int, ...], NDArray[np.int64]]:
        leaders, values = self.cells(CELL_LEADER), self.cells(column)
        brokers = tuple(sorted({*self.recorded.broker_ids, *leaders[leaders >= 0].tolist()}))
        found = np.array([np.where(leaders == broker, values, 0).sum(axis=1) for broker in brokers]).T
        return brokers, found.reshape(len(values), len(brokers))

    def peak_to_mean(self, *, of_brokers: bool) -> Range:
        """Largest over mean, by bytes before compression."""
        loads = self._sum_by_broker(CELL_BYTES)[1] if of_brokers else self.cells(CELL_BYTES)
        peaks = (float(row.max() / row.mean()) if row.any() else None for row in loads)
        return measure_seeds(peaks, least=1.0, most=loads.shape[1])

    def effective_partitions(self) -> Range:
        """1 / sum of squared shares, by bytes before compression."""
        squares = ((row / row.sum()) ** 2 if row.any() else None for row in self.cells(CELL_BYTES))
        counts = (None if row is None else float(1 / np.sort(row).sum()) for row in squares)
        return measure_seeds(counts, least=1.0, most=self.partition_count)

    def records_per_batch(self) -> Range:
        """Records over batches."""
        ratios = (
            float(run.cells[:, CELL_RECORDS].sum() / batches) if (batches := run.cells[:, CELL_BATCHES].sum()) else None
            for run in self.runs.values()
        )
        return measure_seeds(ratios, least=1.0)

    def throughput_per_s(self) -> Range:
        """Records acknowledged over the time from the first `send()` to the last acknowledgement."""
        return measure_seeds(
            (run.sent_count - run.failed_count - run.refused_count) * _NS_PER_S / span
            if (span := run.last_done_ns - run.first_sent_ns) > 0
            else None
            for run in self.runs.values()
        )

    def latency_ms(self, probability: float) -> Range:
        """A quantile of the records' latency, from `send()` to the acknowledgement."""
        found = (run.latencies.find_quantile_ns(probability) for run in self.runs.values())
        return measure_seeds(None if value is None else value / _NS_PER_MS for value in found)

    def told_latency_ms(self) -> Range:
        """The mean latency as clients' metrics would tell it."""
        return measure_seeds(
            run.told_latency_sum_ns / run.sent_count / _NS_PER_MS if run.sent_count else None
            for run in self.runs.values()
        )

    def sent_counts(self) -> WholeRange:
        """Records that were sent: those of the arrivals, by every seed."""
        return count_seeds(run.sent_count for run in self.runs.values())

    def lost_counts(self) -> WholeRange:
        """Records that found no way into the log."""
        return count_seeds(run.failed_count + run.refused_count for run in self.runs.values())
