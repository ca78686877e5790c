"""Counters of a run: records, batches, latencies, and the rows of its traces."""

from pipeline.compilation import njit
from pipeline.simulator.engine.client_state import PartitionQueue, ProducerBatch, ProducerState
from pipeline.simulator.engine.primitives import bit_length_of
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES
from pipeline.simulator.engine.result import BUCKET_COUNT, STEP_BITS
from pipeline.simulator.engine.state import NONE, LatencyBuckets, Simulation

_LAST_BUCKET = BUCKET_COUNT - 1


@njit
def bucket_of(latency_ns: int) -> int:
    """The bucket of a latency that is not negative; see `result`."""
    shift = max(bit_length_of(latency_ns) - STEP_BITS - 1, 0)
    return min((shift << STEP_BITS) + (latency_ns >> shift), _LAST_BUCKET)


@njit
def count_latency(histogram: LatencyBuckets, latency_ns: int) -> None:
    histogram.counts[bucket_of(latency_ns)] += 1
    histogram.sum_ns += latency_ns
    histogram.min_ns = min(histogram.min_ns, latency_ns)
    histogram.max_ns = max(histogram.max_ns, latency_ns)


@njit
def count_append(producer: ProducerState, queue: PartitionQueue, now_ns: int) -> None:
    queue.appended_records += 1
    _count_waiting(queue, now_ns)
    queue.record_count += 1
    used_bytes = producer.buffer_memory_bytes - producer.free_bytes
    producer.max_buffer_bytes = max(producer.max_buffer_bytes, used_bytes)


@njit
def _count_waiting(queue: PartitionQueue, now_ns: int) -> None:
    """Before records come in or go out: those that were in since the last time have waited for so long."""
    queue.in_system_ns += queue.record_count * (now_ns - queue.record_count_since_ns)
    queue.record_count_since_ns = now_ns


@njit
def count_batch(sim: Simulation, producer: ProducerState, batch: ProducerBatch, now_ns: int) -> None:
    queue = sim.queues[batch.queue]
    _count_waiting(queue, now_ns)
    queue.record_count -= batch.record_count
    if batch.is_failed:
        queue.failed_records += batch.record_count
        queue.failed_batches += 1
    else:
        queue.done_records += batch.record_count
        queue.done_batches += 1
        queue.done_bytes += batch.size_bytes
        queue.plain_bytes += batch.record_bytes + BATCH_HEADER_BYTES
        queue.capacity_bytes += batch.capacity_bytes
        producer.last_done_at_ns = now_ns
        producer.done_body_bytes += batch.body_bytes
        _count_latencies(sim, batch, now_ns)
    if sim.run.is_traced:
        _trace_batch(sim, producer, queue, batch, now_ns)


@njit
def _count_latencies(sim: Simulation, batch: ProducerBatch, now_ns: int) -> None:
    histogram = sim.latencies[batch.queue]
    sum_ns, min_ns, max_ns = histogram.sum_ns, histogram.min_ns, histogram.max_ns
    number = batch.first_block
    while number != NONE:
        block = sim.blocks[number]
        for index in range(block.used):
            latency_ns = now_ns - block.sent_at_ns[index]
            histogram.counts[bucket_of(latency_ns)] += 1
            sum_ns += latency_ns
            min_ns = min(min_ns, latency_ns)
            max_ns = max(max_ns, latency_ns)
        number = block.next
    histogram.sum_ns, histogram.min_ns, histogram.max_ns = sum_ns, min_ns, max_ns


@njit
def _trace_batch(
    sim: Simulation, producer: ProducerState, queue: PartitionQueue, batch: ProducerBatch, now_ns: int
) -> None:
    row = sim.batch_rows[batch.row]
    row.rank = sim.run.done_batch_count
    sim.run.done_batch_count += 1
    row.producer = producer.number
    row.partition = queue.partition
    row.batch_number = batch.number
    row.created_at_ns = batch.created_ns
    row.drained_at_ns = batch.drained_ns
    row.done_at_ns = now_ns
    row.record_count = batch.record_count
    row.size_bytes = batch.size_bytes if batch.size_bytes else batch.record_bytes + BATCH_HEADER_BYTES
    row.attempt_count = batch.send_count
    row.is_failed = batch.is_failed
