"""The sender: a thread of the client that sleeps in its poll, and once awake iterates (`Sender.runOnce`).

An iteration, all at one moment: handle the responses that arrived; close connections whose oldest request is late; find
the brokers with something to send (`RecordAccumulator.ready`) that can be sent to, none while a coordinator's answer is
due; send each one request (`drain`; librdkafka: one for each partition that is ready); give up batches that are too
old; poll: not at all if there was a broker to send to, else until waiting alone makes something ready.

It then is busy for what the iteration cost. A call (`wakeup`) while busy makes the poll return at once; a call or a
response while it sleeps wakes it, which takes its time. More calls before the next iteration are free.
"""

from pipeline.compilation import compile_module
from pipeline.simulator.engine import connections
from pipeline.simulator.engine.accumulator import drain_batch, find_expiry, is_next, round_time
from pipeline.simulator.engine.batches import is_full
from pipeline.simulator.engine.client_state import (
    ClientRequest,
    PartitionQueue,
    ProducerBatch,
    ProducerState,
    RandomStream,
)
from pipeline.simulator.engine.completion import complete_requests, find_transactional_wait_ns, give_up_expired_batches
from pipeline.simulator.engine.primitives import add_member, clear_set, draw, find_next, is_empty, set_clock
from pipeline.simulator.engine.state import MS, NEVER, NONE, NodeConnection, Simulation

READY = -1


def ready(sim: Simulation, producer: ProducerState, now_ns: int) -> int:
    """Notes the brokers with something to be sent; returns when something may become ready by waiting, or `NEVER`."""
    _keep_load_stats(sim, producer)
    clear_set(sim, producer.ready_brokers)
    next_check_ns = NEVER
    broker = find_next(sim, producer.brokers_with_batches, -1)
    while broker >= 0:
        connection = sim.connections[producer.first_connection + broker]
        next_check_ns = min(next_check_ns, _check_broker(sim, producer, connection, now_ns))
        broker = find_next(sim, producer.brokers_with_batches, broker)
    return next_check_ns


def _keep_load_stats(sim: Simulation, producer: ProducerState) -> None:
    """Keeps what KIP-794 weighs queues by until the next call; see `built_in_partitioner`."""
    producer.ready_count += 1
    if not producer.is_adaptive:
        return
    for word in range(sim.bitsets.shape[1]):
        sim.bitsets[producer.queues_at_ready, word] = sim.bitsets[producer.queues_with_batches, word]
    for number in range(producer.first_topic, producer.first_topic + sim.run.topic_count):
        topic = sim.topics[number]
        topic.has_load_stats = topic.made_count == topic.partition_count
    if producer.availability_timeout_ms == 0:
        return
    for number in range(producer.first_connection, producer.first_connection + len(sim.brokers)):
        connection = sim.connections[number]
        late_ms = connection.ready_ms - connection.drain_ms
        connection.is_kept_waiting = late_ms > producer.availability_timeout_ms


def _check_broker(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> int:
    """Notes a broker if one of its queues is ready; returns when those before that one become so by waiting alone."""
    first = sim.brokers[connection.broker].first_partition
    next_check_ns = NEVER
    place = find_next(sim, connection.queues_with_batches, -1)
    while place >= 0:
        queue = sim.queues[producer.first_queue + sim.partitions[first + place]]
        check_ns = check_queue(sim, producer, queue, now_ns)
        if check_ns == READY:
            add_member(sim, producer.ready_brokers, connection.broker)
            break
        next_check_ns = min(next_check_ns, check_ns)
        place = find_next(sim, connection.queues_with_batches, place)
    return next_check_ns


def check_queue(sim: Simulation, producer: ProducerState, queue: PartitionQueue, now_ns: int) -> int:
    """Returns `READY`, or when a queue with batches becomes so by waiting alone, or `NEVER` (`batchReady`)."""
    if queue.is_muted:
        return NEVER
    head = sim.batches[queue.head]
    rounded_ns = round_time(producer, now_ns)
    last_attempt_ns = round_time(producer, head.created_ns)
    if head.attempt_count:
        last_attempt_ns = head.last_attempt_ms * MS
    waited_ns = max(rounded_ns - last_attempt_ns, 0)
    if _is_backing_off(head, now_ns):
        return rounded_ns + max(head.backoff_ms * MS - waited_ns, 0)
    is_due = (
        waited_ns >= producer.linger_ns or producer.first_waiting != NONE or producer.is_closing or producer.is_flushing
    )
    if is_due or queue.length > 1 or is_full(head, producer.batch_record_count):
        return READY
    return rounded_ns + max(producer.linger_ns - waited_ns, 0)


def _is_backing_off(batch: ProducerBatch, now_ns: int) -> bool:
    return batch.attempt_count > 0 and now_ns // MS - batch.last_attempt_ms < batch.backoff_ms


def drain(sim: Simulation, producer: ProducerState, connection: NodeConnection, number: int, now_ns: int) -> None:
    """Fills a request with brokers' head batches as far as they fit, round from where the last one ended (`drain`)."""
    request = sim.requests[number]
    first = sim.brokers[connection.broker].first_partition
    count = sim.brokers[connection.broker].partition_count
    start = (producer.shared_drain_index if producer.drains_from_shared_index else connection.drain_index) % count
    last = -1
    place, end = start - 1, count
    for _ in range(2):  # to the last partition, then from the first on
        while last < 0:
            place = find_next(sim, connection.queues_with_batches, place)
            if not 0 <= place < end:
                break
            queue = sim.queues[producer.first_queue + sim.partitions[first + place]]
            head = sim.batches[queue.head]
            if queue.is_muted or _is_backing_off(head, now_ns):
                continue
            if producer.drains_ready_only and check_queue(sim, producer, queue, now_ns) != READY:
                continue
            fits = request.size_bytes + head.estimated_bytes <= producer.max_request_bytes
            if is_next(head) and (fits or request.batch_count == 0):  # it takes its first batch whatever its size
                add_to_request(sim, request, drain_batch(sim, producer, queue, now_ns))
            else:
                last = place
        place, end = -1, start
    if last < 0:
        last = start + count - 1
    if producer.drains_from_shared_index:
        producer.shared_drain_index = (last + 1) % count
    else:
        connection.drain_index = last % count


def add_to_request(sim: Simulation, request: ClientRequest, number: int) -> None:
    batch = sim.batches[number]
    batch.next_in_request = NONE
    batch.is_refused = False
    if request.last_batch == NONE:
        request.first_batch = number
    else:
        sim.batches[request.last_batch].next_in_request = number
    request.last_batch = number
    request.batch_count += 1
    request.size_bytes += batch.size_bytes


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
        can_drain = connections.can_send(sim, producer, connection, now_ns)
        if can_drain or connection.ready_ms < 0:  # `updateNodeLatencyStats`, by which KIP-794 leaves brokers out
            connection.drain_ms = now_ns // MS
        connection.ready_ms = now_ns // MS
        if can_drain:
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
        connections.poll(sim, producer)
    if producer.is_closing and is_empty(sim, producer.queues_with_batches):
        due_ns = NEVER if is_empty(sim, producer.in_flight_brokers) else due_ns
    set_clock(sim, producer.clock, due_ns)


def wake_up(sim: Simulation, producer: ProducerState, now_ns: int, returned_ns: int) -> None:
    """A thread calls `wakeup`, which returns later; the first call since the last iteration counts."""
    if not producer.is_called:
        producer.is_called = True
        end_poll(sim, producer, now_ns, returned_ns, producer.wake_ns, producer.wake_stream)


def end_poll(
    sim: Simulation, producer: ProducerState, now_ns: int, called_ns: int, distribution: int, stream: RandomStream
) -> None:
    """Makes the sender's next iteration come: after the present one, or if it sleeps as soon as it is awake."""
    due_ns = sim.clocks[sim.clocks[0] + producer.clock]
    if now_ns < producer.busy_until_ns:
        set_clock(sim, producer.clock, min(due_ns, producer.busy_until_ns))
    elif not producer.is_waking:
        producer.is_waking = True
        awake_ns = called_ns + draw(sim.distributions[distribution], stream)
        set_clock(sim, producer.clock, min(due_ns, awake_ns))


def _send_producer_data(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> int:
    if producer.is_java:
        number = connections.take_request(sim, producer, now_ns)
        drain(sim, producer, connection, number, now_ns)
        if sim.requests[number].batch_count == 0:
            connections.free_request(sim, number)
            return 0
        connections.send_request(sim, producer, connection, number, now_ns)
        return 1
    count = 0
    broker = sim.brokers[connection.broker]
    for index in range(broker.first_partition, broker.first_partition + broker.partition_count):
        queue = sim.queues[producer.first_queue + sim.partitions[index]]
        is_due = queue.head != NONE and check_queue(sim, producer, queue, now_ns) == READY
        if is_due and is_next(sim.batches[queue.head]):
            number = connections.take_request(sim, producer, now_ns)
            add_to_request(sim, sim.requests[number], drain_batch(sim, producer, queue, now_ns))
            connections.send_request(sim, producer, connection, number, now_ns)
            count += 1
    return count


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
        end_ns = min(end_ns, connections.find_timeout_ns(sim, producer, connection))
        broker = find_next(sim, producer.in_flight_brokers, broker)
    if end_ns > producer.next_expiry_ns:
        place = find_next(sim, producer.queues_with_batches, -1)
        while place >= 0:
            head = sim.queues[producer.first_queue + place].head
            end_ns = min(end_ns, find_expiry(producer, sim.batches[head]))
            place = find_next(sim, producer.queues_with_batches, place)
    if end_ns >= NEVER:
        return NEVER
    round_up_ns = MS - 1 if producer.is_java else 0
    timeout_ns = round_time(producer, end_ns + round_up_ns) - round_time(producer, now_ns)
    if timeout_ns <= 0:
        return producer.busy_until_ns
    return producer.busy_until_ns + timeout_ns + producer.timer_ns


compile_module(__name__)
