"""The order of events: whatever has the earliest clock happens next; see `scenario.scenario` for the rules."""

from numba.core import types

from pipeline.compilation import kernel, njit
from pipeline.simulator.engine.arrivals import find_first_due_ns, is_fed
from pipeline.simulator.engine.broker import serve_request, take_response
from pipeline.simulator.engine.clocks import find_earliest, read_earliest, set_clock
from pipeline.simulator.engine.network_client import release_request
from pipeline.simulator.engine.producer import close, go_on
from pipeline.simulator.engine.sender import note_response, run_once
from pipeline.simulator.engine.state import NEVER, NONE, SIMULATION, Simulation

FINISHED, UNFINISHED, OUT_OF_ROOM, OUT_OF_RECORDS = range(4)


@njit
def _on_response(sim: Simulation, number: int, now_ns: int) -> None:
    """A connection is ready, or a response arrives."""
    connection = sim.connections[number]
    producer = sim.producers[connection.producer]
    if not connection.is_connected:
        connection.is_connected = True
        connection.is_connecting = False
    else:
        release_request(sim, take_response(sim, connection, now_ns))
        if connection.head != NONE:
            set_clock(sim, number, serve_request(sim, connection, now_ns))
        if producer.acks == 0:
            return
        connection.arrived_count += 1
    note_response(sim, producer, now_ns)


@kernel(types.void(SIMULATION), allocates=False)
def start_run(sim: Simulation) -> None:
    """Sets the clocks of a run that has not begun."""
    for number in range(1, len(sim.threads)):
        thread = sim.threads[number]
        due_ns = find_first_due_ns(sim, thread)
        if due_ns >= 0:
            set_clock(sim, thread.clock, due_ns)
        else:
            sim.producers[thread.producer].running_count -= 1
    for number in range(len(sim.producers)):
        if sim.producers[number].running_count == 0:
            close(sim, sim.producers[number], sim.run.now_ns)


@kernel(types.int64(SIMULATION, types.int64), allocates=False)
def continue_run(sim: Simulation, event_count: int) -> int:
    """Makes so many events of a started run happen, at most, one after the other.

    Call it again until it is `FINISHED`: after `OUT_OF_ROOM` with longer arrays, after `OUT_OF_RECORDS` with the next.
    """
    run = sim.run
    for _ in range(event_count):
        if run.is_short:
            return OUT_OF_ROOM
        now_ns = read_earliest(sim)
        if now_ns >= NEVER:
            return FINISHED
        clock = find_earliest(sim)
        number = clock - run.first_thread
        if number > 0 and not is_fed(sim.threads[number]):
            return OUT_OF_RECORDS
        set_clock(sim, clock, NEVER)
        run.now_ns = now_ns
        if clock < run.first_sender:
            _on_response(sim, clock, now_ns)
        elif clock <= run.first_thread:
            run_once(sim, sim.producers[clock - run.first_sender], now_ns)
        else:
            # most often the next event is the same thread's: no need to ask the clocks
            due_ns = now_ns
            while True:
                run.now_ns = due_ns
                due_ns = go_on(sim, number, due_ns)
                if not 0 <= due_ns < read_earliest(sim) or not is_fed(sim.threads[number]) or run.is_short:
                    break
            if due_ns >= 0:
                set_clock(sim, clock, due_ns)
    return UNFINISHED
