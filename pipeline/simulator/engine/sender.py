"""The sender: a thread of the client that sleeps in its poll, and once awake iterates (`Sender.runOnce`).

An iteration, all at one moment:

1. handle the responses that arrived: complete batches, or queue them again; free their memory;
2. close connections whose oldest request is older than `request.timeout.ms`;
3. find the brokers with something to send (`ready`), leave out those that cannot be sent to; none while a request to the
   coordinator of its transactions is on its way;
4. send each of the others one request (librdkafka: one for each partition that is ready);
5. give up batches older than `delivery.timeout.ms`;
6. poll: not at all if there was a broker to send to, else until waiting alone makes something ready.

It then is busy for what the iteration cost. A call (`wakeup`) while busy makes the poll return at once; a call or a
response while it sleeps wakes it, which takes its time. More calls before the next iteration are free.
"""

from pipeline.compilation import njit
from pipeline.simulator.engine.accumulator import drain_batch, round_time
from pipeline.simulator.engine.bitset import clear_set, find_next, is_empty
from pipeline.simulator.engine.client_state import ProducerState, RandomStream
from pipeline.simulator.engine.clocks import read_clock, set_clock
from pipeline.simulator.engine.completion import complete_requests, find_first_expiry_ns, give_up_expired_batches
from pipeline.simulator.engine.draws import draw
from pipeline.simulator.engine.network_client import (
    find_timeout_ns,
    free_request,
    is_ready,
    poll,
    send_request,
    take_request,
)
from pipeline.simulator.engine.readiness import add_to_request, can_send_message, drain, ready
from pipeline.simulator.engine.state import MS, NEVER, NodeConnection, Simulation
from pipeline.simulator.engine.transactions import find_transactional_wait_ns


@njit
def run_once(sim: Simulation, producer: ProducerState, now_ns: int) -> None:
    """Makes an iteration, and sets the sender's clock to the next one (`runOnce`)."""
    producer.is_called = False
    producer.is_waking = False
    producer.sender_loops += 1
    complete_requests(sim, producer, now_ns)
    sendable_count, request_count = 0, 0
    next_check_ns = find_transactional_wait_ns(sim, producer, now_ns)
    if next_check_ns >= 0:
        clear_set(sim, producer.ready_brokers)
    else:
        next_check_ns = ready(sim, producer, now_ns)
    broker = find_next(sim, producer.ready_brokers, -1)
    while broker >= 0:
        connection = sim.connections[producer.first_connection + broker]
        if is_ready(sim, producer, connection, now_ns):
            sendable_count += 1
            request_count += _send_producer_data(sim, producer, connection, now_ns)
        broker = find_next(sim, producer.ready_brokers, broker)
    if round_time(producer, now_ns) >= producer.next_expiry_ns:
        give_up_expired_batches(sim, producer, now_ns)
    due_ns = now_ns + producer.loop_ns + request_count * producer.request_ns
    producer.busy_until_ns = due_ns
    if sendable_count == 0:
        due_ns = _find_poll_end_ns(sim, producer, now_ns, next_check_ns)
    if request_count:
        poll(sim, producer)
    if producer.is_closing and is_empty(sim, producer.queues_with_batches):
        due_ns = NEVER if is_empty(sim, producer.in_flight_brokers) else due_ns
    set_clock(sim, producer.clock, due_ns)


@njit
def wake_up(sim: Simulation, producer: ProducerState, now_ns: int, returned_ns: int) -> None:
    """A thread calls `wakeup`, which returns later; the first call since the last iteration counts."""
    if not producer.is_called:
        producer.is_called = True
        _end_poll(sim, producer, now_ns, returned_ns, producer.wake_ns, producer.wake_stream)


@njit
def note_response(sim: Simulation, producer: ProducerState, now_ns: int) -> None:
    """A response arrives in the socket, or a connection is ready."""
    _end_poll(sim, producer, now_ns, now_ns, producer.response_wake_ns, producer.response_wake_stream)


@njit
def _end_poll(
    sim: Simulation, producer: ProducerState, now_ns: int, called_ns: int, distribution: int, stream: RandomStream
) -> None:
    """Makes the sender's next iteration come: after the present one, or if it sleeps as soon as it is awake."""
    due_ns = read_clock(sim, producer.clock)
    if now_ns < producer.busy_until_ns:
        set_clock(sim, producer.clock, min(due_ns, producer.busy_until_ns))
    elif not producer.is_waking:
        producer.is_waking = True
        awake_ns = called_ns + draw(sim.distributions[distribution], stream)
        set_clock(sim, producer.clock, min(due_ns, awake_ns))


@njit
def _send_producer_data(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> int:
    """Sends requests to a broker, and returns how many (`sendProducerData`)."""
    if producer.is_java:
        number = take_request(sim, producer, now_ns)
        drain(sim, producer, connection, number, now_ns)
        if sim.requests[number].batch_count == 0:
            free_request(sim, number)
            return 0
        send_request(sim, producer, connection, number, now_ns)
        return 1
    count = 0
    broker = sim.brokers[connection.broker]
    for index in range(broker.first_partition, broker.first_partition + broker.partition_count):
        queue = sim.queues[producer.first_queue + sim.partitions[index]]
        if can_send_message(sim, producer, queue, now_ns):
            number = take_request(sim, producer, now_ns)
            add_to_request(sim, sim.requests[number], drain_batch(sim, producer, queue, now_ns))
            send_request(sim, producer, connection, number, now_ns)
            count += 1
    return count


@njit
def _find_poll_end_ns(sim: Simulation, producer: ProducerState, now_ns: int, next_check_ns: int) -> int:
    """When a poll with nothing to send ends by itself; its timeout is counted from the clock the iteration began with."""
    end_ns = next_check_ns
    broker = find_next(sim, producer.ready_brokers, -1)
    while broker >= 0:
        until_ns = sim.connections[producer.first_connection + broker].throttled_until_ns
        if now_ns < until_ns:
            end_ns = min(end_ns, until_ns)
        broker = find_next(sim, producer.ready_brokers, broker)
    broker = find_next(sim, producer.in_flight_brokers, -1)
    while broker >= 0:
        connection = sim.connections[producer.first_connection + broker]
        end_ns = min(end_ns, find_timeout_ns(sim, producer, connection))
        broker = find_next(sim, producer.in_flight_brokers, broker)
    if end_ns > producer.next_expiry_ns:
        end_ns = min(end_ns, find_first_expiry_ns(sim, producer))
    if end_ns >= NEVER:
        return NEVER
    round_up_ns = MS - 1 if producer.is_java else 0
    timeout_ns = round_time(producer, end_ns + round_up_ns) - round_time(producer, now_ns)
    if timeout_ns <= 0:
        return producer.busy_until_ns
    return producer.busy_until_ns + timeout_ns + producer.timer_ns
