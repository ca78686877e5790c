"""Completion of batches that were sent or are too old (`Sender.completeBatch`, `failBatch`); transactions.

`commitTransaction()` (`TransactionManager`, KIP-98) sends all that waits, then `EndTxn`, and the thread waits for the
answer. Before KIP-890 a transaction's first record in a partition follows `AddPartitionsToTxn`. While the coordinator
has not answered the sender sends nothing else.
"""

from pipeline.compilation import compile_module, outlined
from pipeline.simulator.engine import accumulator, connections
from pipeline.simulator.engine.batches import free_batch
from pipeline.simulator.engine.client_state import ClientRequest, PartitionQueue, ProducerState
from pipeline.simulator.engine.primitives import count_batch, count_latency, draw_below, find_next, is_empty, set_clock
from pipeline.simulator.engine.state import MS, NEVER, NONE, RECORDED, NodeConnection, Simulation, ThreadState


def is_commit(sim: Simulation, thread: ThreadState) -> bool:
    return thread.kind == RECORDED and sim.recorded[thread.first_recorded + thread.sent_count].topic < 0


def note_partition(producer: ProducerState, queue: PartitionQueue) -> None:
    """A partition got a record: the transaction has to hold it (`maybeAddPartition`)."""
    if producer.adds_partitions and queue.transaction <= producer.commit_count:
        queue.transaction = producer.commit_count + 1
        producer.has_new_partitions = True


def find_transactional_wait_ns(sim: Simulation, producer: ProducerState, now_ns: int) -> int:
    """Sends the coordinator what it is owed; until when nothing else is sent, or -1 (`maybeSendAndPollTransactionalRequest`)."""
    if producer.transactional_request != NONE:
        return NEVER
    is_sent = is_empty(sim, producer.queues_with_batches) and is_empty(sim, producer.in_flight_brokers)
    if not (producer.has_new_partitions or (producer.is_flushing and is_sent)):
        return -1
    if now_ns < producer.coordinator_retry_ns:
        return producer.coordinator_retry_ns
    connection = sim.connections[producer.first_connection + producer.coordinator]
    if not connections.can_send(sim, producer, connection, now_ns):
        return connection.throttled_until_ns if now_ns < connection.throttled_until_ns else NEVER
    number = connections.take_request(sim, producer, now_ns)
    connections.put_in_flight(sim, producer, connection, number)
    response_ns = connections.submit_request(sim, connection, number)
    if response_ns >= 0:
        set_clock(sim, connection.number, response_ns)
    producer.transactional_request = number
    producer.is_ending = not producer.has_new_partitions
    producer.has_new_partitions = False
    return NEVER


def complete_transactional_request(
    sim: Simulation, producer: ProducerState, request: ClientRequest, is_error: bool, now_ns: int
) -> None:
    """Handles the coordinator's answer: partitions are added, or the thread that committed goes on."""
    producer.transactional_request = NONE
    if is_error:
        producer.has_new_partitions = not producer.is_ending
        producer.coordinator_retry_ns = now_ns + producer.backoff_ns
    elif producer.is_ending:
        producer.is_flushing = False
        producer.commit_count += 1
        producer.markers_until_ns = now_ns + producer.markers_ns
        set_clock(sim, sim.threads[producer.committing_thread].clock, now_ns)
    elif request.arrived_ns < producer.markers_until_ns:
        producer.has_new_partitions = True
        producer.coordinator_retry_ns = now_ns + connections.CONCURRENT_RETRY_NS


_MILLION = 1_000_000
_MAX_DOUBLINGS = 20


def complete_requests(sim: Simulation, producer: ProducerState, now_ns: int) -> None:
    broker = find_next(sim, producer.in_flight_brokers, -1)
    while broker >= 0:
        connection = sim.connections[producer.first_connection + broker]
        _complete_requests_of(sim, producer, connection, now_ns)
        broker = find_next(sim, producer.in_flight_brokers, broker)


def _complete_requests_of(sim: Simulation, producer: ProducerState, connection: NodeConnection, now_ns: int) -> None:
    arrived_count = connection.arrived_count
    connection.arrived_count = 0
    is_cut = False
    while True:
        if arrived_count == 0 and not is_cut:
            timeout_ns = connections.find_timeout_ns(sim, producer, connection)
            is_cut = connection.in_flight_count > 0 and accumulator.round_time(producer, now_ns) >= timeout_ns
            if is_cut:  # `hasExpiredRequest`
                connections.disconnect(sim, producer, connection, now_ns)
        if arrived_count == 0 and (not is_cut or connection.in_flight_count == 0):
            return
        number = connections.complete_next(sim, producer, connection)
        request = sim.requests[number]
        is_error = is_cut
        if not is_cut:
            arrived_count -= 1
            is_error = request.is_error
            if producer.throttles_itself:  # from 2.0 on
                until_ns = now_ns + request.throttle_ns
                connection.throttled_until_ns = max(connection.throttled_until_ns, until_ns)
            if number != producer.transactional_request:
                connection.errors += is_error or _has_refused(sim, request)
                connection.throttled_ns += request.throttle_ns
                count_latency(sim.request_latencies[connection.number], now_ns - request.sent_ns)
        if number == producer.transactional_request:
            complete_transactional_request(sim, producer, request, is_error, now_ns)
        _complete_batches(sim, producer, request, now_ns, is_error)
        connections.release_request(sim, number)


def _has_refused(sim: Simulation, request: ClientRequest) -> bool:
    number = request.first_batch
    while number != NONE:
        if sim.batches[number].is_refused:
            return True
        number = sim.batches[number].next_in_request
    return False


def _complete_batches(
    sim: Simulation, producer: ProducerState, request: ClientRequest, now_ns: int, is_error: bool
) -> None:
    """Acknowledges each batch of a request, queues it again, or gives it up (`completeBatch`)."""
    number = request.first_batch
    request.first_batch = NONE  # with acks=0 the broker may get it later
    while number != NONE:
        batch = sim.batches[number]
        following = batch.next_in_request
        sim.queues[batch.queue].is_muted = False
        is_expired = accumulator.find_expiry(producer, batch) <= accumulator.round_time(producer, now_ns)
        can_retry = not is_expired and batch.attempt_count < producer.retry_count
        if batch.is_done:
            free_batch(sim, number)
        elif (is_error or batch.is_refused) and can_retry:
            sim.queues[batch.queue].retries += 1
            accumulator.reenqueue(sim, producer, number, now_ns, _draw_backoff_ms(producer, batch.attempt_count))
        else:
            batch.is_failed = is_error or batch.is_refused
            finish_batch(sim, producer, number, now_ns)
            free_batch(sim, number)
        number = following


def _draw_backoff_ms(producer: ProducerState, attempt_count: int) -> int:
    """`retry.backoff.ms`, doubled with every attempt and jittered from 3.7 on (`ExponentialBackoff`)."""
    backoff_ns = min(producer.backoff_ns << min(attempt_count, _MAX_DOUBLINGS), producer.backoff_max_ns)
    jitter_ppm = producer.backoff_jitter_ppm
    if jitter_ppm:
        factor_ppm = _MILLION - jitter_ppm + draw_below(producer.backoff_stream, 2 * jitter_ppm + 1)
        backoff_ns = min(backoff_ns * factor_ppm // _MILLION, producer.backoff_max_ns)
    return backoff_ns // MS


def finish_batch(sim: Simulation, producer: ProducerState, number: int, now_ns: int) -> None:
    batch = sim.batches[number]
    batch.is_done = True
    accumulator.forget_sent(sim, batch)
    count_batch(sim, producer, batch, now_ns)
    accumulator.deallocate(sim, producer, batch.claimed_bytes, now_ns)


@outlined
def give_up_expired_batches(sim: Simulation, producer: ProducerState, now_ns: int) -> None:
    rounded_ns = accumulator.round_time(producer, now_ns)
    producer.next_expiry_ns = NEVER
    place = find_next(sim, producer.queues_with_batches, -1)
    while place >= 0:
        _give_up_queued(sim, producer, sim.queues[producer.first_queue + place], rounded_ns, now_ns)
        place = find_next(sim, producer.queues_with_batches, place)
    broker = find_next(sim, producer.in_flight_brokers, -1)
    while broker >= 0:
        number = sim.connections[producer.first_connection + broker].first_in_flight
        while number != NONE:
            _give_up_in_flight(sim, producer, sim.requests[number], rounded_ns, now_ns)
            number = sim.requests[number].next_in_flight
        broker = find_next(sim, producer.in_flight_brokers, broker)


def _give_up_queued(
    sim: Simulation, producer: ProducerState, queue: PartitionQueue, rounded_ns: int, now_ns: int
) -> None:
    while queue.head != NONE and accumulator.find_expiry(producer, sim.batches[queue.head]) <= rounded_ns:
        number = accumulator.poll_first(sim, producer, queue)
        sim.batches[number].is_failed = True
        finish_batch(sim, producer, number, now_ns)
        free_batch(sim, number)
    number = queue.head
    while number != NONE:
        producer.next_expiry_ns = min(producer.next_expiry_ns, accumulator.find_expiry(producer, sim.batches[number]))
        number = sim.batches[number].next


def _give_up_in_flight(
    sim: Simulation, producer: ProducerState, request: ClientRequest, rounded_ns: int, now_ns: int
) -> None:
    """A batch that is given up is freed once its response is handled."""
    number = request.first_batch
    while number != NONE:
        batch = sim.batches[number]
        expiry_ns = accumulator.find_expiry(producer, batch)
        if not batch.is_done and expiry_ns <= rounded_ns:
            batch.is_failed = True
            finish_batch(sim, producer, number, now_ns)
        elif not batch.is_done:
            producer.next_expiry_ns = min(producer.next_expiry_ns, expiry_ns)
        number = batch.next_in_request


compile_module(__name__)
