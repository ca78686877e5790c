"""What a sender does with responses, and with batches and requests that are late, for kernels; from `reference.sender`."""

from __future__ import annotations

from typing import Any

import numba as nb

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.append_kernels import round_time
from pipeline.simulator.engine.batch_kernels import free_batch
from pipeline.simulator.engine.bit_kernels import clear_mark, find_mark
from pipeline.simulator.engine.clock_kernels import NEVER, set_clock
from pipeline.simulator.engine.queue_kernels import find_expiry, finish_batch, pop_batch, put_back
from pipeline.simulator.engine.random_kernels import draw_between
from pipeline.simulator.engine.tally_kernels import count_response

Array = Any  # inside a kernel, an array's items are Numba's numbers

MS = 1_000_000
MAX_DOUBLINGS = 20


@part
def release_request(memory: Array, request: int) -> None:
    """The client or the connection has no more use for a request; the second of them frees it."""
    memory[request + at.REQUEST_HOLDERS] -= 1
    if memory[request + at.REQUEST_HOLDERS] == 0:
        memory[request + at.REQUEST_NEXT] = memory[at.FREE_REQUEST]
        memory[at.FREE_REQUEST] = request


@part
def _draw_backoff_ms(memory: Array, producer: int, attempt_count: int) -> int:
    max_ns = memory[producer + at.PRODUCER_BACKOFF_MAX]
    backoff_ns = min(memory[producer + at.PRODUCER_BACKOFF] << min(attempt_count, MAX_DOUBLINGS), max_ns)
    jitter_ppm = memory[producer + at.PRODUCER_BACKOFF_JITTER_PPM]
    if jitter_ppm:
        stream = producer + at.PRODUCER_BACKOFF_STREAM
        key, count = nb.uint64(memory[stream]), nb.uint64(memory[stream + 1])
        memory[stream + 1] += 1
        factor_ppm = draw_between(key, count, 1_000_000 - jitter_ppm, 1_000_000 + jitter_ppm)
        backoff_ns = min(backoff_ns * factor_ppm // 1_000_000, max_ns)
    return backoff_ns // MS


@part
def _settle(memory: Array, producer: int, batch: int, now_ns: int, is_error: bool) -> None:
    """Acknowledges a batch, puts it back, or gives it up."""
    memory[memory[batch + at.BATCH_LANE] + at.LANE_IS_MUTED] = 0
    if not memory[batch + at.BATCH_IS_DONE]:
        attempt_count = memory[batch + at.BATCH_ATTEMPT_COUNT]
        is_expired = find_expiry(memory, producer, batch) <= round_time(memory, producer, now_ns)
        if is_error and not is_expired and attempt_count < memory[producer + at.PRODUCER_RETRY_COUNT]:
            memory[memory[batch + at.BATCH_LANE] + at.RETRIES] += 1
            put_back(memory, producer, batch, now_ns, _draw_backoff_ms(memory, producer, attempt_count))
            return
        finish_batch(memory, producer, batch, now_ns, is_error)
    free_batch(memory, batch)


@part
def _settle_request(memory: Array, producer: int, request: int, now_ns: int, is_error: bool) -> None:
    batch = memory[request + at.REQUEST_BATCHES]
    memory[request + at.REQUEST_BATCHES] = at.NONE  # with acks=0 the broker may get it later
    while batch != at.NONE:
        following = memory[batch + at.BATCH_NEXT_IN_REQUEST]
        is_refused = memory[batch + at.BATCH_IS_REFUSED] != 0
        _settle(memory, producer, batch, now_ns, is_error or is_refused)
        batch = following


@part
def _has_refused(memory: Array, request: int) -> bool:
    batch = memory[request + at.REQUEST_BATCHES]
    while batch != at.NONE:
        if memory[batch + at.BATCH_IS_REFUSED]:
            return True
        batch = memory[batch + at.BATCH_NEXT_IN_REQUEST]
    return False


@part
def _pop_in_flight(memory: Array, connection: int) -> int:
    request = memory[connection + at.CONNECTION_FIRST_IN_FLIGHT]
    following = memory[request + at.REQUEST_NEXT_IN_FLIGHT]
    memory[connection + at.CONNECTION_FIRST_IN_FLIGHT] = following
    memory[connection + at.CONNECTION_IN_FLIGHT_COUNT] -= 1
    if following == at.NONE:
        memory[connection + at.CONNECTION_LAST_IN_FLIGHT] = at.NONE
        producer = memory[connection + at.CONNECTION_PRODUCER]
        clear_mark(memory, memory[producer + at.PRODUCER_IN_FLIGHT_BITS], memory[connection + at.CONNECTION_PLACE])
    return request


@part
def _handle_responses(memory: Array, producer: int, connection: int, now_ns: int) -> None:
    count = memory[connection + at.CONNECTION_ARRIVED_COUNT]
    memory[connection + at.CONNECTION_ARRIVED_COUNT] = 0
    for _ in range(count):
        request = _pop_in_flight(memory, connection)
        if memory[producer + at.PRODUCER_THROTTLES_ITSELF]:
            until_ns = now_ns + memory[request + at.REQUEST_THROTTLE]
            before_ns = memory[connection + at.CONNECTION_THROTTLED_UNTIL]
            memory[connection + at.CONNECTION_THROTTLED_UNTIL] = max(before_ns, until_ns)
        is_error = memory[request + at.REQUEST_IS_ERROR] != 0
        count_response(memory, connection, request, is_error or _has_refused(memory, request), now_ns)
        _settle_request(memory, producer, request, now_ns, is_error)
        release_request(memory, request)


@part
def find_timeout(memory: Array, producer: int, connection: int) -> int:
    """The first moment at which the oldest request in flight is late."""
    request = memory[connection + at.CONNECTION_FIRST_IN_FLIGHT]
    sent_ns = round_time(memory, producer, memory[request + at.REQUEST_SENT_AT])
    tick_ns = MS if memory[producer + at.PRODUCER_IS_JAVA] else 1
    return sent_ns + memory[producer + at.PRODUCER_REQUEST_TIMEOUT] + tick_ns


@part
def _cut_if_late(memory: Array, producer: int, connection: int, now_ns: int) -> None:
    if memory[connection + at.CONNECTION_IN_FLIGHT_COUNT] == 0:
        return
    if round_time(memory, producer, now_ns) < find_timeout(memory, producer, connection):
        return
    memory[connection + at.TIMED_OUT] += memory[connection + at.CONNECTION_IN_FLIGHT_COUNT]
    memory[connection + at.CONNECTION_IS_CONNECTED] = 0
    memory[connection + at.CONNECTION_IS_CONNECTING] = 1
    wait_ns = memory[producer + at.PRODUCER_RECONNECT_BACKOFF] + memory[producer + at.PRODUCER_CONNECT]
    set_clock(memory, memory[at.TREE], memory[connection + at.CONNECTION_NUMBER], now_ns + wait_ns)
    while memory[connection + at.CONNECTION_IN_FLIGHT_COUNT]:
        request = _pop_in_flight(memory, connection)
        _settle_request(memory, producer, request, now_ns, True)
        release_request(memory, request)
    request = memory[connection + at.CONNECTION_HEAD]
    memory[connection + at.CONNECTION_HEAD] = memory[connection + at.CONNECTION_TAIL] = at.NONE
    while request != at.NONE:
        following = memory[request + at.REQUEST_NEXT]
        release_request(memory, request)
        request = following


@part
def handle_connections(memory: Array, producer: int, now_ns: int) -> None:
    """Handles the responses that arrived, and closes connections whose oldest request is late."""
    marks = memory[producer + at.PRODUCER_IN_FLIGHT_BITS]
    word_count = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        connection = memory[producer + at.PRODUCER_CONNECTIONS] + place * at.CONNECTION_WORDS
        if memory[connection + at.CONNECTION_ARRIVED_COUNT]:
            _handle_responses(memory, producer, connection, now_ns)
        _cut_if_late(memory, producer, connection, now_ns)
        place = find_mark(memory, marks, word_count, place + 1)


@part
def expire_batches(memory: Array, producer: int, now_ns: int) -> None:
    """Gives up batches older than `delivery.timeout.ms`, queued ones first."""
    rounded_ns = round_time(memory, producer, now_ns)
    if rounded_ns < memory[producer + at.PRODUCER_EXPIRY]:
        return
    _expire_queued(memory, producer, rounded_ns, now_ns)
    earliest_ns = _expire_in_flight(memory, producer, rounded_ns, now_ns)
    memory[producer + at.PRODUCER_EXPIRY] = min(earliest_ns, _find_any_expiry(memory, producer))


@part
def _expire_queued(memory: Array, producer: int, rounded_ns: int, now_ns: int) -> None:
    marks = memory[producer + at.PRODUCER_LANE_BITS]
    word_count = memory[producer + at.PRODUCER_LANE_BIT_WORDS]
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        lane = memory[producer + at.PRODUCER_LANES] + place * at.LANE_WORDS
        head = memory[lane + at.LANE_HEAD]
        while head != at.NONE and find_expiry(memory, producer, head) <= rounded_ns:
            pop_batch(memory, producer, lane)
            finish_batch(memory, producer, head, now_ns, True)
            free_batch(memory, head)
            head = memory[lane + at.LANE_HEAD]
        place = find_mark(memory, marks, word_count, place + 1)


@part
def _find_any_expiry(memory: Array, producer: int) -> int:
    """When the first batch expires of all that are queued, or `NEVER`."""
    marks = memory[producer + at.PRODUCER_LANE_BITS]
    word_count = memory[producer + at.PRODUCER_LANE_BIT_WORDS]
    earliest_ns = NEVER
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        lane = memory[producer + at.PRODUCER_LANES] + place * at.LANE_WORDS
        batch = memory[lane + at.LANE_HEAD]
        while batch != at.NONE:
            earliest_ns = min(earliest_ns, find_expiry(memory, producer, batch))
            batch = memory[batch + at.BATCH_NEXT]
        place = find_mark(memory, marks, word_count, place + 1)
    return earliest_ns


@part
def find_head_expiry(memory: Array, producer: int) -> int:
    """When the first batch expires of those at the head of a lane, or `NEVER`."""
    marks = memory[producer + at.PRODUCER_LANE_BITS]
    word_count = memory[producer + at.PRODUCER_LANE_BIT_WORDS]
    earliest_ns = NEVER
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        lane = memory[producer + at.PRODUCER_LANES] + place * at.LANE_WORDS
        earliest_ns = min(earliest_ns, find_expiry(memory, producer, memory[lane + at.LANE_HEAD]))
        place = find_mark(memory, marks, word_count, place + 1)
    return earliest_ns


@part
def _expire_in_flight(memory: Array, producer: int, rounded_ns: int, now_ns: int) -> int:
    """Returns when the first one expires of those in flight that did not, or `NEVER`."""
    marks = memory[producer + at.PRODUCER_IN_FLIGHT_BITS]
    word_count = memory[producer + at.PRODUCER_BROKER_BIT_WORDS]
    earliest_ns = NEVER
    place = find_mark(memory, marks, word_count, 0)
    while place >= 0:
        connection = memory[producer + at.PRODUCER_CONNECTIONS] + place * at.CONNECTION_WORDS
        request = memory[connection + at.CONNECTION_FIRST_IN_FLIGHT]
        while request != at.NONE:
            batch = memory[request + at.REQUEST_BATCHES]
            while batch != at.NONE:
                expiry_ns = find_expiry(memory, producer, batch)
                if not memory[batch + at.BATCH_IS_DONE]:
                    if expiry_ns <= rounded_ns:
                        finish_batch(memory, producer, batch, now_ns, True)
                    else:
                        earliest_ns = min(earliest_ns, expiry_ns)
                batch = memory[batch + at.BATCH_NEXT_IN_REQUEST]
            request = memory[request + at.REQUEST_NEXT_IN_FLIGHT]
        place = find_mark(memory, marks, word_count, place + 1)
    return earliest_ns
