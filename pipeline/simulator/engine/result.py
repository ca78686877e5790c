"""Result of a simulated run: counters and latencies of one seed, and traces on request.

Counters are arrays with a row for each unit and a column for each figure. Units are queues (a producer's for a
partition), connections (a producer to a broker), producers; `scenario.py` numbers them. Partitions' and brokers'
figures are sums over queues.

Latencies are counted in log-linear buckets, HdrHistogram's layout (http://hdrhistogram.org/): below 256 ns every
nanosecond has one, and each power of two above has 128 of equal width. A quantile is given as the middle of its bucket,
so it is off by at most 1/256 (0.4 %) of itself. Count, sum, least and largest are exact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

STEP_BITS = 7  # a power of two has 2 to the power of this many buckets
MAX_BITS = 44
"""Latencies have at most so many bits, so they stay below 4.8 hours; what is longer counts in the last bucket."""
BUCKET_COUNT = (MAX_BITS - STEP_BITS + 1) << STEP_BITS


def middle_of(bucket: int) -> int:
    """The middle of a bucket, in nanoseconds, rounded down."""
    shift = max((bucket >> STEP_BITS) - 1, 0)
    low_ns = (bucket - (shift << STEP_BITS)) << shift
    return low_ns + ((1 << shift) - 1 >> 1)


@dataclass(frozen=True)
class LatencyHistogram:
    # how many fell in each bucket, `BUCKET_COUNT` long; merged ones take 4 bytes each where they fit: thousands are held at once
    counts: NDArray[np.int64] | NDArray[np.int32]
    sum_ns: int  # of all of them
    min_ns: int  # the least; 0 where there is none
    max_ns: int  # the largest; 0 where there is none

    @property
    def count(self) -> int:
        return 0 if self.is_empty else int(self.counts.sum())

    @property
    def is_empty(self) -> bool:
        """Nothing is counted; looks at one bucket, where the memory of the others may never have been touched."""
        return self.max_ns == 0 and not self.counts[0]

    @property
    def mean_ns(self) -> float | None:
        count = self.count
        return self.sum_ns / count if count else None

    def find_quantile_ns(self, probability: float) -> int | None:
        """The latency of rank `int(probability * count)`, as in `kafka-producer-perf-test`, within 1/256; or None."""
        count = self.count
        if not count:
            return None
        place = min(int(probability * count), count - 1)
        bucket = int(np.searchsorted(np.cumsum(self.counts), place, side="right"))
        return min(max(middle_of(bucket), self.min_ns), self.max_ns)


def merge_histograms(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    filled = [histogram for histogram in histograms if not histogram.is_empty]
    if not filled:
        return LatencyHistogram(np.zeros(BUCKET_COUNT, np.int32), 0, 0, 0)
    counts = filled[0].counts.astype(np.int64)  # a copy: a view would keep those of a whole run
    for histogram in filled[1:]:
        counts += histogram.counts
    is_narrow = counts.max() <= np.iinfo(np.int32).max
    return LatencyHistogram(
        counts.astype(np.int32) if is_narrow else counts,
        sum(histogram.sum_ns for histogram in filled),
        min(histogram.min_ns for histogram in filled),
        max(histogram.max_ns for histogram in filled),
    )


QueueCounter = IntEnum(  # see `client_state.PartitionQueue`
    "QueueCounter",
    "APPENDED_RECORDS DONE_RECORDS FAILED_RECORDS DONE_BATCHES FAILED_BATCHES DONE_BYTES RETRIES CAPACITY_BYTES PLAIN_BYTES "
    "IN_SYSTEM_NS",
    start=0,
)
ConnectionCounter = IntEnum(  # see `state.NodeConnection`
    "ConnectionCounter", "REQUESTS BATCHES BYTES MAX_IN_FLIGHT ERRORS THROTTLED_NS TIMED_OUT", start=0
)
ProducerCounter = IntEnum(  # see `client_state.ProducerState`
    "ProducerCounter",
    "SENT_RECORDS REFUSED_RECORDS BLOCKED_NS BLOCKED_RECORDS MAX_BUFFER_BYTES SENDER_LOOPS FIRST_SENT_AT_NS LAST_SENT_AT_NS "
    "LAST_DONE_AT_NS DONE_BODY_BYTES",
    start=0,
)


class TracedBatch:
    rank: int  # by when it was done
    producer: int  # index in the scenario
    partition: int  # counted over all topics
    batch_number: int  # within the partition queue, by creation, from 0
    created_at_ns: int
    drained_at_ns: int  # the last time; -1 if it never was
    done_at_ns: int
    record_count: int
    size_bytes: int  # as in the log
    attempt_count: int  # times it was sent
    is_failed: bool


BATCH_TRACE = pa.schema(
    [(name, pa.bool_() if kind is bool else pa.int64()) for name, kind in [*get_type_hints(TracedBatch).items()][1:]]
)
"""A row for each batch, in the order they were done; of one moment, as handled."""
RECORD_TRACE = pa.schema(
    [
        # `thread` is counted over all producers; `sent_at_ns` is before send()
        *((name, pa.int64()) for name in ("producer", "thread", "partition", "batch_number", "sent_at_ns")),
        *(("done_at_ns", pa.int64()), ("body_bytes", pa.int64()), ("is_failed", pa.bool_())),
    ]
)
"""A row for each record that was put into a batch, in the order of its batch and place."""


@dataclass(frozen=True, eq=False)
class Histograms:
    counts: NDArray[np.int64]  # shape (units, `BUCKET_COUNT`)
    sums_ns: NDArray[np.int64]  # as many as units, like the next two
    mins_ns: NDArray[np.int64]  # 0 where there is none
    maxs_ns: NDArray[np.int64]  # 0 where there is none

    def of(self, unit: int) -> LatencyHistogram:
        exact = (int(values[unit]) for values in (self.sums_ns, self.mins_ns, self.maxs_ns))
        return LatencyHistogram(self.counts[unit], *exact)

    def merge(self, units: Iterable[int]) -> LatencyHistogram:
        return merge_histograms(self.of(unit) for unit in units)

    def mean_ns(self, units: Iterable[int]) -> float | None:
        """The mean latency of several units; None without a latency. Cheaper than that of `merge`: no buckets are summed up."""
        histograms = [self.of(unit) for unit in units]
        count = sum(histogram.count for histogram in histograms)
        return sum(histogram.sum_ns for histogram in histograms) / count if count else None


@dataclass(frozen=True, eq=False)
class SimulationResult:
    scenario: str
    seed: int
    leaders: tuple[int, ...]  # of each partition, counted over all topics, the index of its broker
    producer_count: int  # rows of queues are producers x partitions
    end_ns: int  # when the last thing happened
    queues: NDArray[np.int64]  # shape (queues, `QueueCounter`), int64
    connections: NDArray[np.int64]  # shape (producers x brokers, `ConnectionCounter`), int64
    producers: NDArray[np.int64]  # shape (producers, `ProducerCounter`), int64
    latencies: Histograms  # by queue: from before `send()` until its acknowledgement is handled, by record
    queue_times: Histograms  # by queue: from a batch's first record until it is drained, by batch; its first attempt
    request_latencies: Histograms  # by connection: from a request's sending until its response is handled
    batch_trace: pa.Table | None = None  # or None; columns as in `BATCH_TRACE`
    record_trace: pa.Table | None = None  # or None; as in `RECORD_TRACE`
    # at the times asked for: requests answered until then, and how long they took, in ns, by connection: int64[connections, 2]
    answered_marks: tuple[NDArray[np.int64], ...] = ()

    def queues_of_broker(self, broker: int) -> list[int]:
        return self._queues_of([p for p, leader in enumerate(self.leaders) if leader == broker])

    def queues_of_partition(self, partition: int) -> list[int]:
        return self._queues_of([partition])

    def queues_of_producer(self, producer: int) -> list[int]:
        partition_count = len(self.leaders)
        return list(range(producer * partition_count, (producer + 1) * partition_count))

    def count(self, queues: Iterable[int], column: QueueCounter) -> int:
        return int(sum(self.queues[queue, column] for queue in queues))

    def _queues_of(self, partitions: Sequence[int]) -> list[int]:
        return [number * len(self.leaders) + p for number in range(self.producer_count) for p in partitions]
