"""A topic in a window under one candidate: what its seeds' runs say together."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pipeline.arrays import Ints
from pipeline.model.window import NS_PER_MS
from pipeline.replay.loads import (
    UNKNOWN,
    Estimate,
    Loads,
    count_effective,
    expect_range,
    measure_seeds,
    spread_error,
    spread_over_seeds,
)
from pipeline.replay.recorded import RecordedTopic
from pipeline.replay.simulated.runs import CELL_BATCHES, CELL_BYTES, CELL_LEADER, CELL_LOG_BYTES, CELL_RECORDS, TopicRun
from pipeline.simulator.clients.client import SECOND


@dataclass(frozen=True, slots=True)
class ModelError:
    """What the model is off by besides chance, as standard deviations: with these nine of ten figures lie in their ranges."""

    share: float  # of a share p of bytes or records, x sqrt(p (1 - p)): 0.006 is 0.3 points of a third
    batches: float  # of the logarithm of records per batch
    latency: float  # of the logarithm of the median latency


MODEL_ERROR = ModelError(share=0.006, batches=0.1, latency=0.4)


@dataclass(frozen=True, eq=False)
class SimulatedTopic:
    """The runs of a topic, window and candidate by seed, at least one."""

    recorded: RecordedTopic
    runs: Mapping[int, TopicRun]
    error: ModelError = MODEL_ERROR

    @cached_property
    def records(self) -> Loads:
        """By partition; they sum to the recorded records, less the part that the runs put into no partition."""
        total = round(int(self.recorded.records.sum()) * self._placed_ratio)
        return spread_over_seeds(self.cells(CELL_RECORDS), total, error=self.error.share)

    @cached_property
    def sizes(self) -> Loads:
        """The same of their bytes before compression, without batch headers."""
        total = round(int(self.recorded.sizes.sum()) * self._placed_ratio)
        return spread_over_seeds(self.cells(CELL_BYTES), total, error=self.error.share)

    @cached_property
    def _placed_ratio(self) -> float:
        placed = ((int(run.cells[:, CELL_RECORDS].sum()), run.sent_count) for run in self.runs.values())
        return float(np.median([records / sent if sent else 1.0 for records, sent in placed]))

    @cached_property
    def log_sizes(self) -> Loads:
        """Bytes of the batches in the log."""
        cells = self.cells(CELL_LOG_BYTES)
        return spread_over_seeds(cells, _median_total(cells), error=self.error.share)

    @property
    def partition_count(self) -> int:
        return int(self._cells.shape[1])

    @cached_property
    def _cells(self) -> Ints:
        return np.array([self.runs[seed].cells for seed in sorted(self.runs)])

    def cells(self, column: int) -> Ints:
        """One number of each seed and partition: int64[seeds, partitions]."""
        return self._cells[:, :, column]

    @cached_property
    def broker_ids(self) -> tuple[int, ...]:
        leaders = self.cells(CELL_LEADER)
        return tuple(sorted({*self.recorded.broker_ids, *leaders[leaders >= 0].tolist()}))

    def by_broker(self, column: int, total: int | None = None) -> Loads:
        """One of `runs.CELLS` of each broker; sums to the total, by default the median of what the seeds sum to."""
        sums = self._sum_by_broker(column)
        return spread_over_seeds(sums, _median_total(sums) if total is None else total, error=self.error.share)

    def shares(self, column: int, *, of_brokers: bool) -> list[Estimate]:
        """The part of each broker or partition in one number of the topic."""
        sums = self._sum_by_broker(column) if of_brokers else self.cells(column)
        shares = sums[sums.any(axis=1)] / sums[sums.any(axis=1)].sum(axis=1, keepdims=True)
        if not len(shares):
            return [UNKNOWN] * sums.shape[1]
        ends = expect_range(shares, most=1.0, error=spread_error(shares.mean(axis=0), self.error.share))
        return [Estimate(value, low, high) for low, value, high in zip(*(end.tolist() for end in ends), strict=True)]

    def error_of_others(self) -> ModelError:
        """The error of other clients and settings: what these runs of the current setup are off by adds to it."""
        shares = np.array([one.value or 0.0 for one in self.shares(CELL_LOG_BYTES, of_brokers=True)])
        sizes = np.array([self.recorded.broker_log_sizes.get(broker_id, 0) for broker_id in self.broker_ids])
        some = (shares > 0) & (shares < 1)
        off, chance = shares - sizes / max(1, sizes.sum()), np.array(self.share_deviations(of_brokers=True))
        square = np.mean((off**2 - chance**2)[some] / (shares * (1 - shares))[some]) if some.any() else 0.0
        was, found = self.recorded.records_per_batch, self.records_per_batch().value
        batches = math.log(found / was) if was and found else 0.0
        share = math.sqrt(self.error.share**2 + max(0.0, float(square)))
        return replace(self.error, share=share, batches=math.hypot(self.error.batches, batches))

    def share_deviations(self, *, of_brokers: bool) -> list[float]:
        """The standard deviation of each broker's or partition's share of the log from run to run.

        A few seeds say little about one share p. So its variance is half its own over the seeds, and half what all have in
        common: p (1 - p), as if batches were drawn one by one.
        """
        loads = self._sum_by_broker(CELL_LOG_BYTES) if of_brokers else self.cells(CELL_LOG_BYTES)
        shares = loads / np.maximum(loads.sum(axis=1, keepdims=True), 1)
        means, own = shares.mean(axis=0), shares.var(axis=0, ddof=1 if len(loads) > 1 else 0)
        drawn = means * (1 - means)
        deviations: list[float] = np.sqrt((own + drawn * own.sum() / (drawn.sum() or 1.0)) / 2).tolist()
        return deviations

    def _sum_by_broker(self, column: int) -> Ints:
        leaders, values = self.cells(CELL_LEADER), self.cells(column)
        sums = np.array([np.where(leaders == broker, values, 0).sum(axis=1) for broker in self.broker_ids]).T
        return sums.reshape(len(values), len(self.broker_ids))

    def peak_to_mean(self, *, of_brokers: bool) -> Estimate:
        """Largest over mean, by bytes before compression."""
        loads = self._sum_by_broker(CELL_BYTES) if of_brokers else self.cells(CELL_BYTES)
        peaks = (float(row.max() / row.mean()) if row.any() else None for row in loads)
        return measure_seeds(peaks, least=1.0, most=loads.shape[1])

    def effective_partitions(self) -> Estimate:
        """1 / sum of squared shares, by bytes before compression."""
        counts = (count_effective(row) if row.any() else None for row in self.cells(CELL_BYTES))
        return measure_seeds(counts, least=1.0, most=self.partition_count)

    def records_per_batch(self) -> Estimate:
        sums = [run.cells.sum(axis=0) for run in self.runs.values()]
        ratios = (float(one[CELL_RECORDS] / one[CELL_BATCHES]) if one[CELL_BATCHES] else None for one in sums)
        return measure_seeds(ratios, least=1.0, error=self.error.batches)

    def throughput_per_s(self) -> Estimate:
        """Records acknowledged over the time from the first `send()` to the last acknowledgement."""
        return measure_seeds(
            (run.sent_count - run.failed_count - run.refused_count) * SECOND / span
            if (span := run.last_done_ns - run.first_sent_ns) > 0
            else None
            for run in self.runs.values()
        )

    def latency_p50_ms(self) -> Estimate:
        """The median of the records' latency, from `send()` to the acknowledgement."""
        medians = (run.latencies.find_quantile_ns(0.5) for run in self.runs.values())
        known = (None if value is None else value / NS_PER_MS for value in medians)
        return measure_seeds(known, error=self.error.latency)

    def client_latency_ms(self) -> Estimate:
        """The mean latency as clients' metrics would have it."""
        return measure_seeds(
            run.client_latency_sum_ns / run.sent_count / NS_PER_MS if run.sent_count else None
            for run in self.runs.values()
        )


def _median_total(values: Ints) -> int:
    return round(float(np.median(values.sum(axis=1))))
