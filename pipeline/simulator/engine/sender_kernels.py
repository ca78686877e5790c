"""The sender's turn for kernels: `reference.sender`, in the run's memory."""

from __future__ import annotations

from typing import Any

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.append_kernels import round_time
from pipeline.simulator.engine.bit_kernels import find_mark, set_mark
from pipeline.simulator.engine.chance_kernels import draw_from
from pipeline.simulator.engine.clock_kernels import NEVER, read_clock, set_clock
from pipeline.simulator.engine.connection_kernels import submit_request
from pipeline.simulator.engine.heap_kernels import take_object
from pipeline.simulator.engine.queue_kernels import take_to_send
from pipeline.simulator.engine.ready_kernels import add_to_request, drain, find_ready, is_lane_ready
from pipeline.simulator.engine.response_kernels import (
    expire_batches,
    find_head_expiry,
    find_timeout,
    handle_connections,
)
from pipeline.simulator.engine.tally_kernels import count_queue_time, count_request

Array = Any  # inside a kernel, an array's items are Numba's numbers

MS = 1_000_000


@part
def rouse(memory: Array, producer: int, now_ns: int, roused_ns: int, distribution: int, stream: int) -> None:
    """Makes the sender's next turn come: after the present one, or if it sleeps as soon as it is awake."""
    clock = memory[producer + at.PRODUCER_CLOCK]
    due_ns = read_clock(memory, memory[at.TREE], clock)
    busy_until_ns = memory[producer + at.PRODUCER_BUSY_UNTIL]
    if now_ns < busy_until_ns:
        set_clock(memory, memory[at.TREE], clock, min(due_ns, busy_until_ns))
    elif not memory[producer + at.PRODUCER_IS_WAKING]:
        memory[producer + at.PRODUCER_IS_WAKING] = 1
        due_ns = min(due_ns, roused_ns + draw_from(memory, distribution, stream))
        set_clock(memory, memory[at.TREE], clock, due_ns)


@part
def call_sender(memory: Array, producer: int, now_ns: int, returned_ns: int) -> None:
    """A thread calls `wakeup`, which returns later; the first call since the last turn counts."""
    if not memory[producer + at.PRODUCER_IS_CALLED]:
        memory[producer + at.PRODUCER_IS_CALLED] = 1
        distribution = memory[producer + at.PRODUCER_WAKE]
        rouse(memory, producer, now_ns, returned_ns, distribution, producer + at.PRODUCER_WAKE_STREAM)


@part
def note_response(memory: Array, producer: int, now_ns: int) -> None:
    """A response arrives in the socket, or a connection is ready."""
    distribution = memory[producer + at.PRODUCER_RESPONSE_WAKE]
    rouse(memory, producer, now_ns, now_ns, distribution, producer + at.PRODUCER_RESPONSE_WAKE_STREAM)


@part
def _can_send(memory: Array, producer: int, connection: int, now_ns: int) -> bool:
    is_connected = memory[connection + at.CONNECTION_IS_CONNECTED]
    if not is_connected and not memory[connection + at.CONNECTION_IS_CONNECTING]:
        memory[connection + at.CONNECTION_IS_CONNECTING] = 1
        ready_ns = now_ns + memory[producer + at.PRODUCER_CONNECT]
        set_clock(memory, memory[at.TREE], memory[connection + at.CONNECTION_NUMBER], ready_ns)
    is_below_limit = memory[connection + at.CONNECTION_IN_FLIGHT_COUNT] < memory[producer + at.PRODUCER_MAX_IN_FLIGHT]
    can_send = is_connected and is_below_limit and now_ns >= memory[connection + at.CONNECTION_THROTTLED_UNTIL]
    if can_send or memory[connection + at.CONNECTION_READY_MS] < 0:
        memory[connection + at.CONNECTION_DRAIN_MS] = now_ns // MS
    memory[connection + at.CONNECTION_READY_MS] = now_ns // MS
    return can_send


@part
def _take_request(memory: Array, producer: int, now_ns: int) -> int:
    """An empty request."""
    request = take_object(memory, at.FREE_REQUEST, at.REQUEST_WORDS)
    for word in range(at.REQUEST_WORDS):
        memory[request + word] = 0
    memory[request + at.REQUEST_HOLDERS] = 2
    memory[request + at.REQUEST_SENT_AT] = now_ns
    memory[request + at.REQUEST_ARRIVED_AT] = now_ns + memory[producer + at.PRODUCER_TRANSIT]
    return request


@part
def _put_in_flight(memory: Array, producer: int, connection: int, request: int, now_ns: int) -> None:
    last = memory[connection + at.CONNECTION_LAST_IN_FLIGHT]
    memory[connection + at.CONNECTION_LAST_IN_FLIGHT] = request
    if last == at.NONE:
        memory[connection + at.CONNECTION_FIRST_IN_FLIGHT] = request
        set_mark(memory, memory[producer + at.PRODUCER_IN_FLIGHT_BITS], memory[connection + at.CONNECTION_PLACE])
    else:
        memory[last + at.REQUEST_NEXT_IN_FLIGHT] = request
    if memory[connection + at.CONNECTION_FIRST_NEW] == at.NONE:
        memory[connection + at.CONNECTION_FIRST_NEW] = request
    memory[connection + at.CONNECTION_IN_FLIGHT_COUNT] += 1
    if memory[producer + at.PRODUCER_ACKS] == 0:
        memory[connection + at.CONNECTION_ARRIVED_COUNT] += 1
    count_request(memory, connection, request)
    batch = memory[request + at.REQUEST_BATCHES]
    while batch != at.NONE:
        if memory[batch + at.BATCH_ATTEMPT_COUNT] == 0:
            count_queue_time(memory, batch, now_ns)
        batch = memory[batch + at.BATCH_NEXT_IN_REQUEST]


@part
def _send(memory: Array, producer: int, connection: int, now_ns: int) -> int:
    """Makes requests for a broker, and returns how many."""
    if memory[producer + at.PRODUCER_IS_JAVA]:
        request = _take_request(memory, producer, now_ns)
        drain(memory, producer, connection, request, now_ns)
        if memory[request + at.REQUEST_BATCH_COUNT] == 0:
            memory[request + at.REQUEST_NEXT] = memory[at.FREE_REQUEST]
            memory[at.FREE_REQUEST] = request
            return 0
        _put_in_flight(memory, producer, connection, request, now_ns)
        return 1
    count = 0
    first = memory[connection + at.CONNECTION_LANES]
    for place in range(first, first + memory[connection + at.CONNECTION_LANE_COUNT]):
        lane = memory[place]
        if is_lane_ready(memory, producer, lane, now_ns):
            request = _take_request(memory, producer, now_ns)
            add_to_request(memory, request, take_to_send(memory, producer, lane, now_ns))
            _put_in_flight(memory, producer, connection, request, now_ns)
            count += 1
    return count


@part
def _submit_new(memory: Array, producer: int) -> None:
    """Hands what the turn made to the brokers."""
    marks = memory[producer + at.PRODUCER_READY_BITS]
    word_count = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        connection = memory[producer + at.PRODUCER_CONNECTIONS] + place * at.CONNECTION_WORDS
        request = memory[connection + at.CONNECTION_FIRST_NEW]
        memory[connection + at.CONNECTION_FIRST_NEW] = at.NONE
        while request != at.NONE:
            arrives_ns = submit_request(memory, connection, request)
            if arrives_ns >= 0:
                set_clock(memory, memory[at.TREE], memory[connection + at.CONNECTION_NUMBER], arrives_ns)
            request = memory[request + at.REQUEST_NEXT_IN_FLIGHT]
        place = find_mark(memory, marks, word_count, place + 1)


@part
def _find_poll_end(memory: Array, producer: int, now_ns: int, next_check_ns: int) -> int:
    """When a poll with nothing to send ends by itself."""
    end_ns = next_check_ns
    word_count = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    connections = memory[producer + at.PRODUCER_CONNECTIONS]
    place = find_mark(memory, memory[producer + at.PRODUCER_READY_BITS], word_count, 0)
    while place >= 0:
        until_ns = memory[connections + place * at.CONNECTION_WORDS + at.CONNECTION_THROTTLED_UNTIL]
        if now_ns < until_ns:
            end_ns = min(end_ns, until_ns)
        place = find_mark(memory, memory[producer + at.PRODUCER_READY_BITS], word_count, place + 1)
    place = find_mark(memory, memory[producer + at.PRODUCER_IN_FLIGHT_BITS], word_count, 0)
    while place >= 0:
        end_ns = min(end_ns, find_timeout(memory, producer, connections + place * at.CONNECTION_WORDS))
        place = find_mark(memory, memory[producer + at.PRODUCER_IN_FLIGHT_BITS], word_count, place + 1)
    if end_ns > memory[producer + at.PRODUCER_EXPIRY]:
        end_ns = min(end_ns, find_head_expiry(memory, producer))
    if end_ns >= NEVER:
        return NEVER
    round_up_ns = MS - 1 if memory[producer + at.PRODUCER_IS_JAVA] else 0
    timeout_ns = round_time(memory, producer, end_ns + round_up_ns) - round_time(memory, producer, now_ns)
    busy_until_ns = memory[producer + at.PRODUCER_BUSY_UNTIL]
    if timeout_ns <= 0:
        return busy_until_ns
    return busy_until_ns + timeout_ns + memory[producer + at.PRODUCER_TIMER]


@part
def _has_any_mark(memory: Array, marks: int, word_count: int) -> bool:
    return find_mark(memory, marks, word_count, 0) >= 0


@part
def is_idle(memory: Array, producer: int) -> bool:
    """Nothing waits, and nothing is in flight."""
    lane_words = memory[producer + at.PRODUCER_LANE_BIT_WORDS]
    broker_words = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    if _has_any_mark(memory, memory[producer + at.PRODUCER_LANE_BITS], lane_words):
        return False
    return not _has_any_mark(memory, memory[producer + at.PRODUCER_IN_FLIGHT_BITS], broker_words)


@part
def take_turn(memory: Array, producer: int, now_ns: int) -> None:
    """Makes a turn of the sender's loop, and sets its clock to the next one."""
    memory[producer + at.PRODUCER_IS_CALLED] = 0
    memory[producer + at.PRODUCER_IS_WAKING] = 0
    memory[producer + at.TURNS] += 1
    handle_connections(memory, producer, now_ns)
    next_check_ns = find_ready(memory, producer, now_ns)
    marks = memory[producer + at.PRODUCER_READY_BITS]
    word_count = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    sendable_count, request_count = 0, 0
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        connection = memory[producer + at.PRODUCER_CONNECTIONS] + place * at.CONNECTION_WORDS
        if _can_send(memory, producer, connection, now_ns):
            sendable_count += 1
            request_count += _send(memory, producer, connection, now_ns)
        place = find_mark(memory, marks, word_count, place + 1)
    expire_batches(memory, producer, now_ns)
    busy_ns = memory[producer + at.PRODUCER_LOOP] + request_count * memory[producer + at.PRODUCER_REQUEST]
    due_ns = now_ns + busy_ns
    memory[producer + at.PRODUCER_BUSY_UNTIL] = due_ns
    if sendable_count == 0:
        due_ns = _find_poll_end(memory, producer, now_ns, next_check_ns)
    if request_count:
        _submit_new(memory, producer)
    if memory[producer + at.PRODUCER_IS_CLOSING] and is_idle(memory, producer):
        due_ns = NEVER
    set_clock(memory, memory[at.TREE], memory[producer + at.PRODUCER_CLOCK], due_ns)
