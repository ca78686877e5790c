"""Both ends of connections: the broker's, and the client's (`NetworkClient`, `InFlightRequests`).

The broker serves one request of a connection at a time, the others wait in the socket. So several requests in flight
hide latency but do not add to what a slow broker takes. A response that a quota holds back goes out at once and names
the throttle time; the connection is then muted for so long.
"""

from pipeline.compilation import compile_module
from pipeline.simulator.engine import primitives
from pipeline.simulator.engine.accumulator import round_time
from pipeline.simulator.engine.client_state import ClientRequest, ProducerState
from pipeline.simulator.engine.state import MS, NONE, QUOTA_RING, SECOND, BrokerState, NodeConnection, Simulation

QUOTA_SAMPLE_COUNT = 11  # quota.window.num
# After CONCURRENT_TRANSACTIONS: `ADD_PARTITIONS_RETRY_BACKOFF_MS` in clients, add.partitions.to.txn.retry.backoff.ms in brokers.
CONCURRENT_RETRY_NS = 20_000_000
_MILLION = 1_000_000


def submit_request(sim: Simulation, connection: NodeConnection, number: int) -> int:
    sim.requests[number].next = NONE
    if connection.tail != NONE:
        sim.requests[connection.tail].next = number
        connection.tail = number
        return -1
    connection.head = connection.tail = number
    return serve_request(sim, connection, sim.requests[number].arrived_ns)


def take_response(sim: Simulation, connection: NodeConnection, now_ns: int) -> int:
    number = connection.head
    request = sim.requests[number]
    request.throttle_ns = _record_bytes(connection, sim.brokers[connection.broker], request.size_bytes, now_ns)
    connection.muted_until_ns = now_ns + request.throttle_ns
    connection.head = request.next
    if connection.head == NONE:
        connection.tail = NONE
    return number


def _record_bytes(connection: NodeConnection, broker: BrokerState, size_bytes: int, now_ns: int) -> int:
    """Counts bytes for the quota in samples of a second each (`Rate`, `SampledStat`); returns the throttle time."""
    rate = broker.quota_bytes_per_s
    if rate == 0:
        return 0
    starts_ns = connection.sample_starts_ns
    first = connection.first_sample
    count = connection.sample_count
    last = (first + count - 1) % QUOTA_RING
    if count == 0 or now_ns - starts_ns[last] >= SECOND:
        last = (first + count) % QUOTA_RING
        starts_ns[last] = now_ns
        connection.sample_bytes[last] = 0
        count += 1
    connection.sample_bytes[last] += size_bytes
    while now_ns - starts_ns[first] >= QUOTA_SAMPLE_COUNT * SECOND:
        first = (first + 1) % QUOTA_RING
        count -= 1
    connection.first_sample = first
    connection.sample_count = count
    total_bytes = 0
    for index in range(count):
        total_bytes += connection.sample_bytes[(first + index) % QUOTA_RING]
    elapsed_ns = now_ns - starts_ns[first]  # samples that are not there yet count as full seconds without bytes
    window_ns = elapsed_ns + max(QUOTA_SAMPLE_COUNT - 1 - elapsed_ns // SECOND, 0) * SECOND
    # bytes times a second can pass 63 bits
    owed_ns = total_bytes // rate * SECOND + total_bytes % rate * SECOND // rate
    return max(owed_ns - window_ns, 0)


def serve_request(sim: Simulation, connection: NodeConnection, now_ns: int) -> int:
    request = sim.requests[connection.head]
    broker = sim.brokers[connection.broker]
    heard_ns = max(now_ns, request.arrived_ns, connection.muted_until_ns)
    service_ns = _draw_service_ns(sim, connection, request, heard_ns)
    start_ns = _take_handler(sim, broker, heard_ns, service_ns)
    request.is_error = _fails(sim, connection, broker, start_ns)
    if not request.is_error:
        _write_batches(sim, request)
    done_ns = start_ns + service_ns
    connection.idle_since_ns = done_ns
    delay_ns = primitives.find_delay_ns(sim, broker.first_delay, broker.delay_count, done_ns)
    if delay_ns and request.batch_count:  # delays are known of Produce requests alone
        done_ns += delay_ns + primitives.draw(sim.distributions[broker.oversleep_ns], connection.oversleep_stream)
    producer = sim.producers[connection.producer]
    if request.batch_count and not producer.adds_partitions and request.arrived_ns < producer.markers_until_ns:
        done_ns += CONCURRENT_RETRY_NS  # the broker itself adds partitions to the transaction (KIP-890)
    if producer.acks < 0 and not request.is_error:
        done_ns += primitives.draw(sim.distributions[broker.replica_wait_ns], connection.replica_wait_stream)
    return done_ns


def _write_batches(sim: Simulation, request: ClientRequest) -> None:
    """Writes each batch, or with idempotence refuses it where one sent before it is missing."""
    number = request.first_batch
    while number != NONE:
        batch = sim.batches[number]
        before = batch.previous_sent
        while before != NONE and sim.batches[before].is_written:
            before = sim.batches[before].previous_sent
        batch.is_refused = before != NONE
        batch.is_written |= before == NONE
        number = batch.next_in_request


def _draw_service_ns(sim: Simulation, connection: NodeConnection, request: ClientRequest, now_ns: int) -> int:
    broker = sim.brokers[connection.broker]
    request_ns = broker.request_ns
    for number in range(broker.first_idle, broker.first_idle + broker.idle_count):
        if sim.idle_levels[number].from_ns <= now_ns - connection.idle_since_ns:
            request_ns = sim.idle_levels[number].request_ns
    service_ns = primitives.draw(sim.distributions[request_ns], connection.service_stream)
    service_ns += max(request.batch_count - 1, 0) * broker.partition_ns
    service_ns += (request.size_bytes * broker.kib_ns) >> 10
    if now_ns < broker.warm_up_ns:
        excess_percent = (broker.warm_up_percent - 100) * (broker.warm_up_ns - now_ns) // broker.warm_up_ns
        service_ns += service_ns * excess_percent // 100
    return service_ns


def _take_handler(sim: Simulation, broker: BrokerState, now_ns: int, service_ns: int) -> int:
    if broker.handler_count == 0:
        return now_ns
    earliest = broker.first_handler
    for handler in range(broker.first_handler + 1, broker.first_handler + broker.handler_count):
        if sim.handlers[handler] < sim.handlers[earliest]:
            earliest = handler
    start_ns = max(now_ns, sim.handlers[earliest])
    sim.handlers[earliest] = start_ns + service_ns
    return start_ns


def _fails(sim: Simulation, connection: NodeConnection, broker: BrokerState, now_ns: int) -> bool:
    for number in range(broker.first_error, broker.first_error + broker.error_count):
        span = sim.error_spans[number]
        if span.start_ns <= now_ns < span.end_ns:
            return primitives.draw_below(connection.error_stream, _MILLION) < span.chance_ppm
    return False


def can_send(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> bool:
    if not connection.was_begun:
        connection.was_begun = True
        primitives.set_clock(sim, connection.number, now_ns + producer.connect_ns)
    return (
        connection.is_connected
        and connection.in_flight_count < producer.max_in_flight_count
        and now_ns >= connection.throttled_until_ns
    )


def take_request(sim: Simulation, producer: ProducerState, now_ns: int) -> int:
    run = sim.run
    number = run.free_request
    if number != NONE:
        run.free_request = sim.requests[number].next
    else:
        run.request_count += 1
        number = run.request_count
        run.is_short |= number + run.most_requests >= len(sim.requests)
    sim.requests[number] = sim.requests[NONE]
    request = sim.requests[number]
    request.holder_count = 2
    request.sent_ns = now_ns
    request.arrived_ns = now_ns + producer.transit_ns
    return number


def release_request(sim: Simulation, number: int) -> None:
    request = sim.requests[number]
    request.holder_count -= 1
    if request.holder_count == 0:
        free_request(sim, number)


def free_request(sim: Simulation, number: int) -> None:
    sim.requests[number].next = sim.run.free_request
    sim.run.free_request = number


def put_in_flight(sim: Simulation, producer: ProducerState, connection: NodeConnection, number: int) -> None:
    if connection.last_in_flight == NONE:
        connection.first_in_flight = number
        primitives.add_member(sim, producer.in_flight_brokers, connection.broker)
    else:
        sim.requests[connection.last_in_flight].next_in_flight = number
    connection.last_in_flight = number
    connection.in_flight_count += 1


def send_request(
    sim: Simulation, producer: ProducerState, connection: NodeConnection, number: int, now_ns: int
) -> None:
    request = sim.requests[number]
    put_in_flight(sim, producer, connection, number)
    if connection.first_new == NONE:
        connection.first_new = number
    if producer.acks == 0:
        connection.arrived_count += 1  # nothing is waited for
    connection.requests += 1
    connection.batches += request.batch_count
    connection.bytes += request.size_bytes
    connection.max_in_flight = max(connection.max_in_flight, connection.in_flight_count)
    batch_number = request.first_batch
    while batch_number != NONE:
        batch = sim.batches[batch_number]
        if batch.attempt_count == 0:
            primitives.count_latency(sim.queue_times[batch.queue], now_ns - batch.created_ns)
        batch_number = batch.next_in_request


def poll(sim: Simulation, producer: ProducerState) -> None:
    broker = primitives.find_next(sim, producer.ready_brokers, -1)
    while broker >= 0:
        connection = sim.connections[producer.first_connection + broker]
        number = connection.first_new
        connection.first_new = NONE
        while number != NONE:
            response_ns = submit_request(sim, connection, number)
            if response_ns >= 0:
                primitives.set_clock(sim, connection.number, response_ns)
            number = sim.requests[number].next_in_flight
        broker = primitives.find_next(sim, producer.ready_brokers, broker)


def complete_next(sim: Simulation, producer: ProducerState, connection: NodeConnection) -> int:
    number = connection.first_in_flight
    connection.first_in_flight = sim.requests[number].next_in_flight
    connection.in_flight_count -= 1
    if connection.first_in_flight == NONE:
        connection.last_in_flight = NONE
        primitives.remove_member(sim, producer.in_flight_brokers, connection.broker)
    return number


def find_timeout_ns(sim: Simulation, producer: ProducerState, connection: NodeConnection) -> int:
    """The first moment at which the oldest request in flight is late; its clock ticks in milliseconds in Java."""
    sent_ns = round_time(producer, sim.requests[connection.first_in_flight].sent_ns)
    return sent_ns + producer.request_timeout_ns + (MS if producer.is_java else 1)


def disconnect(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> None:
    """Closes a connection and begins anew; what waits in the broker's socket is lost."""
    connection.timed_out += connection.in_flight_count
    connection.is_connected = False
    primitives.set_clock(sim, connection.number, now_ns + producer.reconnect_backoff_ns + producer.connect_ns)
    number = connection.head
    connection.head = connection.tail = NONE
    while number != NONE:
        following = sim.requests[number].next
        release_request(sim, number)
        number = following


compile_module(__name__)
