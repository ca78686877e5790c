"""The client's end of its connections (`NetworkClient`, `InFlightRequests`): what may be sent, is in flight, came back."""

from pipeline.compilation import njit
from pipeline.simulator.engine.accumulator import round_time
from pipeline.simulator.engine.bitset import add_member, find_next, remove_member
from pipeline.simulator.engine.broker import submit_request
from pipeline.simulator.engine.client_state import ProducerState
from pipeline.simulator.engine.clocks import set_clock
from pipeline.simulator.engine.counters import count_queue_times
from pipeline.simulator.engine.state import MS, NONE, NodeConnection, Simulation


@njit
def can_send(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> bool:
    """Whether a broker can be sent to; connects to it if need be."""
    if not connection.is_connected and not connection.is_connecting:
        connection.is_connecting = True
        set_clock(sim, connection.number, now_ns + producer.connect_ns)
    return (
        connection.is_connected
        and connection.in_flight_count < producer.max_in_flight_count
        and now_ns >= connection.throttled_until_ns
    )


@njit
def is_ready(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> bool:
    """Whether a broker can be sent to (`ready`), as KIP-794 counts it."""
    can_drain = can_send(sim, producer, connection, now_ns)
    # `updateNodeLatencyStats`, by which KIP-794 leaves brokers out
    if can_drain or connection.ready_ms < 0:
        connection.drain_ms = now_ns // MS
    connection.ready_ms = now_ns // MS
    return can_drain


@njit
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


@njit
def release_request(sim: Simulation, number: int) -> None:
    """The client or the connection has no more use for a request; the second of them frees it."""
    request = sim.requests[number]
    request.holder_count -= 1
    if request.holder_count == 0:
        free_request(sim, number)


@njit
def free_request(sim: Simulation, number: int) -> None:
    sim.requests[number].next = sim.run.free_request
    sim.run.free_request = number


@njit
def put_in_flight(sim: Simulation, producer: ProducerState, connection: NodeConnection, number: int) -> None:
    """Puts a request in flight (`InFlightRequests.add`)."""
    if connection.last_in_flight == NONE:
        connection.first_in_flight = number
        add_member(sim, producer.in_flight_brokers, connection.broker)
    else:
        sim.requests[connection.last_in_flight].next_in_flight = number
    connection.last_in_flight = number
    connection.in_flight_count += 1


@njit
def send_request(
    sim: Simulation, producer: ProducerState, connection: NodeConnection, number: int, now_ns: int
) -> None:
    """Sends a Produce request; `poll` hands it on."""
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
    count_queue_times(sim, request, now_ns)


@njit
def poll(sim: Simulation, producer: ProducerState) -> None:
    """Hands what was sent since the last call to the brokers."""
    broker = find_next(sim, producer.ready_brokers, -1)
    while broker >= 0:
        connection = sim.connections[producer.first_connection + broker]
        number = connection.first_new
        connection.first_new = NONE
        while number != NONE:
            response_ns = submit_request(sim, connection, number)
            if response_ns >= 0:
                set_clock(sim, connection.number, response_ns)
            number = sim.requests[number].next_in_flight
        broker = find_next(sim, producer.ready_brokers, broker)


@njit
def complete_next(sim: Simulation, producer: ProducerState, connection: NodeConnection) -> int:
    """Takes the oldest request in flight off the list (`InFlightRequests.completeNext`); returns its number."""
    number = connection.first_in_flight
    connection.first_in_flight = sim.requests[number].next_in_flight
    connection.in_flight_count -= 1
    if connection.first_in_flight == NONE:
        connection.last_in_flight = NONE
        remove_member(sim, producer.in_flight_brokers, connection.broker)
    return number


@njit
def find_timeout_ns(sim: Simulation, producer: ProducerState, connection: NodeConnection) -> int:
    """The first moment at which the oldest request in flight is late; its clock ticks in milliseconds in Java."""
    sent_ns = round_time(producer, sim.requests[connection.first_in_flight].sent_ns)
    return sent_ns + producer.request_timeout_ns + (MS if producer.is_java else 1)


@njit
def has_timed_out(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> bool:
    """The oldest request in flight is older than `request.timeout.ms` (`hasExpiredRequest`)."""
    return connection.in_flight_count > 0 and round_time(producer, now_ns) >= find_timeout_ns(sim, producer, connection)


@njit
def disconnect(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> None:
    """Closes a connection and begins anew; what waits in the broker's socket is lost."""
    connection.timed_out += connection.in_flight_count
    connection.is_connected = False
    connection.is_connecting = True
    set_clock(sim, connection.number, now_ns + producer.reconnect_backoff_ns + producer.connect_ns)
    number = connection.head
    connection.head = connection.tail = NONE
    while number != NONE:
        following = sim.requests[number].next
        release_request(sim, number)
        number = following
