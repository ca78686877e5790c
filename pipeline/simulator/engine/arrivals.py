"""When threads of the application call `send()`, and with what.

Each kind of arrivals is asked for the next due time after a `send()` returned; who is late catches up.
"""

from pipeline.compilation import njit
from pipeline.simulator.engine.draws import draw, draw_below
from pipeline.simulator.engine.record_size import measure_varint_bytes
from pipeline.simulator.engine.state import MS, ON_OFF, PERF_TEST, RECORDED, SECOND, SendTarget, Simulation, ThreadState

_MIN_SLEEP_NS = 2 * MS  # the perf test's `ThroughputThrottler` owes shorter sleeps


@njit
def find_first_due_ns(sim: Simulation, thread: ThreadState) -> int:
    """When a thread's first record is due, or -1."""
    if thread.kind == PERF_TEST:
        return _check_end(thread, thread.start_ns)
    if thread.kind == RECORDED:
        return _check_end(thread, _read_recorded_due_ns(sim, thread))
    thread.due_ns = thread.start_ns
    if thread.kind == ON_OFF:
        thread.phase_end_ns = thread.start_ns + draw(sim.distributions[thread.on_ns], thread.gap_stream)
    return _check_end(thread, _find_due_ns(sim, thread, thread.start_ns))


@njit
def find_next_due_ns(sim: Simulation, thread: ThreadState, returned_ns: int) -> int:
    """When a thread sends again after a `send()`, or -1 if that was the last."""
    if 0 < thread.record_count <= thread.sent_count:
        return -1
    due_ns = _find_due_ns(sim, thread, returned_ns)
    if due_ns >= 0:
        due_ns = max(due_ns, returned_ns)
    return _check_end(thread, due_ns)


@njit
def _check_end(thread: ThreadState, due_ns: int) -> int:
    return -1 if 0 < thread.end_ns <= due_ns else due_ns


@njit
def _find_due_ns(sim: Simulation, thread: ThreadState, returned_ns: int) -> int:
    if thread.kind == PERF_TEST:
        return _throttle(sim, thread, returned_ns)
    if thread.kind == RECORDED:
        thread.tick_count += 1
        return _read_recorded_due_ns(sim, thread)
    thread.due_ns += draw(sim.distributions[thread.gap_ns], thread.gap_stream)
    if thread.kind == ON_OFF:
        _leave_out_phases(sim, thread)
    return thread.due_ns


@njit
def _throttle(sim: Simulation, thread: ThreadState, returned_ns: int) -> int:
    """At once, unless ahead of the rate and the sleep owed is worth it; see `traffic.PerfTest`."""
    count = thread.tick_count  # of records before the last one, as the tool counts
    thread.tick_count += 1
    elapsed_ms = thread.sent_at_ns // MS - thread.start_ns // MS
    rate = thread.rate_per_s
    if rate == 0 or elapsed_ms <= 0 or count * 1000 <= rate * elapsed_ms:
        return returned_ns
    thread.deficit_ns += SECOND // rate
    if thread.deficit_ns < _MIN_SLEEP_NS:
        return returned_ns
    asked_ns = -(-thread.deficit_ns // MS) * MS
    thread.deficit_ns = 0
    return returned_ns + asked_ns + draw(sim.distributions[thread.oversleep_ns], thread.gap_stream)


@njit
def _leave_out_phases(sim: Simulation, thread: ThreadState) -> None:
    """Carries the rest of a gap at a phase's end over into the next phase."""
    while thread.due_ns >= thread.phase_end_ns:
        off_ns = draw(sim.distributions[thread.off_ns], thread.gap_stream)
        thread.due_ns += off_ns
        thread.phase_end_ns += off_ns + draw(sim.distributions[thread.on_ns], thread.gap_stream)


@njit
def _read_recorded_due_ns(sim: Simulation, thread: ThreadState) -> int:
    if thread.tick_count >= thread.recorded_count:
        return -1
    return sim.recorded[thread.first_recorded + thread.tick_count].due_ns


@njit
def is_fed(thread: ThreadState) -> bool:
    """The record that is due is in memory, and the one after it, whose due time is asked for next; or it is the last."""
    return thread.tick_count + 1 < thread.fed_count


@njit
def take_record(sim: Simulation, thread: ThreadState, now_ns: int) -> None:
    place = thread.sent_count
    thread.sent_count += 1
    thread.sent_at_ns = now_ns
    if thread.kind == RECORDED:
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


@njit
def _choose_target(sim: Simulation, thread: ThreadState) -> SendTarget:
    """Draws by weight: the first target whose cumulative weight is larger."""
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
