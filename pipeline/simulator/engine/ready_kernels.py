"""What is ready to be sent, and what goes in a request, for kernels; from `reference.accumulator`."""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.append_kernels import round_time
from pipeline.simulator.engine.batch_kernels import is_full
from pipeline.simulator.engine.bit_kernels import find_mark, set_mark
from pipeline.simulator.engine.clock_kernels import NEVER
from pipeline.simulator.engine.queue_kernels import is_next, take_to_send

Array = Any  # inside a kernel, an array's items are Numba's numbers

MS = 1_000_000
READY = -1


@part
def _is_resting(memory: Array, batch: int, now_ns: int) -> bool:
    if memory[batch + at.BATCH_ATTEMPT_COUNT] == 0:
        return False
    return now_ns // MS - memory[batch + at.BATCH_LAST_ATTEMPT_MS] < memory[batch + at.BATCH_BACKOFF_MS]


@part
def _check_lane(memory: Array, producer: int, lane: int, now_ns: int) -> int:
    """Returns `READY`, or when a lane that has batches and a leader becomes so by waiting alone, or `NEVER`."""
    if memory[lane + at.LANE_IS_MUTED]:
        return NEVER
    head = memory[lane + at.LANE_HEAD]
    rounded_ns = round_time(memory, producer, now_ns)
    if memory[head + at.BATCH_ATTEMPT_COUNT]:
        last_attempt_ns = memory[head + at.BATCH_LAST_ATTEMPT_MS] * MS
    else:
        last_attempt_ns = round_time(memory, producer, memory[head + at.BATCH_CREATED])
    waited_ns = max(rounded_ns - last_attempt_ns, 0)
    if _is_resting(memory, head, now_ns):
        return rounded_ns + max(memory[head + at.BATCH_BACKOFF_MS] * MS - waited_ns, 0)
    wait_ns = memory[producer + at.PRODUCER_LINGER]
    is_due = waited_ns >= wait_ns or memory[producer + at.PRODUCER_FIRST_WAITING] != at.NONE
    if is_due or memory[producer + at.PRODUCER_IS_CLOSING] or memory[lane + at.LANE_LENGTH] > 1:
        return READY
    if is_full(memory, head, memory[producer + at.PRODUCER_RECORD_LIMIT]):
        return READY
    return rounded_ns + max(wait_ns - waited_ns, 0)


@part
def find_ready(memory: Array, producer: int, now_ns: int) -> int:
    """Marks the brokers with something to be sent; returns when something may become ready by waiting, or `NEVER`."""
    _note_queues(memory, producer)
    busy_marks = memory[producer + at.PRODUCER_BUSY_BITS]
    ready_marks = memory[producer + at.PRODUCER_READY_BITS]
    word_count = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    for word in range(word_count):
        memory[ready_marks + word] = 0
    next_check_ns = NEVER
    broker = find_mark(memory, busy_marks, word_count, 0)
    while broker >= 0:
        connection = memory[producer + at.PRODUCER_CONNECTIONS] + broker * at.CONNECTION_WORDS
        next_check_ns = min(next_check_ns, _check_broker(memory, producer, connection, now_ns))
        broker = find_mark(memory, busy_marks, word_count, broker + 1)
    return next_check_ns


@part
def _check_broker(memory: Array, producer: int, connection: int, now_ns: int) -> int:
    """Marks a broker if one of its lanes is ready; returns when the lanes before that one become so by waiting alone."""
    lanes = memory[connection + at.CONNECTION_LANES]
    marks = memory[connection + at.CONNECTION_LANE_BITS]
    word_count = memory[connection + at.CONNECTION_LANE_BIT_WORDS]
    next_check_ns = NEVER
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        check_ns = _check_lane(memory, producer, memory[lanes + place], now_ns)
        if check_ns == READY:
            set_mark(memory, memory[producer + at.PRODUCER_READY_BITS], memory[connection + at.CONNECTION_PLACE])
            break
        next_check_ns = min(next_check_ns, check_ns)
        place = find_mark(memory, marks, word_count, place + 1)
    return next_check_ns


@part
def _note_queues(memory: Array, producer: int) -> None:
    """Keeps what KIP-794 weighs queues by until the next turn; see `placement_kernels`."""
    memory[producer + at.PRODUCER_TURN] += 1
    if not memory[producer + at.PRODUCER_IS_ADAPTIVE]:
        return
    for word in range(memory[producer + at.PRODUCER_LANE_BIT_WORDS]):
        marks = memory[memory[producer + at.PRODUCER_LANE_BITS] + word]
        memory[memory[producer + at.PRODUCER_SEEN_BITS] + word] = marks
    state = memory[producer + at.PRODUCER_STATES]
    for _ in range(memory[at.TOPIC_COUNT]):
        is_weighed = memory[state + at.STATE_MADE_COUNT] == memory[state + at.STATE_PARTITION_COUNT]
        memory[state + at.STATE_IS_WEIGHED] = is_weighed
        state += at.STATE_WORDS
    timeout_ms = memory[producer + at.PRODUCER_AVAILABILITY_TIMEOUT_MS]
    if timeout_ms == 0:
        return
    connection = memory[producer + at.PRODUCER_CONNECTIONS]
    for _ in range(memory[at.BROKER_COUNT]):
        late_ms = memory[connection + at.CONNECTION_READY_MS] - memory[connection + at.CONNECTION_DRAIN_MS]
        memory[connection + at.CONNECTION_IS_KEPT_WAITING] = late_ms > timeout_ms
        connection += at.CONNECTION_WORDS


@part
def add_to_request(memory: Array, request: int, batch: int) -> None:
    """Puts a batch into a request, after its last one."""
    memory[batch + at.BATCH_NEXT_IN_REQUEST] = at.NONE
    memory[batch + at.BATCH_IS_REFUSED] = 0
    last_batch = memory[request + at.REQUEST_LAST_BATCH]
    if last_batch == at.NONE:
        memory[request + at.REQUEST_BATCHES] = batch
    else:
        memory[last_batch + at.BATCH_NEXT_IN_REQUEST] = batch
    memory[request + at.REQUEST_LAST_BATCH] = batch
    memory[request + at.REQUEST_BATCH_COUNT] += 1
    memory[request + at.REQUEST_BYTES] += memory[batch + at.BATCH_SIZE_BYTES]


@part
def drain(memory: Array, producer: int, connection: int, request: int, now_ns: int) -> None:
    """Takes the head batch of every partition the broker leads, as far as they fit the request, ready or not."""
    count = memory[connection + at.CONNECTION_LANE_COUNT]
    is_shared = memory[producer + at.PRODUCER_SHARES_DRAIN_INDEX]
    index_word = producer + at.PRODUCER_SHARED_DRAIN_INDEX if is_shared else connection + at.CONNECTION_DRAIN_INDEX
    start = memory[index_word] % count
    last = _drain_places(memory, producer, connection, request, start, count, now_ns)
    if last < 0:
        last = _drain_places(memory, producer, connection, request, 0, start, now_ns)
    if last < 0:
        last = start + count - 1
    memory[index_word] = (last + is_shared) % count


@part
def _drain_places(
    memory: Array, producer: int, connection: int, request: int, start: int, end: int, now_ns: int
) -> int:
    """Returns the place at which the request is full or must wait, or -1."""
    lanes = memory[connection + at.CONNECTION_LANES]
    marks = memory[connection + at.CONNECTION_LANE_BITS]
    word_count = memory[connection + at.CONNECTION_LANE_BIT_WORDS]
    place = find_mark(memory, marks, word_count, start)
    while 0 <= place < end:
        lane = memory[lanes + place]
        head = memory[lane + at.LANE_HEAD]
        if not (memory[lane + at.LANE_IS_MUTED] or _is_resting(memory, head, now_ns)):
            size_bytes = memory[request + at.REQUEST_BYTES] + memory[head + at.BATCH_ESTIMATED_BYTES]
            is_too_large = size_bytes > memory[producer + at.PRODUCER_MAX_REQUEST_BYTES]
            if is_too_large and memory[request + at.REQUEST_BATCH_COUNT]:
                return place
            if not is_next(memory, head):
                return place
            take_to_send(memory, producer, lane, now_ns)
            add_to_request(memory, request, head)
        place = find_mark(memory, marks, word_count, place + 1)
    return -1


@part
def is_lane_ready(memory: Array, producer: int, lane: int, now_ns: int) -> bool:
    """librdkafka: the head batch is ready itself, and may be sent."""
    head = memory[lane + at.LANE_HEAD]
    if head == at.NONE or _check_lane(memory, producer, lane, now_ns) != READY:
        return False
    return is_next(memory, head)
