"""A producer's queues (`RecordAccumulator`) and memory (`BufferPool`): how records get into batches.

Times the client compares are whole milliseconds of its clock, as in the real one: a batch made at 0.9 ms has waited for
1 ms at 1.0 ms. librdkafka compares microseconds; here it compares nanoseconds. Threads that wait for `buffer.memory`
get it in the order they came.

Appends return three numbers: the queue (`NONE` where it is still open), the memory to come back with (0 if the record
is appended), and memory that was allocated and is not needed.
"""

from pipeline.compilation import compile_module
from pipeline.simulator.engine.batches import close_batch, is_full, measure_buffer, open_batch, try_append
from pipeline.simulator.engine.built_in_partitioner import is_time_to_switch, keep_queue_size, next_partition
from pipeline.simulator.engine.client_state import PartitionQueue, ProducerBatch, ProducerState, TopicInfo
from pipeline.simulator.engine.primitives import add_member, is_empty, remove_member, set_clock
from pipeline.simulator.engine.state import MS, NONE, Simulation, ThreadState


def allocate(producer: ProducerState, size_bytes: int) -> bool:
    if producer.first_waiting != NONE or producer.free_bytes < size_bytes:
        return False
    producer.free_bytes -= size_bytes
    return True


def deallocate(sim: Simulation, producer: ProducerState, size_bytes: int, now_ns: int) -> None:
    """Gives memory back; threads that get theirs go on now."""
    producer.free_bytes += size_bytes
    _serve_waiting(sim, producer, now_ns)


def _serve_waiting(sim: Simulation, producer: ProducerState, now_ns: int) -> None:
    while producer.first_waiting != NONE:
        thread = sim.threads[producer.first_waiting]
        if thread.needed_bytes > producer.free_bytes:
            return
        producer.free_bytes -= thread.needed_bytes
        producer.first_waiting = thread.next_waiting
        if producer.first_waiting == NONE:
            producer.last_waiting = NONE
        thread.is_granted = True
        set_clock(sim, thread.clock, now_ns)


def wait_for_memory(sim: Simulation, producer: ProducerState, number: int, needed_bytes: int) -> None:
    thread = sim.threads[number]
    thread.is_granted = False
    thread.needed_bytes = needed_bytes
    thread.next_waiting = NONE
    if producer.last_waiting == NONE:
        producer.first_waiting = number
    else:
        sim.threads[producer.last_waiting].next_waiting = number
    producer.last_waiting = number


def stop_waiting(sim: Simulation, producer: ProducerState, number: int, now_ns: int) -> None:
    """A thread gives up; those behind it may go on in its stead."""
    before = NONE
    waiting = producer.first_waiting
    while waiting != number:
        before = waiting
        waiting = sim.threads[waiting].next_waiting
    following = sim.threads[number].next_waiting
    if before == NONE:
        producer.first_waiting = following
    else:
        sim.threads[before].next_waiting = following
    if following == NONE:
        producer.last_waiting = before
    _serve_waiting(sim, producer, now_ns)


Outcome = tuple[int, int, int]


def round_time(producer: ProducerState, time_ns: int) -> int:
    """The clock as the client reads it: whole milliseconds in Java."""
    return time_ns // MS * MS if producer.is_java else time_ns


def all_batches_full(sim: Simulation, producer: ProducerState, queue: PartitionQueue) -> bool:
    """Returns whether nothing waits in a queue, or its newest batch is full (`allBatchesFull`)."""
    return queue.tail == NONE or is_full(sim.batches[queue.tail], producer.batch_record_count)


def append_to_newest(sim: Simulation, producer: ProducerState, queue: PartitionQueue, thread: ThreadState) -> int:
    """Puts a record into a queue's newest batch, and returns the bytes added; -1 if there is no room, and it is closed."""
    if queue.tail == NONE:
        return -1
    appended_bytes = try_append(sim, producer, queue.tail, thread)
    if appended_bytes < 0:
        sim.batches[queue.tail].is_closed = True
    return appended_bytes


def append_new_batch(
    sim: Simulation, producer: ProducerState, queue: PartitionQueue, thread: ThreadState, now_ns: int, buffer_bytes: int
) -> int:
    """Opens a batch with a record, and returns its bytes (`appendNewBatch`); the memory is already allocated."""
    number = open_batch(sim, producer, queue, now_ns, thread, buffer_bytes)
    keep_queue_size(producer, queue)
    queue.length += 1
    if queue.tail == NONE:
        queue.head = number
        _note_batches(sim, producer, queue)
    else:
        sim.batches[queue.tail].next = number
    queue.tail = number
    producer.next_expiry_ns = min(producer.next_expiry_ns, find_expiry(producer, sim.batches[number]))
    return try_append(sim, producer, number, thread)


def append(
    sim: Simulation, producer: ProducerState, thread: ThreadState, queue_number: int, now_ns: int, buffer_bytes: int
) -> Outcome:
    """Appends a record (`append`) to a queue, or to KIP-794's sticky one; `buffer_bytes`: memory waited for, or 0."""
    topic = sim.topics[thread.topic]
    is_sticky = queue_number == NONE
    is_appended = False
    moves_on = is_sticky and topic.sticky_partition < 0
    while True:
        if moves_on:
            next_partition(sim, producer, topic)
        if is_appended:
            return queue_number, 0, buffer_bytes
        if is_sticky:
            queue_number = topic.first_queue + topic.sticky_partition
        queue = sim.queues[queue_number]
        topic.made_count += not queue.is_made  # the client knows a queue once it was asked for (`getOrCreateDeque`)
        queue.is_made = True
        moves_on = is_sticky and _partition_changed(sim, producer, topic, queue)
        if moves_on:
            continue
        appended_bytes = append_to_newest(sim, producer, queue, thread)
        if appended_bytes < 0:
            if buffer_bytes == 0:
                buffer_bytes = measure_buffer(producer, thread)
                if not allocate(producer, buffer_bytes):
                    return NONE if is_sticky else queue_number, buffer_bytes, 0
            # the attempt closed the newest batch
            moves_on = is_sticky and _partition_changed(sim, producer, topic, queue)
            if moves_on:
                continue
            appended_bytes = append_new_batch(sim, producer, queue, thread, now_ns, buffer_bytes)
            buffer_bytes = 0
        is_appended = True
        topic.produced_bytes += appended_bytes if is_sticky else 0  # `updatePartitionInfo`
        moves_on = is_sticky and is_time_to_switch(producer, topic, all_batches_full(sim, producer, queue))


def _partition_changed(sim: Simulation, producer: ProducerState, topic: TopicInfo, queue: PartitionQueue) -> bool:
    """If all batches are full by now, the partitioner is asked again whether to move on (`partitionChanged`)."""
    are_full = all_batches_full(sim, producer, queue)
    return are_full and is_time_to_switch(producer, topic, are_full)


def enqueue_message(
    sim: Simulation, producer: ProducerState, thread: ThreadState, queue_number: int, now_ns: int, buffer_bytes: int
) -> Outcome:
    """librdkafka: memory is claimed for each message, not for a batch (`rd_kafka_msgq_enq`)."""
    if buffer_bytes == 0 and not allocate(producer, thread.body_bytes):
        return queue_number, thread.body_bytes, 0
    queue = sim.queues[queue_number]
    if append_to_newest(sim, producer, queue, thread) >= 0:
        sim.batches[queue.tail].claimed_bytes += thread.body_bytes
    else:
        append_new_batch(sim, producer, queue, thread, now_ns, thread.body_bytes)
    return queue_number, 0, 0


def _note_batches(sim: Simulation, producer: ProducerState, queue: PartitionQueue) -> None:
    add_member(sim, producer.queues_with_batches, queue.number - producer.first_queue)
    if queue.connection != NONE:
        connection = sim.connections[queue.connection]
        add_member(sim, connection.queues_with_batches, queue.place)
        add_member(sim, producer.brokers_with_batches, connection.broker)


def poll_first(sim: Simulation, producer: ProducerState, queue: PartitionQueue) -> int:
    number = queue.head
    keep_queue_size(producer, queue)
    queue.length -= 1
    queue.head = sim.batches[number].next
    sim.batches[number].next = NONE
    if queue.head == NONE:
        queue.tail = NONE
        remove_member(sim, producer.queues_with_batches, queue.number - producer.first_queue)
        if queue.connection != NONE:
            connection = sim.connections[queue.connection]
            remove_member(sim, connection.queues_with_batches, queue.place)
            if is_empty(sim, connection.queues_with_batches):
                remove_member(sim, producer.brokers_with_batches, connection.broker)
    return number


def drain_batch(sim: Simulation, producer: ProducerState, queue: PartitionQueue, now_ns: int) -> int:
    """Takes the oldest batch off a queue to send it: gives it its sequence number, and closes it for good."""
    number = poll_first(sim, producer, queue)
    batch = sim.batches[number]
    if producer.is_idempotent and batch.sequence < 0:
        batch.sequence = queue.next_sequence
        queue.next_sequence += 1
        batch.previous_sent = queue.last_sent
        if queue.last_sent != NONE:
            sim.batches[queue.last_sent].next_sent = number
        queue.last_sent = number
    close_batch(producer, sim.topics[queue.topic], batch)
    batch.send_count += 1
    batch.drained_ns = now_ns
    queue.is_muted = producer.mutes_partitions
    return number


def is_next(batch: ProducerBatch) -> bool:
    """No batch of the queue that was sent before is still on its way."""
    return batch.sequence < 0 or batch.previous_sent == NONE


def reenqueue(sim: Simulation, producer: ProducerState, number: int, now_ns: int, backoff_ms: int) -> None:
    """Queues a batch that came back: first; if idempotent, after those sent before it (`insertInSequenceOrder`)."""
    batch = sim.batches[number]
    batch.attempt_count += 1
    batch.last_attempt_ms = now_ns // MS
    batch.backoff_ms = backoff_ms
    queue = sim.queues[batch.queue]
    earlier_count = 0
    waiting = queue.head
    while waiting != NONE:
        earlier_count += 0 <= sim.batches[waiting].sequence < batch.sequence
        waiting = sim.batches[waiting].next
    keep_queue_size(producer, queue)
    queue.length += 1
    _note_batches(sim, producer, queue)
    before = NONE
    following = queue.head
    for _ in range(earlier_count):
        before = following
        following = sim.batches[following].next
    batch.next = following
    if before == NONE:
        queue.head = number
    else:
        sim.batches[before].next = number
    if following == NONE:
        queue.tail = number


def forget_sent(sim: Simulation, batch: ProducerBatch) -> None:
    if batch.sequence < 0:
        return
    if batch.previous_sent != NONE:
        sim.batches[batch.previous_sent].next_sent = batch.next_sent
    if batch.next_sent != NONE:
        sim.batches[batch.next_sent].previous_sent = batch.previous_sent
    else:
        sim.queues[batch.queue].last_sent = batch.previous_sent
    batch.previous_sent = NONE


def find_expiry(producer: ProducerState, batch: ProducerBatch) -> int:
    return round_time(producer, batch.created_ns) + producer.delivery_timeout_ns


compile_module(__name__)
