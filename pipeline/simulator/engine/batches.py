"""Batches (`ProducerBatch`, `MemoryRecordsBuilder`): sizes of records, what goes into one, when it is full.

Batches and the blocks that hold their records' times come from pools: a free one is used again, else the next of the
array. An event takes one of each at most, so there is always room for the next.

A record's *body* is measured with offset and timestamp deltas of one byte each: 1 attribute byte, the two deltas, the
key's and the value's length as varints (a null's is one byte) and their bytes, the count of headers and the headers.
Longer deltas add to it where the record is put into a batch. How large a compressed batch will be is estimated in
single precision, as in Java.

References: Kafka `DefaultRecord`, `DefaultRecordBatch`, `MemoryRecordsBuilder.estimatedBytesWritten`,
`CompressionRatioEstimator.updateEstimation`.
"""

import numpy as np

from pipeline.compilation import njit, portable
from pipeline.simulator.engine.client_state import BLOCK_LENGTH, PartitionQueue, ProducerBatch, ProducerState, TopicInfo
from pipeline.simulator.engine.state import MS, NONE, Simulation, ThreadState

BATCH_HEADER_BYTES = 61
MAX_RECORD_OVERHEAD_BYTES = 21
FIXED_BODY_BYTES = 3  # attributes and the two deltas at their shortest
_BOUND_BYTES = BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES - FIXED_BODY_BYTES
FIRST_RATIO = np.float32(1.0)  # the compression ratio assumed for a topic and codec before a batch was compressed
ESTIMATION_FACTOR = np.float32(1.05)
RATIO_STEP_UP = np.float32(0.05)
RATIO_STEP_DOWN = np.float32(0.005)


@portable
def measure_varint_bytes(value: int) -> int:
    """Bytes of a zig-zag varint of a number of at most 62 bits."""
    rest = value << 1 ^ value >> 63
    size_bytes = 1
    while rest >= 128:
        rest >>= 7
        size_bytes += 1
    return size_bytes


def measure_body_bytes(key_bytes: int, value_bytes: int, header_bytes: int = 1) -> int:
    """Bytes of a body with deltas of one byte; length -1 is no key or value, `header_bytes` includes their count."""
    return FIXED_BODY_BYTES + _measure_field_bytes(key_bytes) + _measure_field_bytes(value_bytes) + header_bytes


def _measure_field_bytes(length: int) -> int:
    return 1 if length < 0 else measure_varint_bytes(length) + length


@portable
def measure_record_bytes(body_bytes: int, offset_delta: int, timestamp_delta_ms: int) -> int:
    """Bytes of a record at its place in a batch."""
    long_bytes = measure_varint_bytes(offset_delta) + measure_varint_bytes(timestamp_delta_ms) - 2
    return measure_varint_bytes(body_bytes + long_bytes) + body_bytes + long_bytes


@portable
def estimate_batch_bytes(body_bytes: int) -> int:
    """An upper bound of a batch with this record alone: what the client allocates and checks sizes by."""
    return body_bytes + _BOUND_BYTES


@portable
def estimate_compressed_bytes(records_bytes: int, ratio: np.float32) -> int:
    """A compressed batch's bytes while it is being filled, header included, by the ratio assumed when it was begun."""
    return BATCH_HEADER_BYTES + int(np.float32(records_bytes) * ratio * ESTIMATION_FACTOR)


@portable
def update_ratio(ratio: np.float32, observed: np.float32) -> np.float32:
    """The ratio assumed after a batch of the same topic and codec was closed with the observed one."""
    if observed > ratio:
        return np.float32(max(ratio + RATIO_STEP_UP, observed))
    if observed < ratio:
        return np.float32(max(ratio - RATIO_STEP_DOWN, observed))
    return ratio


@njit
def measure_buffer(producer: ProducerState, thread: ThreadState) -> int:
    return max(producer.batch_bytes, estimate_batch_bytes(thread.body_bytes))  # more for a record that needs more


@njit
def open_batch(
    sim: Simulation, producer: ProducerState, queue: PartitionQueue, now_ns: int, thread: ThreadState, buffer_bytes: int
) -> int:
    run = sim.run
    number = run.free_batch
    if number != NONE:
        run.free_batch = sim.batches[number].next
    else:
        run.batch_count += 1
        number = run.batch_count
        run.is_short |= number + 1 >= len(sim.batches)
    sim.batches[number] = sim.batches[NONE]
    batch = sim.batches[number]
    batch.queue = queue.number
    batch.number = queue.batch_count
    batch.created_ns = now_ns
    batch.capacity_bytes = measure_buffer(producer, thread)
    batch.claimed_bytes = buffer_bytes
    batch.compression_ratio = sim.topics[queue.topic].compression_ratio
    batch.last_attempt_ms = now_ns // MS
    queue.batch_count += 1
    if run.is_traced:
        batch.row = run.opened_batch_count
        run.opened_batch_count += 1
        run.is_short |= run.opened_batch_count >= len(sim.batch_rows)
    return number


@njit
def free_batch(sim: Simulation, number: int) -> None:
    batch = sim.batches[number]
    if batch.last_block != NONE:
        sim.blocks[batch.last_block].next = sim.run.free_block
        sim.run.free_block = batch.first_block
    batch.next = sim.run.free_batch
    sim.run.free_batch = number


@njit
def is_full(batch: ProducerBatch, record_limit: int) -> bool:
    """It is closed, or no byte is left (`isFull`)."""
    if batch.is_closed or 0 < record_limit <= batch.record_count:
        return True
    return batch.record_count > 0 and batch.capacity_bytes <= batch.estimated_bytes


@njit
def try_append(sim: Simulation, producer: ProducerState, number: int, thread: ThreadState) -> int:
    """Puts a record into a batch, and returns the uncompressed bytes added; -1 if there is no room for another one."""
    batch = sim.batches[number]
    delta_ms = 0
    if batch.record_count:
        delta_ms = thread.created_at_ns // MS - batch.first_created_ms
    record_bytes = measure_record_bytes(thread.body_bytes, batch.record_count, delta_ms)
    if is_full(batch, producer.batch_record_count):
        return -1
    if batch.record_count and batch.capacity_bytes - batch.estimated_bytes < record_bytes:
        return -1
    if batch.record_count == 0:
        batch.first_created_ms = thread.created_at_ns // MS
    before_bytes = batch.estimated_bytes
    batch.record_count += 1
    batch.record_bytes += record_bytes
    batch.body_bytes += thread.body_bytes
    if producer.compression_ratio_ppm >= 0:
        batch.estimated_bytes = estimate_compressed_bytes(batch.record_bytes, batch.compression_ratio)
    else:
        batch.estimated_bytes = BATCH_HEADER_BYTES + batch.record_bytes
    _keep_time(sim, batch, thread)
    return batch.estimated_bytes - before_bytes


@njit
def _keep_time(sim: Simulation, batch: ProducerBatch, thread: ThreadState) -> None:
    run = sim.run
    number = batch.last_block
    if number == NONE or sim.blocks[number].used == BLOCK_LENGTH:
        number = _take_block(sim)
        if batch.last_block == NONE:
            batch.first_block = number
        else:
            sim.blocks[batch.last_block].next = number
        batch.last_block = number
    block = sim.blocks[number]
    block.sent_at_ns[block.used] = thread.sent_at_ns
    block.used += 1
    if run.is_traced:
        row = sim.record_rows[run.appended_record_count]
        row.batch_row = batch.row
        row.thread = thread.number
        row.sent_at_ns = thread.sent_at_ns
        row.body_bytes = thread.body_bytes
        run.appended_record_count += 1
        run.is_short |= run.appended_record_count >= len(sim.record_rows)


@njit
def _take_block(sim: Simulation) -> int:
    run = sim.run
    number = run.free_block
    if number != NONE:
        run.free_block = sim.blocks[number].next
    else:
        run.block_count += 1
        number = run.block_count
        run.is_short |= number + 1 >= len(sim.blocks)
    sim.blocks[number].next = NONE
    sim.blocks[number].used = 0
    return number


@njit
def close_batch(producer: ProducerState, topic: TopicInfo, batch: ProducerBatch) -> None:
    """Closes a batch for good (`close`): its size is known, and the topic's compression ratio learns from it."""
    batch.is_closed = True
    if batch.size_bytes:
        return
    written_bytes = batch.record_bytes
    if producer.compression_ratio_ppm >= 0:
        compressed_bytes = written_bytes * producer.compression_ratio_ppm // 1_000_000
        # a codec's frame makes no batch larger than it was
        framed_bytes = min(written_bytes, compressed_bytes + producer.compression_overhead_bytes)
        written_bytes = max(compressed_bytes, framed_bytes)
        observed = np.float32(written_bytes) / np.float32(batch.record_bytes)
        topic.compression_ratio = update_ratio(topic.compression_ratio, observed)
    batch.size_bytes = BATCH_HEADER_BYTES + written_bytes
    batch.estimated_bytes = batch.size_bytes
