"""What kernels of the event loop are made of: draws, bit sets and clocks; and what they count.

Draws are numbers of `distributions`, to the bit. A bit set, a row of `Simulation.bitsets`, holds which of a producer's
queues or brokers have something to do; a word holds 32 members: its sign stays clear.

Clocks are a tree whose every node holds the earliest time below it, so the next event is at the root. Node 0 is how
many leaves there are, a power of two; node 1 is the root; the two below node n are 2n and 2n + 1; clock c is node
leaves + c. A clock without a time shows `NEVER`.
"""

from typing import Any

import numba as nb
import numpy as np

from pipeline.compilation import compile_module
from pipeline.simulator.distributions import FIRST_FACTOR, FRACTION_BITS, GAMMA, LEVEL_BITS, LEVEL_COUNT, SECOND_FACTOR
from pipeline.simulator.engine.batches import BATCH_HEADER_BYTES
from pipeline.simulator.engine.client_state import (
    PartitionQueue,
    ProducerBatch,
    ProducerState,
    QuantileTable,
    RandomStream,
)
from pipeline.simulator.engine.result import BUCKET_COUNT, STEP_BITS
from pipeline.simulator.engine.state import NONE, LatencyBuckets, Simulation

Word = Any  # inside a kernel, uint64: mixed with a signed number it would become a float
_GAMMA, _FIRST, _SECOND = np.uint64(GAMMA), np.uint64(FIRST_FACTOR), np.uint64(SECOND_FACTOR)
_LAST_LEVEL = LEVEL_COUNT - 1
_STEP_SHIFT = np.uint64(64 - LEVEL_BITS)
_FRACTION_SHIFT = np.uint64(64 - LEVEL_BITS - FRACTION_BITS)
_FRACTION_MASK = np.uint64((1 << FRACTION_BITS) - 1)


def draw_bits(stream: RandomStream) -> Word:
    """As `distributions.draw_bits`; every draw takes the next count."""
    stream.count += 1
    value = stream.key + np.uint64(stream.count) * _GAMMA
    value = (value ^ value >> np.uint64(30)) * _FIRST
    value = (value ^ value >> np.uint64(27)) * _SECOND
    return value ^ value >> np.uint64(31)


def draw_index(stream: RandomStream, length: int) -> int:
    drawn: int = nb.int64(draw_bits(stream) >> np.uint64(33))
    return drawn % length


def draw_below(stream: RandomStream, end: int) -> int:
    """A whole number from 0 on, below an end of any size."""
    drawn: int = nb.int64(draw_bits(stream) >> np.uint64(1))
    return drawn % end


def draw(distribution: QuantileTable, stream: RandomStream) -> int:
    """As `distributions.draw_quantile`; a distribution with a single value leaves the stream alone."""
    if distribution.is_constant:
        return distribution.value
    bits = draw_bits(stream)
    level = 0
    while level < _LAST_LEVEL and bits >> np.uint64(63) != np.uint64(0):
        bits = bits << np.uint64(1)
        level += 1
    if level < _LAST_LEVEL:
        bits = bits << np.uint64(1)  # the zero that ends the ones
    step: int = nb.int64(bits >> _STEP_SHIFT)
    fraction: int = nb.int64(bits >> _FRACTION_SHIFT & _FRACTION_MASK)
    place = (level << LEVEL_BITS) + step
    low = distribution.quantiles[place]
    return low + ((distribution.quantiles[place + 1] - low) * fraction >> FRACTION_BITS)


def find_delay_ns(sim: Simulation, first: int, count: int, time_ns: int) -> int:
    low, high = first, first + count
    while high - low > 1:
        middle = (low + high) >> 1
        if sim.delays[middle].start_ns <= time_ns:
            low = middle
        else:
            high = middle
    return sim.delays[low].delay_ns


_SHIFT, _MASK = 5, 31
WORD_BITS = 1 << _SHIFT
_EXPONENT_SHIFT, _EXPONENT_BIAS = 52, 1023  # of a double


def add_member(sim: Simulation, row: int, member: int) -> None:
    sim.bitsets[row, member >> _SHIFT] |= 1 << (member & _MASK)


def remove_member(sim: Simulation, row: int, member: int) -> None:
    sim.bitsets[row, member >> _SHIFT] &= ~(1 << (member & _MASK))


def bit_length_of(number: int) -> int:
    """Bits of a number below 2 to the 53rd: the exponent of a double, in two instructions, not a loop over bits."""
    bits = int(np.float64(number).view(np.int64))
    return (bits >> _EXPONENT_SHIFT) - (_EXPONENT_BIAS - 1)


def find_next(sim: Simulation, row: int, member: int) -> int:
    start = member + 1
    word = start >> _SHIFT
    word_count = sim.bitsets.shape[1]
    if word >= word_count:
        return -1
    rest = sim.bitsets[row, word] >> (start & _MASK)
    if rest:
        return start + bit_length_of(rest & -rest) - 1
    for later in range(word + 1, word_count):
        rest = sim.bitsets[row, later]
        if rest:
            return (later << _SHIFT) + bit_length_of(rest & -rest) - 1
    return -1


def is_empty(sim: Simulation, row: int) -> bool:
    members = 0
    for word in range(sim.bitsets.shape[1]):
        members |= sim.bitsets[row, word]
    return members == 0


def clear_set(sim: Simulation, row: int) -> None:
    for word in range(sim.bitsets.shape[1]):
        sim.bitsets[row, word] = 0


def set_clock(sim: Simulation, clock: int, time_ns: int) -> None:
    nodes = sim.clocks
    node = nodes[0] + clock
    nodes[node] = time_ns
    while node > 1:
        earliest_ns = min(nodes[node], nodes[node ^ 1])
        node >>= 1
        if nodes[node] == earliest_ns:
            return
        nodes[node] = earliest_ns


def find_earliest(sim: Simulation) -> int:
    """The clock with the earliest time; of several, that of the lowest number."""
    nodes = sim.clocks
    leaf_count = nodes[0]
    time_ns = nodes[1]
    node = 1
    while node < leaf_count:
        node <<= 1
        if nodes[node] != time_ns:
            node += 1
    return node - leaf_count


_LAST_BUCKET = BUCKET_COUNT - 1


def bucket_of(latency_ns: int) -> int:
    """The bucket of a latency that is not negative; see `result`."""
    shift = max(bit_length_of(latency_ns) - STEP_BITS - 1, 0)
    return min((shift << STEP_BITS) + (latency_ns >> shift), _LAST_BUCKET)


def count_latency(histogram: LatencyBuckets, latency_ns: int) -> None:
    histogram.counts[bucket_of(latency_ns)] += 1
    histogram.sum_ns += latency_ns
    histogram.min_ns = min(histogram.min_ns, latency_ns)
    histogram.max_ns = max(histogram.max_ns, latency_ns)


def count_append(producer: ProducerState, queue: PartitionQueue, now_ns: int) -> None:
    queue.appended_records += 1
    _count_waiting(queue, now_ns)
    queue.record_count += 1
    used_bytes = producer.buffer_memory_bytes - producer.free_bytes
    producer.max_buffer_bytes = max(producer.max_buffer_bytes, used_bytes)


def _count_waiting(queue: PartitionQueue, now_ns: int) -> None:
    """Before records come in or go out: those that were in since the last time have waited for so long."""
    queue.in_system_ns += queue.record_count * (now_ns - queue.record_count_since_ns)
    queue.record_count_since_ns = now_ns


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


compile_module(__name__)
