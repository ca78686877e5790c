"""Counters, latencies and traces of a run."""

import numpy as np
import pyarrow as pa

from pipeline.simulator.engine.result import (
    BATCH_TRACE,
    BUCKET_COUNT,
    RECORD_TRACE,
    ConnectionCounter,
    Histograms,
    ProducerCounter,
    QueueCounter,
    SimulationResult,
)
from pipeline.simulator.scenario.scenario import Scenario
from tests.oracles.simulator.batch import Batch
from tests.oracles.simulator.connection import Request
from tests.oracles.simulator.latencies import bucket_of


class Latencies:
    """Histograms of several units, being filled."""

    def __init__(self, unit_count: int) -> None:
        self._counts = np.zeros((unit_count, BUCKET_COUNT), np.int64)
        self._sums, self._mins, self._maxs = (np.zeros(unit_count, np.int64) for _ in range(3))
        self._is_empty = [True] * unit_count

    def add(self, unit: int, latency_ns: int) -> None:
        """Counts one."""
        self._counts[unit, bucket_of(latency_ns)] += 1
        self._sums[unit] += latency_ns
        self._maxs[unit] = max(self._maxs[unit], latency_ns)
        self._mins[unit] = latency_ns if self._is_empty[unit] else min(self._mins[unit], latency_ns)
        self._is_empty[unit] = False

    def freeze(self) -> Histograms:
        """What was counted."""
        return Histograms(self._counts, self._sums, self._mins, self._maxs)


class Tally:
    """Counts what happens."""

    def __init__(self, scenario: Scenario, seed: int, *, has_traces: bool) -> None:
        self._scenario = scenario
        self._seed = seed
        self._broker_count = len(scenario.brokers)
        self._partition_count = len(scenario.leaders)
        producer_count = len(scenario.producers)
        queue_count = producer_count * self._partition_count
        connection_count = producer_count * self._broker_count
        self._queues = np.zeros((queue_count, len(QueueCounter)), np.int64)
        self._connections = np.zeros((connection_count, len(ConnectionCounter)), np.int64)
        self._producers = np.zeros((producer_count, len(ProducerCounter)), np.int64)
        self._producers[:, ProducerCounter.FIRST_SENT_AT_NS] = -1
        self._latencies = Latencies(queue_count)
        self._queue_times = Latencies(queue_count)
        self._request_latencies = Latencies(connection_count)
        self._in_system = [0] * queue_count
        self._in_system_since_ns = [0] * queue_count
        self._batch_rows: list[tuple[int | bool, ...]] | None = [] if has_traces else None
        self._record_rows: list[tuple[int | bool, ...]] | None = [] if has_traces else None

    def count_send(self, producer: int, now_ns: int) -> None:
        """`send()` is called."""
        row = self._producers[producer]
        row[ProducerCounter.SENT_RECORDS] += 1
        if row[ProducerCounter.FIRST_SENT_AT_NS] < 0:
            row[ProducerCounter.FIRST_SENT_AT_NS] = now_ns
        row[ProducerCounter.LAST_SENT_AT_NS] = now_ns

    def count_refused(self, producer: int) -> None:
        """`send()` failed."""
        self._producers[producer, ProducerCounter.REFUSED_RECORDS] += 1

    def count_blocked(self, producer: int, blocked_ns: int) -> None:
        """`send()` had waited for memory."""
        self._producers[producer, ProducerCounter.BLOCKED_RECORDS] += 1
        self._producers[producer, ProducerCounter.BLOCKED_NS] += blocked_ns

    def count_append(self, producer: int, queue: int, now_ns: int, used_bytes: int) -> None:
        """A record was put into a batch; so much of `buffer.memory` is in use."""
        self._queues[queue, QueueCounter.APPENDED_RECORDS] += 1
        self._move(queue, 1, now_ns)
        row = self._producers[producer]
        row[ProducerCounter.MAX_BUFFER_BYTES] = max(row[ProducerCounter.MAX_BUFFER_BYTES], used_bytes)

    def count_turn(self, producer: int) -> None:
        """The sender made a turn."""
        self._producers[producer, ProducerCounter.SENDER_LOOPS] += 1

    def count_request(self, producer: int, broker: int, request: Request, in_flight_count: int) -> None:
        """A request was sent."""
        row = self._connections[producer * self._broker_count + broker]
        row[ConnectionCounter.REQUESTS] += 1
        row[ConnectionCounter.BATCHES] += len(request.batches)
        row[ConnectionCounter.BYTES] += request.size_bytes
        row[ConnectionCounter.MAX_IN_FLIGHT] = max(row[ConnectionCounter.MAX_IN_FLIGHT], in_flight_count)
        for batch in request.batches:
            if batch.attempt_count == 0:
                self._queue_times.add(batch.queue_number, request.sent_ns - batch.created_ns)

    def count_response(self, producer: int, broker: int, request: Request, now_ns: int) -> None:
        """A response was handled."""
        connection = producer * self._broker_count + broker
        self._connections[connection, ConnectionCounter.ERRORS] += request.is_error or bool(request.refused)
        self._connections[connection, ConnectionCounter.THROTTLED_NS] += request.throttle_ns
        self._request_latencies.add(connection, now_ns - request.sent_ns)

    def count_timeouts(self, producer: int, broker: int, count: int) -> None:
        """Requests were given up."""
        self._connections[producer * self._broker_count + broker, ConnectionCounter.TIMED_OUT] += count

    def count_retry(self, batch: Batch) -> None:
        """A batch goes back."""
        self._queues[batch.queue_number, QueueCounter.RETRIES] += 1

    def count_batch(self, producer: int, batch: Batch, now_ns: int, *, is_failed: bool) -> None:
        """A batch is done."""
        row = self._queues[batch.queue_number]
        count = len(batch.records)
        row[QueueCounter.FAILED_RECORDS if is_failed else QueueCounter.DONE_RECORDS] += count
        row[QueueCounter.FAILED_BATCHES if is_failed else QueueCounter.DONE_BATCHES] += 1
        self._move(batch.queue_number, -count, now_ns)
        if not is_failed:
            row[QueueCounter.DONE_BYTES] += batch.size_bytes
            row[QueueCounter.PLAIN_BYTES] += batch.plain_bytes
            row[QueueCounter.CAPACITY_BYTES] += batch.capacity_bytes
            for record, _ in batch.records:
                self._latencies.add(batch.queue_number, now_ns - record.sent_at_ns)
            producer_row = self._producers[producer]
            producer_row[ProducerCounter.LAST_DONE_AT_NS] = now_ns
            producer_row[ProducerCounter.DONE_BODY_BYTES] += sum(record.body_bytes for record, _ in batch.records)
        self._trace(producer, batch, now_ns, is_failed=is_failed)

    def _move(self, queue: int, count: int, now_ns: int) -> None:
        """Records come in or go out: what was in since the last time counts."""
        self._queues[queue, QueueCounter.IN_SYSTEM_NS] += self._in_system[queue] * (
            now_ns - self._in_system_since_ns[queue]
        )
        self._in_system[queue] += count
        self._in_system_since_ns[queue] = now_ns

    def _trace(self, producer: int, batch: Batch, now_ns: int, *, is_failed: bool) -> None:
        if self._batch_rows is None or self._record_rows is None:
            return
        partition = batch.queue_number - producer * self._partition_count
        times = (batch.created_ns, batch.drained_ns[1], now_ns)
        sizes = (len(batch.records), batch.size_bytes or batch.plain_bytes, batch.send_count)
        self._batch_rows.append((producer, partition, batch.number, *times, *sizes, is_failed))
        for one, _ in batch.records:
            place = (producer, one.thread, partition, batch.number)
            self._record_rows.append((*place, one.sent_at_ns, now_ns, one.body_bytes, is_failed))

    def freeze(self, end_ns: int) -> SimulationResult:
        """What was counted, as a result."""
        return SimulationResult(
            scenario=self._scenario.name,
            seed=self._seed,
            leaders=self._scenario.leaders,
            producer_count=len(self._scenario.producers),
            end_ns=end_ns,
            queues=self._queues,
            connections=self._connections,
            producers=self._producers,
            latencies=self._latencies.freeze(),
            queue_times=self._queue_times.freeze(),
            request_latencies=self._request_latencies.freeze(),
            batch_trace=_make_table(self._batch_rows, BATCH_TRACE),
            record_trace=_make_table(self._record_rows, RECORD_TRACE),
        )


def _make_table(rows: list[tuple[int | bool, ...]] | None, schema: pa.Schema) -> pa.Table | None:
    if rows is None:
        return None
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)
