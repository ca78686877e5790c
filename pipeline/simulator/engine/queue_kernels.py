"""Lanes for kernels: taking batches from them, putting them back, ending them; from `reference.accumulator`."""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.append_kernels import round_time
from pipeline.simulator.engine.batch_kernels import close_batch, read_ratio, write_ratio
from pipeline.simulator.engine.clock_kernels import set_clock
from pipeline.simulator.engine.placement_kernels import mark_lane, note_length, unmark_lane
from pipeline.simulator.engine.size_kernels import update_ratio
from pipeline.simulator.engine.tally_kernels import count_batch

Array = Any  # inside a kernel, an array's items are Numba's numbers

MS = 1_000_000


@part
def pop_batch(memory: Array, producer: int, lane: int) -> int:
    """Takes the oldest batch off a lane."""
    batch = memory[lane + at.LANE_HEAD]
    note_length(memory, producer, lane)
    memory[lane + at.LANE_LENGTH] -= 1
    following = memory[batch + at.BATCH_NEXT]
    memory[lane + at.LANE_HEAD] = following
    memory[batch + at.BATCH_NEXT] = at.NONE
    if following == at.NONE:
        memory[lane + at.LANE_TAIL] = at.NONE
        unmark_lane(memory, producer, lane)
    return batch


@part
def take_to_send(memory: Array, producer: int, lane: int, now_ns: int) -> int:
    """Takes the oldest batch off a lane to send it."""
    batch = pop_batch(memory, producer, lane)
    if memory[producer + at.PRODUCER_IS_IDEMPOTENT] and memory[batch + at.BATCH_SEQUENCE] < 0:
        memory[batch + at.BATCH_SEQUENCE] = memory[lane + at.LANE_NEXT_SEQUENCE]
        memory[lane + at.LANE_NEXT_SEQUENCE] += 1
        last = memory[lane + at.LANE_LAST_SENT]
        memory[batch + at.BATCH_PREVIOUS_SENT] = last
        if last != at.NONE:
            memory[last + at.BATCH_NEXT_SENT] = batch
        memory[lane + at.LANE_LAST_SENT] = batch
    ratio_ppm = memory[producer + at.PRODUCER_RATIO_PPM]
    observed = close_batch(memory, batch, ratio_ppm, memory[producer + at.PRODUCER_OVERHEAD_BYTES])
    if observed >= 0:
        word = memory[lane + at.LANE_STATE] + at.STATE_RATIO
        write_ratio(memory, word, update_ratio(read_ratio(memory, word), observed))
    memory[batch + at.BATCH_SEND_COUNT] += 1
    if memory[batch + at.BATCH_FIRST_DRAINED] < 0:
        memory[batch + at.BATCH_FIRST_DRAINED] = now_ns
    memory[batch + at.BATCH_LAST_DRAINED] = now_ns
    if memory[producer + at.PRODUCER_MAX_IN_FLIGHT] == 1:
        memory[lane + at.LANE_IS_MUTED] = 1
    return batch


@part
def is_next(memory: Array, batch: int) -> bool:
    """No batch of the lane that was sent before is still on its way."""
    return memory[batch + at.BATCH_SEQUENCE] < 0 or memory[batch + at.BATCH_PREVIOUS_SENT] == at.NONE


@part
def put_back(memory: Array, producer: int, batch: int, now_ns: int, backoff_ms: int) -> None:
    """Queues a batch that came back with an error: first, or if idempotent after those first sent before it."""
    memory[batch + at.BATCH_ATTEMPT_COUNT] += 1
    memory[batch + at.BATCH_LAST_ATTEMPT_MS] = now_ns // MS
    memory[batch + at.BATCH_BACKOFF_MS] = backoff_ms
    lane = memory[batch + at.BATCH_LANE]
    sequence = memory[batch + at.BATCH_SEQUENCE]
    earlier_count = 0
    waiting = memory[lane + at.LANE_HEAD]
    while waiting != at.NONE:
        earlier_count += 0 <= memory[waiting + at.BATCH_SEQUENCE] < sequence
        waiting = memory[waiting + at.BATCH_NEXT]
    note_length(memory, producer, lane)
    memory[lane + at.LANE_LENGTH] += 1
    mark_lane(memory, producer, lane)
    before = at.NONE
    following = memory[lane + at.LANE_HEAD]
    for _ in range(earlier_count):
        before = following
        following = memory[following + at.BATCH_NEXT]
    memory[batch + at.BATCH_NEXT] = following
    if before == at.NONE:
        memory[lane + at.LANE_HEAD] = batch
    else:
        memory[before + at.BATCH_NEXT] = batch
    if following == at.NONE:
        memory[lane + at.LANE_TAIL] = batch


@part
def find_expiry(memory: Array, producer: int, batch: int) -> int:
    """When a batch expires."""
    created_ns = round_time(memory, producer, memory[batch + at.BATCH_CREATED])
    return created_ns + memory[producer + at.PRODUCER_DELIVERY_TIMEOUT]


@part
def release_memory(memory: Array, producer: int, size_bytes: int, now_ns: int) -> None:
    """Gives memory back; threads that get theirs go on now."""
    memory[producer + at.PRODUCER_FREE_BYTES] += size_bytes
    while True:
        thread = memory[producer + at.PRODUCER_FIRST_WAITING]
        if thread == at.NONE:
            return
        needed_bytes = memory[thread + at.THREAD_NEEDED_BYTES]
        if needed_bytes > memory[producer + at.PRODUCER_FREE_BYTES]:
            return
        memory[producer + at.PRODUCER_FREE_BYTES] -= needed_bytes
        memory[producer + at.PRODUCER_FIRST_WAITING] = memory[thread + at.THREAD_NEXT_WAITING]
        if memory[producer + at.PRODUCER_FIRST_WAITING] == at.NONE:
            memory[producer + at.PRODUCER_LAST_WAITING] = at.NONE
        memory[thread + at.THREAD_IS_GRANTED] = 1
        set_clock(memory, memory[at.TREE], memory[thread + at.THREAD_CLOCK], now_ns)


@part
def finish_batch(memory: Array, producer: int, batch: int, now_ns: int, is_failed: bool) -> None:
    """Acknowledges a batch or gives it up, and gives its memory back; the object is still to be freed."""
    memory[batch + at.BATCH_IS_DONE] = 1
    if memory[batch + at.BATCH_SEQUENCE] >= 0:
        before = memory[batch + at.BATCH_PREVIOUS_SENT]
        following = memory[batch + at.BATCH_NEXT_SENT]
        if before != at.NONE:
            memory[before + at.BATCH_NEXT_SENT] = following
        if following != at.NONE:
            memory[following + at.BATCH_PREVIOUS_SENT] = before
        else:
            memory[memory[batch + at.BATCH_LANE] + at.LANE_LAST_SENT] = before
        memory[batch + at.BATCH_PREVIOUS_SENT] = at.NONE
    count_batch(memory, producer, batch, now_ns, is_failed)
    release_memory(memory, producer, memory[batch + at.BATCH_CLAIMED_BYTES], now_ns)
