"""Counters, latencies and traces for kernels: `reference.tally`, in the run's memory."""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.batch_kernels import take_block
from pipeline.simulator.engine.histogram_kernels import bucket_of, count_latency, note_extremes
from pipeline.simulator.engine.latency_histogram import BUCKET_COUNT
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES

Array = Any  # inside a kernel, an array's items are Numba's numbers

_BATCH_ROW_WORDS, _RECORD_ROW_WORDS = at.BATCH_ROW_WORDS, at.RECORD_ROW_WORDS


@part
def count_send(memory: Array, producer: int, now_ns: int) -> None:
    """`send()` is called."""
    memory[producer + at.SENT_RECORDS] += 1
    if memory[producer + at.FIRST_SENT_AT_NS] < 0:
        memory[producer + at.FIRST_SENT_AT_NS] = now_ns
    memory[producer + at.LAST_SENT_AT_NS] = now_ns


@part
def count_append(memory: Array, producer: int, lane: int, now_ns: int) -> None:
    """A record was put into a batch."""
    memory[lane + at.APPENDED_RECORDS] += 1
    _move(memory, lane, 1, now_ns)
    used_bytes = memory[producer + at.PRODUCER_BUFFER_BYTES] - memory[producer + at.PRODUCER_FREE_BYTES]
    memory[producer + at.MAX_BUFFER_BYTES] = max(memory[producer + at.MAX_BUFFER_BYTES], used_bytes)


@part
def _move(memory: Array, lane: int, count: int, now_ns: int) -> None:
    """Records come in or go out: what was in since the last time counts."""
    in_system = memory[lane + at.LANE_RECORDS]
    memory[lane + at.IN_SYSTEM_NS] += in_system * (now_ns - memory[lane + at.LANE_RECORDS_SINCE])
    memory[lane + at.LANE_RECORDS] = in_system + count
    memory[lane + at.LANE_RECORDS_SINCE] = now_ns


@part
def count_queue_time(memory: Array, batch: int, now_ns: int) -> None:
    """A batch was sent for the first time."""
    lane = memory[memory[batch + at.BATCH_LANE] + at.LANE_NUMBER]
    counts = memory[at.QUEUE_TIMES] + lane * BUCKET_COUNT
    extremes = memory[at.QUEUE_TIME_EXTREMES] + lane * 3
    count_latency(memory, counts, extremes, now_ns - memory[batch + at.BATCH_CREATED])


@part
def count_request(memory: Array, connection: int, request: int) -> None:
    """A request was sent."""
    memory[connection + at.REQUESTS] += 1
    memory[connection + at.BATCHES] += memory[request + at.REQUEST_BATCH_COUNT]
    memory[connection + at.BYTES] += memory[request + at.REQUEST_BYTES]
    in_flight = memory[connection + at.CONNECTION_IN_FLIGHT_COUNT]
    memory[connection + at.MAX_IN_FLIGHT] = max(memory[connection + at.MAX_IN_FLIGHT], in_flight)


@part
def count_response(memory: Array, connection: int, request: int, has_error: bool, now_ns: int) -> None:
    """A response was handled."""
    memory[connection + at.ERRORS] += has_error
    memory[connection + at.THROTTLED_NS] += memory[request + at.REQUEST_THROTTLE]
    number = memory[connection + at.CONNECTION_NUMBER]
    counts = memory[at.REQUEST_LATENCIES] + number * BUCKET_COUNT
    extremes = memory[at.REQUEST_LATENCY_EXTREMES] + number * 3
    count_latency(memory, counts, extremes, now_ns - memory[request + at.REQUEST_SENT_AT])


@part
def count_batch(memory: Array, producer: int, batch: int, now_ns: int, is_failed: bool) -> None:
    """A batch is done."""
    lane = memory[batch + at.BATCH_LANE]
    count = memory[batch + at.BATCH_RECORD_COUNT]
    _move(memory, lane, -count, now_ns)
    if is_failed:
        memory[lane + at.FAILED_RECORDS] += count
        memory[lane + at.FAILED_BATCHES] += 1
    else:
        memory[lane + at.DONE_RECORDS] += count
        memory[lane + at.DONE_BATCHES] += 1
        memory[lane + at.DONE_BYTES] += memory[batch + at.BATCH_SIZE_BYTES]
        memory[lane + at.PLAIN_BYTES] += memory[batch + at.BATCH_RECORD_BYTES] + BATCH_HEADER_BYTES
        memory[lane + at.CAPACITY_BYTES] += memory[batch + at.BATCH_CAPACITY_BYTES]
        memory[producer + at.LAST_DONE_AT_NS] = now_ns
        memory[producer + at.DONE_BODY_BYTES] += memory[batch + at.BATCH_BODY_BYTES]
        _count_latencies(memory, lane, batch, now_ns)
    if memory[at.IS_TRACED]:
        _trace_batch(memory, producer, batch, now_ns, is_failed)


@part
def _count_latencies(memory: Array, lane: int, batch: int, now_ns: int) -> None:
    number = memory[lane + at.LANE_NUMBER]
    counts = memory[at.LATENCIES] + number * BUCKET_COUNT
    words = memory[at.RECORD_WORDS]
    sum_ns, least_ns, largest_ns = 0, 1 << 62, 0
    block = memory[batch + at.BATCH_BLOCKS]
    while block != at.NONE:
        first = block + at.BLOCK_ITEMS
        for place in range(first, first + memory[block + at.BLOCK_USED], words):
            latency_ns = now_ns - memory[place]
            memory[counts + bucket_of(latency_ns)] += 1
            sum_ns += latency_ns
            least_ns = min(least_ns, latency_ns)
            largest_ns = max(largest_ns, latency_ns)
        block = memory[block + at.BLOCK_NEXT]
    note_extremes(memory, memory[at.LATENCY_EXTREMES] + number * 3, sum_ns, least_ns, largest_ns)


@part
def _take_row(memory: Array, last_block: int, row_words: int) -> int:
    """A row of a trace in the world's last block for it, or a new one."""
    block = memory[last_block]
    if memory[block + at.BLOCK_USED] + row_words > at.BLOCK_RECORD_WORDS:
        new_block = take_block(memory)
        memory[block + at.BLOCK_NEXT] = new_block
        memory[last_block] = new_block
        block = new_block
    row = block + at.BLOCK_ITEMS + memory[block + at.BLOCK_USED]
    memory[block + at.BLOCK_USED] += row_words
    return row


@part
def _trace_batch(memory: Array, producer: int, batch: int, now_ns: int, is_failed: bool) -> None:
    lane = memory[batch + at.BATCH_LANE]
    count = memory[batch + at.BATCH_RECORD_COUNT]
    size_bytes = memory[batch + at.BATCH_SIZE_BYTES]
    row = _take_row(memory, at.LAST_BATCH_ROWS, _BATCH_ROW_WORDS)
    memory[row] = memory[producer + at.PRODUCER_NUMBER]
    memory[row + 1] = memory[lane + at.LANE_PARTITION]
    memory[row + 2] = memory[batch + at.BATCH_NUMBER]
    memory[row + 3] = memory[batch + at.BATCH_CREATED]
    memory[row + 4] = memory[batch + at.BATCH_LAST_DRAINED]
    memory[row + 5] = now_ns
    memory[row + 6] = count
    memory[row + 7] = size_bytes if size_bytes else memory[batch + at.BATCH_RECORD_BYTES] + BATCH_HEADER_BYTES
    memory[row + 8] = memory[batch + at.BATCH_SEND_COUNT]
    memory[row + 9] = is_failed
    block = memory[batch + at.BATCH_BLOCKS]
    while block != at.NONE:
        first = block + at.BLOCK_ITEMS
        for place in range(first, first + memory[block + at.BLOCK_USED], 3):
            record_row = _take_row(memory, at.LAST_RECORD_ROWS, _RECORD_ROW_WORDS)
            memory[record_row] = memory[row]
            memory[record_row + 1] = memory[place + 1]
            memory[record_row + 2] = memory[row + 1]
            memory[record_row + 3] = memory[row + 2]
            memory[record_row + 4] = memory[place]
            memory[record_row + 5] = now_ns
            memory[record_row + 6] = memory[place + 2]
            memory[record_row + 7] = is_failed
        block = memory[block + at.BLOCK_NEXT]
    memory[at.RESERVE] -= (count + 1) * at.ROW_SHARE_WORDS
