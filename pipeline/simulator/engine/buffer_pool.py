"""`buffer.memory` (`BufferPool`): threads that wait for it get it in the order they came."""

from pipeline.compilation import njit
from pipeline.simulator.engine.client_state import ProducerState
from pipeline.simulator.engine.clocks import set_clock
from pipeline.simulator.engine.state import NONE, Simulation


@njit
def allocate(producer: ProducerState, size_bytes: int) -> bool:
    """Takes memory if there is enough and no thread waits."""
    if producer.first_waiting != NONE or producer.free_bytes < size_bytes:
        return False
    producer.free_bytes -= size_bytes
    return True


@njit
def deallocate(sim: Simulation, producer: ProducerState, size_bytes: int, now_ns: int) -> None:
    """Gives memory back; threads that get theirs go on now."""
    producer.free_bytes += size_bytes
    _serve_waiting(sim, producer, now_ns)


@njit
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


@njit
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


@njit
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
