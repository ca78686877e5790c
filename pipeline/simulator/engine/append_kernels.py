"""How a record gets into a batch, for kernels: `reference.append` and `reference.buffer_pool`, in the run's memory.

Attempts return three numbers: the lane (`NONE` where it is still open), the memory to come back with (0 if the record is
appended), and memory that was allocated and is not needed.
"""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.batch_kernels import has_room, is_full, measure_record, put_record, take_batch
from pipeline.simulator.engine.placement_kernels import (
    choose_partition,
    count_run,
    draw_run,
    mark_lane,
    note_length,
    rotate_sticky,
)
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES, FIXED_BODY_BYTES, MAX_RECORD_OVERHEAD_BYTES

Array = Any  # inside a kernel, an array's items are Numba's numbers
Outcome = tuple[int, int, int]

MS = 1_000_000
_BOUND_BYTES = BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES - FIXED_BODY_BYTES


@part
def round_time(memory: Array, producer: int, time_ns: int) -> int:
    """The clock as the client reads it: whole milliseconds in Java."""
    if memory[producer + at.PRODUCER_IS_JAVA]:
        return time_ns // MS * MS
    return time_ns


@part
def bound_batch(body_bytes: int) -> int:
    """As `record_size.estimate_batch_bytes`."""
    return body_bytes + _BOUND_BYTES


@part
def allocate(memory: Array, producer: int, size_bytes: int) -> bool:
    """Takes memory if there is enough and nobody waits."""
    free_bytes = memory[producer + at.PRODUCER_FREE_BYTES]
    if memory[producer + at.PRODUCER_FIRST_WAITING] != at.NONE or free_bytes < size_bytes:
        return False
    memory[producer + at.PRODUCER_FREE_BYTES] = free_bytes - size_bytes
    return True


@part
def is_all_full(memory: Array, producer: int, lane: int) -> bool:
    """Nothing waits in a lane, or its newest batch is full."""
    tail = memory[lane + at.LANE_TAIL]
    return tail == at.NONE or is_full(memory, tail, memory[producer + at.PRODUCER_RECORD_LIMIT])


@part
def _make_lane(memory: Array, lane: int) -> None:
    if not memory[lane + at.LANE_IS_MADE]:
        memory[lane + at.LANE_IS_MADE] = 1
        memory[memory[lane + at.LANE_STATE] + at.STATE_MADE_COUNT] += 1


@part
def _put(memory: Array, producer: int, batch: int, thread: int, record_bytes: int) -> int:
    return put_record(
        memory,
        batch,
        record_bytes,
        memory[thread + at.THREAD_BODY_BYTES],
        memory[thread + at.THREAD_SENT_AT],
        memory[thread + at.THREAD_CREATED_AT],
        memory[thread + at.THREAD_NUMBER],
        memory[producer + at.PRODUCER_RATIO_PPM] >= 0,
    )


@part
def _measure(memory: Array, batch: int, thread: int) -> int:
    return measure_record(memory, batch, memory[thread + at.THREAD_BODY_BYTES], memory[thread + at.THREAD_CREATED_AT])


@part
def _try_append(memory: Array, producer: int, lane: int, thread: int) -> int:
    """Puts a record into the newest batch, and returns the bytes added; -1 if there is no room, and it is closed."""
    tail = memory[lane + at.LANE_TAIL]
    if tail == at.NONE:
        return -1
    record_bytes = _measure(memory, tail, thread)
    if not has_room(memory, tail, memory[producer + at.PRODUCER_RECORD_LIMIT], record_bytes):
        memory[tail + at.BATCH_IS_CLOSED] = 1
        return -1
    return _put(memory, producer, tail, thread, record_bytes)


@part
def _measure_buffer(memory: Array, producer: int, thread: int) -> int:
    return max(memory[producer + at.PRODUCER_BATCH_BYTES], bound_batch(memory[thread + at.THREAD_BODY_BYTES]))


@part
def _open_batch(memory: Array, producer: int, lane: int, thread: int, now_ns: int, buffer_bytes: int) -> int:
    """Opens a batch with a record, and returns its bytes; the memory is already allocated."""
    batch = take_batch(memory)
    if memory[at.IS_TRACED]:
        memory[at.RESERVE] += at.ROW_SHARE_WORDS
    memory[batch + at.BATCH_LANE] = lane
    memory[batch + at.BATCH_NUMBER] = memory[lane + at.LANE_BATCH_COUNT]
    memory[batch + at.BATCH_CREATED] = now_ns
    memory[batch + at.BATCH_CAPACITY_BYTES] = _measure_buffer(memory, producer, thread)
    memory[batch + at.BATCH_CLAIMED_BYTES] = buffer_bytes
    memory[batch + at.BATCH_RATIO] = memory[memory[lane + at.LANE_STATE] + at.STATE_RATIO]
    memory[batch + at.BATCH_LAST_ATTEMPT_MS] = now_ns // MS
    memory[batch + at.BATCH_SEQUENCE] = -1
    memory[batch + at.BATCH_FIRST_DRAINED] = -1
    memory[batch + at.BATCH_LAST_DRAINED] = -1
    memory[lane + at.LANE_BATCH_COUNT] += 1
    note_length(memory, producer, lane)
    memory[lane + at.LANE_LENGTH] += 1
    tail = memory[lane + at.LANE_TAIL]
    memory[lane + at.LANE_TAIL] = batch
    if tail == at.NONE:
        memory[lane + at.LANE_HEAD] = batch
        mark_lane(memory, producer, lane)
    else:
        memory[tail + at.BATCH_NEXT] = batch
    expiry_ns = round_time(memory, producer, now_ns) + memory[producer + at.PRODUCER_DELIVERY_TIMEOUT]
    memory[producer + at.PRODUCER_EXPIRY] = min(memory[producer + at.PRODUCER_EXPIRY], expiry_ns)
    return _put(memory, producer, batch, thread, _measure(memory, batch, thread))


@part
def append_built_in(memory: Array, producer: int, thread: int, now_ns: int, buffer_bytes: int) -> Outcome:
    """KIP-794: the sticky partition may change before, between and after the two attempts."""
    state = memory[thread + at.THREAD_STATE]
    if memory[state + at.STATE_RUN] < 0:
        draw_run(memory, producer, state)
    while True:
        lane = memory[state + at.STATE_LANES] + memory[state + at.STATE_RUN] * at.LANE_WORDS
        if _has_moved_on(memory, producer, state, lane):
            continue
        added_bytes = _try_append(memory, producer, lane, thread)
        if added_bytes >= 0:
            break
        if buffer_bytes == 0:
            needed_bytes = _measure_buffer(memory, producer, thread)
            if not allocate(memory, producer, needed_bytes):
                return at.NONE, needed_bytes, 0
            buffer_bytes = needed_bytes
        if _has_moved_on(memory, producer, state, lane):
            continue
        added_bytes = _open_batch(memory, producer, lane, thread, now_ns, buffer_bytes)
        buffer_bytes = 0
        break
    count_run(memory, producer, state, added_bytes, is_all_full(memory, producer, lane))
    return lane, 0, buffer_bytes


@part
def _has_moved_on(memory: Array, producer: int, state: int, lane: int) -> bool:
    """If all batches are full by now, the partitioner is asked again."""
    _make_lane(memory, lane)
    return is_all_full(memory, producer, lane) and count_run(memory, producer, state, 0, True)


@part
def append_chosen(memory: Array, producer: int, thread: int, lane: int, now_ns: int, buffer_bytes: int) -> Outcome:
    """Appends to a partition that stands."""
    _make_lane(memory, lane)
    if _try_append(memory, producer, lane, thread) >= 0:
        return lane, 0, buffer_bytes
    if buffer_bytes == 0:
        buffer_bytes = _measure_buffer(memory, producer, thread)
        if not allocate(memory, producer, buffer_bytes):
            return lane, buffer_bytes, 0
    _open_batch(memory, producer, lane, thread, now_ns, buffer_bytes)
    return lane, 0, 0


@part
def append_queued(memory: Array, producer: int, thread: int, lane: int, now_ns: int, buffer_bytes: int) -> Outcome:
    """librdkafka: memory is claimed for each record, not for a batch."""
    body_bytes = memory[thread + at.THREAD_BODY_BYTES]
    if buffer_bytes == 0 and not allocate(memory, producer, body_bytes):
        return lane, body_bytes, 0
    if _try_append(memory, producer, lane, thread) >= 0:
        memory[memory[lane + at.LANE_TAIL] + at.BATCH_CLAIMED_BYTES] += body_bytes
    else:
        _open_batch(memory, producer, lane, thread, now_ns, body_bytes)
    return lane, 0, 0


@part
def _choose_lane(memory: Array, producer: int, thread: int, now_ns: int) -> int:
    partition = memory[thread + at.THREAD_PARTITION]
    state = memory[thread + at.THREAD_STATE]
    if partition < 0:
        partition = choose_partition(memory, producer, state, now_ns)
    return memory[state + at.STATE_LANES] + partition * at.LANE_WORDS


@part
def append_record(memory: Array, producer: int, thread: int, now_ns: int) -> Outcome:
    """Appends the record a thread sends, unless it needs memory that is not there."""
    is_java = memory[producer + at.PRODUCER_IS_JAVA]
    if is_java and memory[producer + at.PRODUCER_IS_BUILT_IN] and memory[thread + at.THREAD_PARTITION] < 0:
        return append_built_in(memory, producer, thread, now_ns, 0)
    lane = _choose_lane(memory, producer, thread, now_ns)
    if not is_java:
        return append_queued(memory, producer, thread, lane, now_ns, 0)
    if memory[producer + at.PRODUCER_ASKS_TWICE]:
        if _try_append(memory, producer, lane, thread) >= 0:
            return lane, 0, 0
        if memory[producer + at.PRODUCER_PLACEMENT] == at.STICKY:
            state = memory[thread + at.THREAD_STATE]
            rotate_sticky(memory, state, (lane - memory[state + at.STATE_LANES]) // at.LANE_WORDS)
        lane = _choose_lane(memory, producer, thread, now_ns)
    return append_chosen(memory, producer, thread, lane, now_ns, 0)


@part
def append_with_memory(memory: Array, producer: int, thread: int, lane: int, now_ns: int, buffer_bytes: int) -> Outcome:
    """Appends a record that waited for memory: to the lane chosen before, or `NONE` where the built-in one asks."""
    if not memory[producer + at.PRODUCER_IS_JAVA]:
        return append_queued(memory, producer, thread, lane, now_ns, buffer_bytes)
    if lane == at.NONE:
        return append_built_in(memory, producer, thread, now_ns, buffer_bytes)
    return append_chosen(memory, producer, thread, lane, now_ns, buffer_bytes)
