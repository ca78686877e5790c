"""A producer's transactions (`TransactionManager`, KIP-98): when it commits, and the requests that its sender owes a coordinator.

`commitTransaction()` sends all that waits, then `EndTxn`, and the thread waits for the answer. Before KIP-890 a transaction's first
record in a partition follows `AddPartitionsToTxn`. While the coordinator has not answered the sender sends nothing else.
"""

from pipeline.compilation import njit
from pipeline.simulator.engine.client_state import ClientRequest, PartitionQueue, ProducerState
from pipeline.simulator.engine.connections import (
    CONCURRENT_RETRY_NS,
    can_send,
    put_in_flight,
    submit_request,
    take_request,
)
from pipeline.simulator.engine.primitives import is_empty, set_clock
from pipeline.simulator.engine.state import NEVER, NONE, RECORDED, Simulation, ThreadState


@njit
def is_commit(sim: Simulation, thread: ThreadState) -> bool:
    return thread.kind == RECORDED and sim.recorded[thread.first_recorded + thread.sent_count].topic < 0


@njit
def note_partition(producer: ProducerState, queue: PartitionQueue) -> None:
    """A partition got a record: the transaction has to hold it (`maybeAddPartition`)."""
    if producer.adds_partitions and queue.transaction <= producer.commit_count:
        queue.transaction = producer.commit_count + 1
        producer.has_new_partitions = True


@njit
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
    if not can_send(sim, producer, connection, now_ns):
        return connection.throttled_until_ns if now_ns < connection.throttled_until_ns else NEVER
    number = take_request(sim, producer, now_ns)
    put_in_flight(sim, producer, connection, number)
    response_ns = submit_request(sim, connection, number)
    if response_ns >= 0:
        set_clock(sim, connection.number, response_ns)
    producer.transactional_request = number
    producer.is_ending = not producer.has_new_partitions
    producer.has_new_partitions = False
    return NEVER


@njit
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
        producer.coordinator_retry_ns = now_ns + CONCURRENT_RETRY_NS
