"""The clocks for kernels: `reference.run`, in the run's memory."""

from __future__ import annotations

from typing import Any

from numba.core import types

from pipeline.compilation import kernel, part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.append_kernels import append_record, append_with_memory, bound_batch
from pipeline.simulator.engine.arrival_kernels import go_on, start_thread, take_record
from pipeline.simulator.engine.batch_kernels import is_full
from pipeline.simulator.engine.chance_kernels import draw_from
from pipeline.simulator.engine.clock_kernels import NEVER, find_earliest, set_clock
from pipeline.simulator.engine.connection_kernels import answer_request
from pipeline.simulator.engine.queue_kernels import release_memory
from pipeline.simulator.engine.response_kernels import release_request
from pipeline.simulator.engine.sender_kernels import call_sender, note_response, take_turn
from pipeline.simulator.engine.tally_kernels import count_append, count_send
from pipeline.simulator.engine.word_kernels import point_to

Array = Any  # inside a kernel, an array's items are Numba's numbers

FINISHED, UNFINISHED, OUT_OF_MEMORY, OUT_OF_RECORDS = range(4)


@part
def _on_response(memory: Array, connection: int, now_ns: int) -> None:
    """A connection is ready, or a response arrives."""
    producer = memory[connection + at.CONNECTION_PRODUCER]
    if not memory[connection + at.CONNECTION_IS_CONNECTED]:
        memory[connection + at.CONNECTION_IS_CONNECTED] = 1
        memory[connection + at.CONNECTION_IS_CONNECTING] = 0
        note_response(memory, producer, now_ns)
        return
    request = memory[connection + at.CONNECTION_HEAD]
    next_ns = answer_request(memory, connection, now_ns)
    release_request(memory, request)
    if next_ns >= 0:
        set_clock(memory, memory[at.TREE], memory[connection + at.CONNECTION_NUMBER], next_ns)
    if memory[producer + at.PRODUCER_ACKS] != 0:
        memory[connection + at.CONNECTION_ARRIVED_COUNT] += 1
        note_response(memory, producer, now_ns)


@part
def _on_thread(memory: Array, thread: int, now_ns: int) -> int:
    """A record is due, or a thread that waited goes on; returns when its next one is due, or -1."""
    producer = memory[thread + at.THREAD_PRODUCER]
    if not memory[thread + at.THREAD_IS_WAITING]:
        return _send(memory, producer, thread, now_ns)
    memory[thread + at.THREAD_IS_WAITING] = 0
    needed_bytes = memory[thread + at.THREAD_NEEDED_BYTES]
    if needed_bytes == 0:
        return _append(memory, producer, thread, now_ns)
    memory[producer + at.BLOCKED_RECORDS] += 1
    memory[producer + at.BLOCKED_NS] += now_ns - memory[thread + at.THREAD_SINCE]
    if memory[thread + at.THREAD_IS_GRANTED]:
        lane = memory[thread + at.THREAD_LANE]
        lane, needed_bytes, unused_bytes = append_with_memory(memory, producer, thread, lane, now_ns, needed_bytes)
        return _conclude(memory, producer, thread, now_ns, lane, needed_bytes, unused_bytes)
    _stop_waiting(memory, producer, thread)
    release_memory(memory, producer, 0, now_ns)
    return _refuse(memory, producer, thread, now_ns)


@part
def _send(memory: Array, producer: int, thread: int, now_ns: int) -> int:
    """`send()` is called; the producer's first call fetches metadata, for which all others wait too."""
    if memory[producer + at.PRODUCER_METADATA_AT] < 0:
        memory[producer + at.PRODUCER_METADATA_AT] = now_ns + memory[producer + at.PRODUCER_METADATA]
    created_ns = max(now_ns, memory[producer + at.PRODUCER_METADATA_AT])
    take_record(memory, thread, now_ns)
    memory[thread + at.THREAD_CREATED_AT] = created_ns
    count_send(memory, producer, now_ns)
    if created_ns > now_ns:
        memory[thread + at.THREAD_IS_WAITING] = 1
        memory[thread + at.THREAD_NEEDED_BYTES] = 0
        return created_ns
    return _append(memory, producer, thread, now_ns)


@part
def _append(memory: Array, producer: int, thread: int, now_ns: int) -> int:
    size_bytes = bound_batch(memory[thread + at.THREAD_BODY_BYTES])
    limit_bytes = min(memory[producer + at.PRODUCER_MAX_REQUEST_BYTES], memory[producer + at.PRODUCER_BUFFER_BYTES])
    if size_bytes > limit_bytes:
        return _refuse(memory, producer, thread, now_ns)
    lane, needed_bytes, unused_bytes = append_record(memory, producer, thread, now_ns)
    return _conclude(memory, producer, thread, now_ns, lane, needed_bytes, unused_bytes)


@part
def _conclude(
    memory: Array, producer: int, thread: int, now_ns: int, lane: int, needed_bytes: int, unused_bytes: int
) -> int:
    """A record is in a batch, or its thread waits for memory."""
    if needed_bytes:
        return _wait(memory, producer, thread, now_ns, lane, needed_bytes)
    if unused_bytes:
        release_memory(memory, producer, unused_bytes, now_ns)
    count_append(memory, producer, lane, now_ns)
    returned_ns = now_ns + memory[producer + at.PRODUCER_APPEND]
    tail = memory[lane + at.LANE_TAIL]
    wakes_sender = memory[tail + at.BATCH_RECORD_COUNT] == 1 or memory[lane + at.LANE_LENGTH] > 1
    wakes_sender = wakes_sender or is_full(memory, tail, memory[producer + at.PRODUCER_RECORD_LIMIT])
    if wakes_sender and not memory[producer + at.PRODUCER_IS_CALLED]:
        wake_call = memory[producer + at.PRODUCER_WAKE_CALL]
        returned_ns += draw_from(memory, wake_call, thread + at.THREAD_WAKE_CALL_STREAM)
        call_sender(memory, producer, now_ns, returned_ns)
    return _go_on(memory, producer, thread, returned_ns, now_ns)


@part
def _wait(memory: Array, producer: int, thread: int, now_ns: int, lane: int, needed_bytes: int) -> int:
    memory[thread + at.THREAD_IS_WAITING] = 1
    memory[thread + at.THREAD_IS_GRANTED] = 0
    memory[thread + at.THREAD_NEEDED_BYTES] = needed_bytes
    memory[thread + at.THREAD_LANE] = lane
    memory[thread + at.THREAD_SINCE] = now_ns
    memory[thread + at.THREAD_NEXT_WAITING] = at.NONE
    last = memory[producer + at.PRODUCER_LAST_WAITING]
    memory[producer + at.PRODUCER_LAST_WAITING] = thread
    if last == at.NONE:
        memory[producer + at.PRODUCER_FIRST_WAITING] = thread
    else:
        memory[last + at.THREAD_NEXT_WAITING] = thread
    end_ns = memory[thread + at.THREAD_SENT_AT] + memory[producer + at.PRODUCER_MAX_BLOCK]
    return max(end_ns, now_ns)


@part
def _stop_waiting(memory: Array, producer: int, thread: int) -> None:
    before = at.NONE
    waiting = memory[producer + at.PRODUCER_FIRST_WAITING]
    while waiting != thread:
        before = waiting
        waiting = memory[waiting + at.THREAD_NEXT_WAITING]
    following = memory[thread + at.THREAD_NEXT_WAITING]
    if before == at.NONE:
        memory[producer + at.PRODUCER_FIRST_WAITING] = following
    else:
        memory[before + at.THREAD_NEXT_WAITING] = following
    if following == at.NONE:
        memory[producer + at.PRODUCER_LAST_WAITING] = before


@part
def _refuse(memory: Array, producer: int, thread: int, now_ns: int) -> int:
    memory[producer + at.REFUSED_RECORDS] += 1
    return _go_on(memory, producer, thread, now_ns + memory[producer + at.PRODUCER_APPEND], now_ns)


@part
def _go_on(memory: Array, producer: int, thread: int, returned_ns: int, now_ns: int) -> int:
    """`send()` returns; the thread's next record, or the end."""
    due_ns = go_on(memory, thread, memory[thread + at.THREAD_SENT_AT], returned_ns)
    if due_ns < 0:
        memory[producer + at.PRODUCER_RUNNING_COUNT] -= 1
        if memory[producer + at.PRODUCER_RUNNING_COUNT] == 0:
            _close(memory, producer, now_ns)
    return due_ns


@part
def _close(memory: Array, producer: int, now_ns: int) -> None:
    """Once all its threads have ended, a producer is closed: everything that waits is sent."""
    memory[producer + at.PRODUCER_IS_CLOSING] = 1
    call_sender(memory, producer, now_ns, now_ns)


@part
def _find_thread(memory: Array, clock: int) -> int:
    return memory[at.THREADS] + (clock - memory[at.FIRST_THREAD]) * at.THREAD_WORDS


@part
def _is_fed(memory: Array, thread: int) -> bool:
    """The record that is due is in memory, and the one after it, whose due time is asked for next; or it is the last."""
    return memory[thread + at.THREAD_TICKS] + 1 < memory[thread + at.THREAD_FED_COUNT]


@part
def _can_go_on(memory: Array, thread: int, word_count: int) -> bool:
    return _is_fed(memory, thread) and memory[at.HEAP] + memory[at.RESERVE] <= word_count


@kernel(types.void(types.int64[::1]))
def start_run(words: Array) -> None:
    """Sets the clocks of a run that has not begun."""
    memory = point_to(words)
    for number in range(memory[at.THREAD_COUNT]):
        thread = memory[at.THREADS] + number * at.THREAD_WORDS
        due_ns = start_thread(memory, thread)
        if due_ns >= 0:
            set_clock(memory, memory[at.TREE], memory[thread + at.THREAD_CLOCK], due_ns)
        else:
            memory[memory[thread + at.THREAD_PRODUCER] + at.PRODUCER_RUNNING_COUNT] -= 1
    for number in range(memory[at.PRODUCER_COUNT]):
        producer = memory[at.PRODUCERS] + number * at.PRODUCER_WORDS
        if memory[producer + at.PRODUCER_RUNNING_COUNT] == 0:
            _close(memory, producer, 0)


@kernel(types.int64(types.int64[::1], types.int64))
def continue_run(words: Array, event_count: int) -> int:
    """Makes one event after the other happen.

    Args:
        words: A run that was started.
        event_count: How many, at most.

    Returns:
        `FINISHED`; `UNFINISHED`: to be called again; `OUT_OF_MEMORY`: again with the same words in a longer array;
        `OUT_OF_RECORDS`: again when the next recorded records are there, see `RunMemory.feed`.
    """
    memory = point_to(words)
    tree = memory[at.TREE]
    for _ in range(event_count):
        if memory[at.HEAP] + memory[at.RESERVE] > len(words):
            return OUT_OF_MEMORY
        now_ns = memory[tree + 1]
        if now_ns >= NEVER:
            return FINISHED
        clock = find_earliest(memory, tree)
        if clock >= memory[at.FIRST_THREAD] and not _is_fed(memory, _find_thread(memory, clock)):
            return OUT_OF_RECORDS
        set_clock(memory, tree, clock, NEVER)
        memory[at.NOW] = now_ns
        if clock < memory[at.FIRST_SENDER]:
            _on_response(memory, memory[at.CONNECTIONS] + clock * at.CONNECTION_WORDS, now_ns)
        elif clock < memory[at.FIRST_THREAD]:
            sender = clock - memory[at.FIRST_SENDER]
            take_turn(memory, memory[at.PRODUCERS] + sender * at.PRODUCER_WORDS, now_ns)
        else:
            thread = _find_thread(memory, clock)
            due_ns = _on_thread(memory, thread, now_ns)
            # most often the next event is the same thread's: no need to ask the clocks
            while 0 <= due_ns < memory[tree + 1] and _can_go_on(memory, thread, len(words)):
                memory[at.NOW] = due_ns
                due_ns = _on_thread(memory, thread, due_ns)
            if due_ns >= 0:
                set_clock(memory, tree, clock, due_ns)
    return UNFINISHED
