"""`send()` in a thread of the application (`KafkaProducer.doSend`), and when the thread continues."""

from pipeline.compilation import njit
from pipeline.simulator.engine.accumulator import Outcome, append, append_to_newest, enqueue_message
from pipeline.simulator.engine.arrivals import find_next_due_ns, take_record
from pipeline.simulator.engine.batches import is_full
from pipeline.simulator.engine.buffer_pool import deallocate, stop_waiting, wait_for_memory
from pipeline.simulator.engine.client_state import PartitionQueue, ProducerState
from pipeline.simulator.engine.counters import count_append, count_send
from pipeline.simulator.engine.draws import draw
from pipeline.simulator.engine.partitioners import choose_partition, on_new_batch
from pipeline.simulator.engine.record_size import estimate_batch_bytes
from pipeline.simulator.engine.sender import wake_up
from pipeline.simulator.engine.state import NONE, Simulation, ThreadState
from pipeline.simulator.engine.transactions import begin_commit, is_commit, note_partition


@njit
def go_on(sim: Simulation, number: int, now_ns: int) -> int:
    """A record or a commit is due, or a thread that waited goes on; returns when its next one is due, or -1."""
    thread = sim.threads[number]
    producer = sim.producers[thread.producer]
    was_waiting = thread.is_waiting
    buffer_bytes = 0
    thread.is_waiting = False
    if thread.is_committing or (not was_waiting and is_commit(sim, thread)):
        return _commit(sim, producer, thread, now_ns)
    if not was_waiting:
        _call_send(sim, producer, thread, now_ns)
        if thread.created_at_ns > now_ns:
            thread.is_waiting = True
            thread.needed_bytes = 0
            return thread.created_at_ns
    elif thread.needed_bytes:
        producer.blocked_records += 1
        producer.blocked_ns += now_ns - thread.waiting_since_ns
        if not thread.is_granted:
            stop_waiting(sim, producer, number, now_ns)
            return _refuse(sim, producer, thread, now_ns)
        buffer_bytes = thread.needed_bytes
    limit_bytes = min(producer.max_request_bytes, producer.buffer_memory_bytes)
    if buffer_bytes == 0 and estimate_batch_bytes(thread.body_bytes) > limit_bytes:  # `ensureValidRecordSize`
        return _refuse(sim, producer, thread, now_ns)
    queue_number, needed_bytes, unused_bytes = _do_send(sim, producer, thread, now_ns, buffer_bytes)
    if needed_bytes:
        thread.is_waiting = True
        thread.queue = queue_number
        thread.waiting_since_ns = now_ns
        wait_for_memory(sim, producer, number, needed_bytes)
        return max(thread.sent_at_ns + producer.max_block_ns, now_ns)
    if unused_bytes:
        deallocate(sim, producer, unused_bytes, now_ns)
    queue = sim.queues[queue_number]
    count_append(producer, queue, now_ns)
    note_partition(producer, queue)
    returned_ns = now_ns + producer.append_ns
    if not producer.is_called and _wakes_sender(sim, producer, queue):
        returned_ns += draw(sim.distributions[producer.wake_call_ns], thread.wake_call_stream)
        wake_up(sim, producer, now_ns, returned_ns)
    return _return_from_send(sim, producer, thread, returned_ns, now_ns)


@njit
def _commit(sim: Simulation, producer: ProducerState, thread: ThreadState, now_ns: int) -> int:
    """`commitTransaction()` is called, or returns."""
    if thread.is_committing:
        thread.is_committing = False
        return _return_from_send(sim, producer, thread, now_ns, now_ns)
    begin_commit(producer, thread)
    wake_up(sim, producer, now_ns, now_ns)
    return -1


@njit
def _call_send(sim: Simulation, producer: ProducerState, thread: ThreadState, now_ns: int) -> None:
    """`send()` is called; the producer's first call fetches metadata, for which all others wait too."""
    if producer.metadata_at_ns < 0:
        producer.metadata_at_ns = now_ns + producer.metadata_ns
    take_record(sim, thread, now_ns)
    thread.created_at_ns = max(now_ns, producer.metadata_at_ns)
    count_send(producer, now_ns)


@njit
def _do_send(sim: Simulation, producer: ProducerState, thread: ThreadState, now_ns: int, buffer_bytes: int) -> Outcome:
    """Appends the record a thread sends, unless it needs memory that is not there (`doSend`).

    The accumulator asks the built-in partitioner (KIP-794). KIP-480's and the round robin with the defect of KAFKA-9965
    are asked here, and a second time where a batch has to be opened; all others once.
    """
    if buffer_bytes == 0:
        thread.queue = _choose_queue(sim, producer, thread, now_ns)
        if producer.asks_twice:
            queue = sim.queues[thread.queue]
            if append_to_newest(sim, producer, queue, thread) >= 0:
                return thread.queue, 0, 0
            topic = sim.topics[thread.topic]
            on_new_batch(sim, producer, topic, thread.queue - topic.first_queue)
            thread.queue = _choose_queue(sim, producer, thread, now_ns)
    if not producer.is_java:
        return enqueue_message(sim, producer, thread, thread.queue, now_ns, buffer_bytes)
    return append(sim, producer, thread, thread.queue, now_ns, buffer_bytes)


@njit
def _choose_queue(sim: Simulation, producer: ProducerState, thread: ThreadState, now_ns: int) -> int:
    """The queue of a record's partition, or `NONE` where the built-in partitioner picks it."""
    topic = sim.topics[thread.topic]
    if thread.partition >= 0:
        return topic.first_queue + thread.partition
    if producer.is_built_in:
        return NONE
    return topic.first_queue + choose_partition(sim, producer, thread, topic, now_ns)


@njit
def _wakes_sender(sim: Simulation, producer: ProducerState, queue: PartitionQueue) -> bool:
    """A batch was opened or is full."""
    newest = sim.batches[queue.tail]
    return queue.length > 1 or newest.record_count == 1 or is_full(newest, producer.batch_record_count)


@njit
def _refuse(sim: Simulation, producer: ProducerState, thread: ThreadState, now_ns: int) -> int:
    """`send()` fails: the record is too large, or found no memory within `max.block.ms`."""
    producer.refused_records += 1
    return _return_from_send(sim, producer, thread, now_ns + producer.append_ns, now_ns)


@njit
def _return_from_send(
    sim: Simulation, producer: ProducerState, thread: ThreadState, returned_ns: int, now_ns: int
) -> int:
    """`send()` returns; the thread's next record, or the end."""
    due_ns = find_next_due_ns(sim, thread, returned_ns)
    if due_ns < 0:
        producer.running_count -= 1
        if producer.running_count == 0:
            close(sim, producer, now_ns)
    return due_ns


@njit
def close(sim: Simulation, producer: ProducerState, now_ns: int) -> None:
    """Once all its threads have ended, a producer is closed: everything that waits is sent."""
    producer.is_closing = True
    wake_up(sim, producer, now_ns, now_ns)
