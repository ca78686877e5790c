"""Connections for kernels: `reference.connection`, in the run's memory."""

from __future__ import annotations

from typing import Any

import numba as nb

from pipeline.compilation import part
from pipeline.simulator.engine import layout as at
from pipeline.simulator.engine.chance_kernels import draw_from, read_step
from pipeline.simulator.engine.random_kernels import draw_chance

Array = Any  # inside a kernel, an array's items are Numba's numbers

SECOND = 1_000_000_000
QUOTA_SAMPLE_COUNT = 11
QUOTA_RING = 16  # samples lie a second or more apart, so 12 is the most


@part
def submit_request(memory: Array, connection: int, request: int) -> int:
    """Takes a request from the client; returns when its response arrives, or -1 if others are before it."""
    memory[request + at.REQUEST_NEXT] = at.NONE
    tail = memory[connection + at.CONNECTION_TAIL]
    memory[connection + at.CONNECTION_TAIL] = request
    if tail != at.NONE:
        memory[tail + at.REQUEST_NEXT] = request
        return -1
    memory[connection + at.CONNECTION_HEAD] = request
    return _serve(memory, connection, memory[request + at.REQUEST_ARRIVED_AT])


@part
def answer_request(memory: Array, connection: int, now_ns: int) -> int:
    """Takes the request whose response arrives now off the connection; returns when the next one will, or -1."""
    request = memory[connection + at.CONNECTION_HEAD]
    throttle_ns = _charge(memory, connection, memory[request + at.REQUEST_BYTES], now_ns)
    memory[request + at.REQUEST_THROTTLE] = throttle_ns
    memory[connection + at.CONNECTION_DEAF_UNTIL] = now_ns + throttle_ns
    following = memory[request + at.REQUEST_NEXT]
    memory[connection + at.CONNECTION_HEAD] = following
    if following == at.NONE:
        memory[connection + at.CONNECTION_TAIL] = at.NONE
        return -1
    return _serve(memory, connection, now_ns)


@part
def _charge(memory: Array, connection: int, size_bytes: int, now_ns: int) -> int:
    """Counts bytes for the quota, and returns the throttle time."""
    rate = memory[memory[connection + at.CONNECTION_BROKER] + at.BROKER_QUOTA]
    if rate == 0:
        return 0
    ring = memory[connection + at.CONNECTION_SAMPLES]
    first = memory[connection + at.CONNECTION_FIRST_SAMPLE]
    count = memory[connection + at.CONNECTION_SAMPLE_COUNT]
    last = ring + 2 * ((first + count - 1) % QUOTA_RING)
    if count == 0 or now_ns - memory[last] >= SECOND:
        last = ring + 2 * ((first + count) % QUOTA_RING)
        memory[last] = now_ns
        memory[last + 1] = 0
        count += 1
    memory[last + 1] += size_bytes
    while now_ns - memory[ring + 2 * first] >= QUOTA_SAMPLE_COUNT * SECOND:
        first = (first + 1) % QUOTA_RING
        count -= 1
    memory[connection + at.CONNECTION_FIRST_SAMPLE] = first
    memory[connection + at.CONNECTION_SAMPLE_COUNT] = count
    total_bytes = 0
    for place in range(count):
        total_bytes += memory[ring + 2 * ((first + place) % QUOTA_RING) + 1]
    elapsed_ns = now_ns - memory[ring + 2 * first]
    window_ns = elapsed_ns + max(QUOTA_SAMPLE_COUNT - 1 - elapsed_ns // SECOND, 0) * SECOND
    # bytes times a second can pass 63 bits
    owed_ns = total_bytes // rate * SECOND + total_bytes % rate * SECOND // rate
    return max(owed_ns - window_ns, 0)


@part
def _serve(memory: Array, connection: int, now_ns: int) -> int:
    """Begins to serve the request at the head; returns when its response arrives."""
    request = memory[connection + at.CONNECTION_HEAD]
    broker = memory[connection + at.CONNECTION_BROKER]
    heard_ns = max(now_ns, memory[request + at.REQUEST_ARRIVED_AT], memory[connection + at.CONNECTION_DEAF_UNTIL])
    service_ns = _draw_service(memory, connection, request, heard_ns)
    start_ns = _take_handler(memory, broker, heard_ns, service_ns)
    is_error = _fails(memory, connection, start_ns)
    memory[request + at.REQUEST_IS_ERROR] = is_error
    if not is_error:
        _write_batches(memory, request)
    done_ns = start_ns + service_ns
    memory[connection + at.CONNECTION_IDLE_SINCE] = done_ns
    delay_ns = read_step(memory, memory[broker + at.BROKER_DELAY], done_ns)
    if delay_ns:
        oversleep = memory[broker + at.BROKER_OVERSLEEP]
        done_ns += delay_ns + draw_from(memory, oversleep, connection + at.CONNECTION_OVERSLEEP)
    acks = memory[memory[connection + at.CONNECTION_PRODUCER] + at.PRODUCER_ACKS]
    if acks < 0 and not is_error:
        wait = memory[broker + at.BROKER_REPLICA_WAIT]
        done_ns += draw_from(memory, wait, connection + at.CONNECTION_REPLICA_WAIT)
    return done_ns


@part
def _write_batches(memory: Array, request: int) -> None:
    """Marks each batch as written; with idempotence as refused where one sent before it is missing."""
    batch = memory[request + at.REQUEST_BATCHES]
    while batch != at.NONE:
        before = memory[batch + at.BATCH_PREVIOUS_SENT]
        while before != at.NONE and memory[before + at.BATCH_IS_WRITTEN]:
            before = memory[before + at.BATCH_PREVIOUS_SENT]
        memory[batch + at.BATCH_IS_REFUSED] = before != at.NONE
        memory[batch + at.BATCH_IS_WRITTEN] |= before == at.NONE
        batch = memory[batch + at.BATCH_NEXT_IN_REQUEST]


@part
def _draw_service(memory: Array, connection: int, request: int, now_ns: int) -> int:
    broker = memory[connection + at.CONNECTION_BROKER]
    distribution = memory[broker + at.BROKER_REQUEST]
    idle_ns = now_ns - memory[connection + at.CONNECTION_IDLE_SINCE]
    pair = memory[broker + at.BROKER_IDLE]
    for _ in range(memory[broker + at.BROKER_IDLE_PAIR_COUNT]):
        if memory[pair] <= idle_ns:
            distribution = memory[pair + 1]
        pair += 2
    service_ns = draw_from(memory, distribution, connection + at.CONNECTION_SERVICE)
    service_ns += (memory[request + at.REQUEST_BATCH_COUNT] - 1) * memory[broker + at.BROKER_PARTITION]
    service_ns += (memory[request + at.REQUEST_BYTES] * memory[broker + at.BROKER_KIB]) >> 10
    warm_up_ns = memory[broker + at.BROKER_WARM_UP]
    if now_ns < warm_up_ns:
        excess_percent = (memory[broker + at.BROKER_WARM_UP_PERCENT] - 100) * (warm_up_ns - now_ns) // warm_up_ns
        service_ns += service_ns * excess_percent // 100
    return service_ns


@part
def _take_handler(memory: Array, broker: int, now_ns: int, service_ns: int) -> int:
    """Takes the handler that is free first, and returns when the service begins."""
    count = memory[broker + at.BROKER_HANDLER_COUNT]
    if count == 0:
        return now_ns
    first = memory[broker + at.BROKER_HANDLERS]
    earliest = first
    for handler in range(first + 1, first + count):
        if memory[handler] < memory[earliest]:
            earliest = handler
    start_ns = max(now_ns, memory[earliest])
    memory[earliest] = start_ns + service_ns
    return start_ns


@part
def _fails(memory: Array, connection: int, now_ns: int) -> bool:
    broker = memory[connection + at.CONNECTION_BROKER]
    window = memory[broker + at.BROKER_ERRORS]
    for _ in range(memory[broker + at.BROKER_ERROR_COUNT]):
        if memory[window] <= now_ns < memory[window + 1]:
            stream = connection + at.CONNECTION_ERROR
            count = nb.uint64(memory[stream + 1])
            memory[stream + 1] += 1
            return draw_chance(nb.uint64(memory[stream]), count, memory[window + 2])
        window += 3
    return False
