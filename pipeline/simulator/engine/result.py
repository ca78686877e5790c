"""What a simulated run gave: counters and latencies of one seed, and traces on request.

Counters are arrays with a row for each unit and a column for each figure. Units are queues (a producer's for a partition),
connections (a producer to a broker), producers; `scenario.py` numbers them. Partitions' and brokers' figures are sums over
queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from pipeline.simulator.engine.latency_histogram import LatencyHistogram, merge_histograms

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class QueueCounter(IntEnum):
    """Columns of the partition queues' counters."""

    APPENDED_RECORDS = 0
    """Put into a batch."""
    DONE_RECORDS = 1
    """Acknowledged; with acks=0, sent."""
    FAILED_RECORDS = 2
    """In batches that expired or were given up."""
    DONE_BATCHES = 3
    FAILED_BATCHES = 4
    DONE_BYTES = 5
    """Of acknowledged batches, as written to the log: 61 bytes each and the records, compressed if they are."""
    RETRIES = 6
    """Batches that went back to the queue after an error."""
    CAPACITY_BYTES = 7
    """Of the buffers that acknowledged batches were built in; bytes before compression / this is how full they were."""
    PLAIN_BYTES = 8
    """As `DONE_BYTES`, before compression."""
    IN_SYSTEM_NS = 9
    """Records x nanoseconds from append to the end, summed while the run goes on: Little's law must give the same."""


class ConnectionCounter(IntEnum):
    """Columns of the connections' counters."""

    REQUESTS = 0
    BATCHES = 1
    """In requests; a batch that is sent again counts again."""
    BYTES = 2
    """Of batches in requests."""
    MAX_IN_FLIGHT = 3
    ERRORS = 4
    """Requests answered with an error."""
    THROTTLED_NS = 5
    """By quota."""
    TIMED_OUT = 6
    """Requests without an answer within `request.timeout.ms`."""


class ProducerCounter(IntEnum):
    """Columns of the producers' counters."""

    SENT_RECORDS = 0
    """Calls of `send()`."""
    REFUSED_RECORDS = 1
    """Too large, or no memory within `max.block.ms`."""
    BLOCKED_NS = 2
    """Threads waiting for memory."""
    BLOCKED_RECORDS = 3
    """That waited for memory."""
    MAX_BUFFER_BYTES = 4
    """The most of `buffer.memory` in use."""
    SENDER_LOOPS = 5
    """Iterations of the sender."""
    FIRST_SENT_AT_NS = 6
    LAST_SENT_AT_NS = 7
    LAST_DONE_AT_NS = 8
    """When the last record was acknowledged: records / (this - first sent) is the perf test's throughput."""
    DONE_BODY_BYTES = 9
    """Sum of the acknowledged records' bodies; see `record_size.py`."""


@dataclass(frozen=True, eq=False)
class Histograms:
    """A latency histogram for each unit.

    Attributes:
        counts: Shape (units, `latency_histogram.BUCKET_COUNT`).
        sums_ns: As many as units, like the next two.
        mins_ns: 0 where there is none.
        maxs_ns: 0 where there is none.
    """

    counts: NDArray[np.int64]
    sums_ns: NDArray[np.int64]
    mins_ns: NDArray[np.int64]
    maxs_ns: NDArray[np.int64]

    def of(self, unit: int) -> LatencyHistogram:
        """One unit's."""
        return LatencyHistogram(
            self.counts[unit], int(self.sums_ns[unit]), int(self.mins_ns[unit]), int(self.maxs_ns[unit])
        )

    def merge(self, units: Iterable[int]) -> LatencyHistogram:
        """Several units' as one."""
        return merge_histograms(self.of(unit) for unit in units)


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """One run of a scenario with one seed.

    Attributes:
        scenario: Its name.
        seed: The seed.
        leaders: Of each partition, counted over all topics, the index of its broker.
        producer_count: Rows of queues are producers x partitions.
        end_ns: When the last thing happened.
        queues: Shape (queues, `QueueCounter`), int64.
        connections: Shape (producers x brokers, `ConnectionCounter`), int64.
        producers: Shape (producers, `ProducerCounter`), int64.
        latencies: By queue: from before `send()` until its acknowledgement is handled, by record.
        queue_times: By queue: from a batch's first record until it is drained, by batch; its first attempt.
        request_latencies: By connection: from a request's sending until its response is handled.
        batch_trace: Or None; columns in `trace.py`.
        record_trace: Or None.
        marks: The queues' counters as they were at the times asked for.
    """

    scenario: str
    seed: int
    leaders: tuple[int, ...]
    producer_count: int
    end_ns: int
    queues: NDArray[np.int64]
    connections: NDArray[np.int64]
    producers: NDArray[np.int64]
    latencies: Histograms
    queue_times: Histograms
    request_latencies: Histograms
    batch_trace: pa.Table | None = None
    record_trace: pa.Table | None = None
    marks: tuple[NDArray[np.int64], ...] = ()

    def queues_of_broker(self, broker: int, producer: int | None = None) -> list[int]:
        """Queues of the partitions a broker leads: one producer's, or all."""
        return self._queues_of([p for p, leader in enumerate(self.leaders) if leader == broker], producer)

    def queues_of_partition(self, partition: int, producer: int | None = None) -> list[int]:
        """Queues of a partition, counted over all topics: one producer's, or all."""
        return self._queues_of([partition], producer)

    def queues_of_producer(self, producer: int) -> list[int]:
        """All queues of a producer."""
        return self._queues_of(range(len(self.leaders)), producer)

    def count(self, queues: Iterable[int], column: QueueCounter) -> int:
        """The sum of a counter over queues."""
        return int(sum(self.queues[queue, column] for queue in queues))

    def _queues_of(self, partitions: Iterable[int], producer: int | None) -> list[int]:
        producers = range(self.producer_count) if producer is None else (producer,)
        return [number * len(self.leaders) + partition for number in producers for partition in partitions]
