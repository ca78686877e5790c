"""Clocks: a tree whose every node holds the earliest time below it, so the next event is at the root.

Node 0 is how many leaves there are, a power of two; node 1 is the root; the two below node n are 2n and 2n + 1; clock c
is node leaves + c. A clock without a time shows `NEVER`.
"""

from pipeline.compilation import njit
from pipeline.simulator.engine.state import NEVER, Simulation


def make_clocks(clock_count: int) -> list[int]:
    """Returns the nodes of clocks none of which shows a time."""
    leaf_count = 1 << max((clock_count - 1).bit_length(), 1)
    return [leaf_count] + [NEVER] * (2 * leaf_count - 1)


@njit
def set_clock(sim: Simulation, clock: int, time_ns: int) -> None:
    nodes = sim.clocks
    node = nodes[0] + clock
    nodes[node] = time_ns
    while node > 1:
        earliest_ns = min(nodes[node], nodes[node ^ 1])
        node >>= 1
        if nodes[node] == earliest_ns:
            return
        nodes[node] = earliest_ns


@njit
def read_clock(sim: Simulation, clock: int) -> int:
    return sim.clocks[sim.clocks[0] + clock]


@njit
def read_earliest(sim: Simulation) -> int:
    return sim.clocks[1]


@njit
def find_earliest(sim: Simulation) -> int:
    """The clock with the earliest time; of several, that of the lowest number."""
    nodes = sim.clocks
    leaf_count = nodes[0]
    time_ns = nodes[1]
    node = 1
    while node < leaf_count:
        node <<= 1
        if nodes[node] != time_ns:
            node += 1
    return node - leaf_count
