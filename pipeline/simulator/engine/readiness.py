"""Which brokers have something to be sent, and what goes in a request (`RecordAccumulator.ready`, `drain`)."""

from pipeline.compilation import njit
from pipeline.simulator.engine.accumulator import drain_batch, is_next, round_time
from pipeline.simulator.engine.batches import is_full
from pipeline.simulator.engine.bitset import add_member, clear_set, copy_set, find_next
from pipeline.simulator.engine.client_state import ClientRequest, PartitionQueue, ProducerBatch, ProducerState
from pipeline.simulator.engine.state import MS, NEVER, NONE, NodeConnection, Simulation

READY = -1


@njit
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


@njit
def _keep_load_stats(sim: Simulation, producer: ProducerState) -> None:
    """Keeps what KIP-794 weighs queues by until the next call; see `built_in_partitioner`."""
    producer.ready_count += 1
    if not producer.is_adaptive:
        return
    copy_set(sim, producer.queues_with_batches, producer.queues_at_ready)
    for number in range(producer.first_topic, producer.first_topic + sim.run.topic_count):
        topic = sim.topics[number]
        topic.has_load_stats = topic.made_count == topic.partition_count
    if producer.availability_timeout_ms == 0:
        return
    for number in range(producer.first_connection, producer.first_connection + len(sim.brokers)):
        connection = sim.connections[number]
        late_ms = connection.ready_ms - connection.drain_ms
        connection.is_kept_waiting = late_ms > producer.availability_timeout_ms


@njit
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


@njit
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


@njit
def _is_backing_off(batch: ProducerBatch, now_ns: int) -> bool:
    return batch.attempt_count > 0 and now_ns // MS - batch.last_attempt_ms < batch.backoff_ms


@njit
def drain(sim: Simulation, producer: ProducerState, connection: NodeConnection, number: int, now_ns: int) -> None:
    """Fills a request with the head batches of the broker's partitions, ready or not, as far as they fit (`drain`).

    It goes round: it begins with the partition that came last the time before, until 3.2, where all brokers share one
    index, after it. aiokafka takes ready batches only.
    """
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


@njit
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


@njit
def can_send_message(sim: Simulation, producer: ProducerState, queue: PartitionQueue, now_ns: int) -> bool:
    """librdkafka: the head batch is ready itself, and may be sent."""
    return (
        queue.head != NONE and check_queue(sim, producer, queue, now_ns) == READY and is_next(sim.batches[queue.head])
    )
