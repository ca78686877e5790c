"""Threads of the application: when they call `send()`, with what, and how it goes on (`KafkaProducer.doSend`).

Each kind of arrivals is asked for the next due time after a `send()` returned; who is late catches up.
"""

from pipeline.compilation import compile_module
from pipeline.simulator.engine import accumulator, state
from pipeline.simulator.engine.batches import estimate_batch_bytes, is_full, measure_varint_bytes
from pipeline.simulator.engine.client_state import ProducerState
from pipeline.simulator.engine.completion import is_commit, note_partition
from pipeline.simulator.engine.partitioners import choose_partition, on_new_batch
from pipeline.simulator.engine.primitives import count_append, draw, draw_below
from pipeline.simulator.engine.sender import wake_up

_MIN_SLEEP_NS = 2 * state.MS  # the perf test's `ThroughputThrottler` owes shorter sleeps


def find_first_due_ns(sim: state.Simulation, thread: state.ThreadState) -> int:
    if thread.kind == state.PERF_TEST:
        return _check_end(thread, thread.start_ns)
    if thread.kind == state.RECORDED:
        return _check_end(thread, _read_recorded_due_ns(sim, thread))
    thread.due_ns = thread.start_ns
    if thread.kind == state.ON_OFF:
        thread.phase_end_ns = thread.start_ns + draw(sim.distributions[thread.on_ns], thread.gap_stream)
    return _check_end(thread, _find_due_ns(sim, thread, thread.start_ns))


def _check_end(thread: state.ThreadState, due_ns: int) -> int:
    return -1 if 0 < thread.end_ns <= due_ns else due_ns


def _find_due_ns(sim: state.Simulation, thread: state.ThreadState, returned_ns: int) -> int:
    if thread.kind == state.PERF_TEST:
        return _throttle(sim, thread, returned_ns)
    if thread.kind == state.RECORDED:
        thread.tick_count += 1
        return _read_recorded_due_ns(sim, thread)
    thread.due_ns += draw(sim.distributions[thread.gap_ns], thread.gap_stream)
    if thread.kind == state.ON_OFF:
        while thread.due_ns >= thread.phase_end_ns:  # the rest of a gap is carried over into the next phase
            off_ns = draw(sim.distributions[thread.off_ns], thread.gap_stream)
            thread.due_ns += off_ns
            thread.phase_end_ns += off_ns + draw(sim.distributions[thread.on_ns], thread.gap_stream)
    return thread.due_ns


def _throttle(sim: state.Simulation, thread: state.ThreadState, returned_ns: int) -> int:
    """At once, unless ahead of the rate and the sleep owed is worth it; see `scenario.PerfTest`."""
    count = thread.tick_count  # of records before the last one, as the tool counts
    thread.tick_count += 1
    elapsed_ms = thread.sent_at_ns // state.MS - thread.start_ns // state.MS
    rate = thread.rate_per_s
    if rate == 0 or elapsed_ms <= 0 or count * 1000 <= rate * elapsed_ms:
        return returned_ns
    thread.deficit_ns += state.SECOND // rate
    if thread.deficit_ns < _MIN_SLEEP_NS:
        return returned_ns
    asked_ns = -(-thread.deficit_ns // state.MS) * state.MS
    thread.deficit_ns = 0
    return returned_ns + asked_ns + draw(sim.distributions[thread.oversleep_ns], thread.gap_stream)


def _read_recorded_due_ns(sim: state.Simulation, thread: state.ThreadState) -> int:
    if thread.tick_count >= thread.recorded_count:
        return -1
    return sim.recorded[thread.first_recorded + thread.tick_count].due_ns


def is_fed(thread: state.ThreadState) -> bool:
    """The record that is due is in memory, and the one after it, whose due time is asked for next; or it is the last."""
    return thread.tick_count + 1 < thread.fed_count


def take_record(sim: state.Simulation, thread: state.ThreadState, now_ns: int) -> None:
    place = thread.sent_count
    thread.sent_count += 1
    thread.sent_at_ns = now_ns
    if thread.kind == state.RECORDED:
        recorded = sim.recorded[thread.first_recorded + place]
        thread.topic = recorded.topic
        thread.partition = recorded.partition
        thread.body_bytes = recorded.body_bytes
        return
    target = _choose_target(sim, thread)
    value_bytes = draw(sim.distributions[thread.value_bytes], thread.value_size_stream)
    thread.topic = target.topic
    thread.partition = target.partition
    thread.body_bytes = target.body_bytes + measure_varint_bytes(value_bytes) + value_bytes


def _choose_target(sim: state.Simulation, thread: state.ThreadState) -> state.SendTarget:
    low, high = thread.first_target, thread.first_target + thread.target_count - 1
    if low < high:
        drawn = draw_below(thread.target_stream, sim.targets[high].weight)
        while low < high:
            middle = (low + high) >> 1
            if sim.targets[middle].weight > drawn:
                high = middle
            else:
                low = middle + 1
    return sim.targets[low]


def go_on(sim: state.Simulation, number: int, now_ns: int) -> int:
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
            accumulator.stop_waiting(sim, producer, number, now_ns)
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
        accumulator.wait_for_memory(sim, producer, number, needed_bytes)
        return max(thread.sent_at_ns + producer.max_block_ns, now_ns)
    if unused_bytes:
        accumulator.deallocate(sim, producer, unused_bytes, now_ns)
    queue = sim.queues[queue_number]
    count_append(producer, queue, now_ns)
    note_partition(producer, queue)
    returned_ns = now_ns + producer.append_ns
    newest = sim.batches[queue.tail]
    wakes = queue.length > 1 or newest.record_count == 1 or is_full(newest, producer.batch_record_count)
    if wakes and not producer.is_called:  # a batch was opened or is full
        returned_ns += draw(sim.distributions[producer.wake_call_ns], thread.wake_call_stream)
        wake_up(sim, producer, now_ns, returned_ns)
    return _return_from_send(sim, producer, thread, returned_ns, now_ns)


def _commit(sim: state.Simulation, producer: ProducerState, thread: state.ThreadState, now_ns: int) -> int:
    if thread.is_committing:
        thread.is_committing = False
        return _return_from_send(sim, producer, thread, now_ns, now_ns)
    thread.sent_count += 1
    thread.is_committing = True
    producer.committing_thread = thread.number + 1
    producer.is_flushing = True  # everything that waits is sent
    wake_up(sim, producer, now_ns, now_ns)
    return -1


def _call_send(sim: state.Simulation, producer: ProducerState, thread: state.ThreadState, now_ns: int) -> None:
    """`send()` is called; the producer's first call fetches metadata, for which all others wait too."""
    if producer.metadata_at_ns < 0:
        producer.metadata_at_ns = now_ns + producer.metadata_ns
    take_record(sim, thread, now_ns)
    thread.created_at_ns = max(now_ns, producer.metadata_at_ns)
    producer.sent_records += 1
    if producer.first_sent_at_ns < 0:
        producer.first_sent_at_ns = now_ns
    producer.last_sent_at_ns = now_ns


def _do_send(
    sim: state.Simulation, producer: ProducerState, thread: state.ThreadState, now_ns: int, buffer_bytes: int
) -> accumulator.Outcome:
    """Appends the record a thread sends (`doSend`); the accumulator asks KIP-794's partitioner, this one others."""
    if buffer_bytes == 0:
        thread.queue = _choose_queue(sim, producer, thread, now_ns)
        if producer.asks_twice:
            queue = sim.queues[thread.queue]
            if accumulator.append_to_newest(sim, producer, queue, thread) >= 0:
                return thread.queue, 0, 0
            topic = sim.topics[thread.topic]
            on_new_batch(sim, producer, topic, thread.queue - topic.first_queue)
            thread.queue = _choose_queue(sim, producer, thread, now_ns)
    if not producer.is_java:
        return accumulator.enqueue_message(sim, producer, thread, thread.queue, now_ns, buffer_bytes)
    return accumulator.append(sim, producer, thread, thread.queue, now_ns, buffer_bytes)


def _choose_queue(sim: state.Simulation, producer: ProducerState, thread: state.ThreadState, now_ns: int) -> int:
    """The queue of a record's partition, or `NONE` where the built-in partitioner picks it."""
    topic = sim.topics[thread.topic]
    if thread.partition >= 0:
        return topic.first_queue + thread.partition
    if producer.is_built_in:
        return state.NONE
    return topic.first_queue + choose_partition(sim, producer, thread, topic, now_ns)


def _refuse(sim: state.Simulation, producer: ProducerState, thread: state.ThreadState, now_ns: int) -> int:
    producer.refused_records += 1
    return _return_from_send(sim, producer, thread, now_ns + producer.append_ns, now_ns)


def _return_from_send(
    sim: state.Simulation, producer: ProducerState, thread: state.ThreadState, returned_ns: int, now_ns: int
) -> int:
    """`send()` returns; the thread's next record, or the end."""
    due_ns = -1
    if not 0 < thread.record_count <= thread.sent_count:
        due_ns = _find_due_ns(sim, thread, returned_ns)
        due_ns = _check_end(thread, max(due_ns, returned_ns) if due_ns >= 0 else -1)
    if due_ns < 0:
        producer.running_count -= 1
        if producer.running_count == 0:
            close(sim, producer, now_ns)
    return due_ns


def close(sim: state.Simulation, producer: ProducerState, now_ns: int) -> None:
    producer.is_closing = True
    wake_up(sim, producer, now_ns, now_ns)


compile_module(__name__)
