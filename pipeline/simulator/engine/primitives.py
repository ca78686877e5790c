"""What kernels of the event loop are made of: draws, bit sets and clocks.

Draws are numbers of `distributions`, to the bit. A bit set, a row of `Simulation.bitsets`, holds which of a producer's
queues or brokers have something to do, so that the sender looks at no others; a word holds 32 members: its sign stays
clear.

Clocks are a tree whose every node holds the earliest time below it, so the next event is at the root. Node 0 is how
many leaves there are, a power of two; node 1 is the root; the two below node n are 2n and 2n + 1; clock c is node
leaves + c. A clock without a time shows `NEVER`.
"""

from typing import Any

import numba as nb
import numpy as np

from pipeline.compilation import njit
from pipeline.simulator.distributions import FIRST_FACTOR, FRACTION_BITS, GAMMA, LEVEL_BITS, LEVEL_COUNT, SECOND_FACTOR
from pipeline.simulator.engine.client_state import QuantileTable, RandomStream
from pipeline.simulator.engine.state import NEVER, Simulation

Word = Any  # inside a kernel, uint64: mixed with a signed number it would become a float
_GAMMA, _FIRST, _SECOND = np.uint64(GAMMA), np.uint64(FIRST_FACTOR), np.uint64(SECOND_FACTOR)
_LAST_LEVEL = LEVEL_COUNT - 1
_STEP_SHIFT = np.uint64(64 - LEVEL_BITS)
_FRACTION_SHIFT = np.uint64(64 - LEVEL_BITS - FRACTION_BITS)
_FRACTION_MASK = np.uint64((1 << FRACTION_BITS) - 1)


@njit
def draw_bits(stream: RandomStream) -> Word:
    """As `distributions.draw_bits`; every draw takes the next count."""
    stream.count += 1
    value = stream.key + np.uint64(stream.count) * _GAMMA
    value = (value ^ value >> np.uint64(30)) * _FIRST
    value = (value ^ value >> np.uint64(27)) * _SECOND
    return value ^ value >> np.uint64(31)


@njit
def draw_index(stream: RandomStream, length: int) -> int:
    drawn: int = nb.int64(draw_bits(stream) >> np.uint64(33))
    return drawn % length


@njit
def draw_below(stream: RandomStream, end: int) -> int:
    """A whole number from 0 on, below an end of any size."""
    drawn: int = nb.int64(draw_bits(stream) >> np.uint64(1))
    return drawn % end


@njit
def draw(distribution: QuantileTable, stream: RandomStream) -> int:
    """As `distributions.draw_quantile`; a distribution with a single value leaves the stream alone."""
    if distribution.is_constant:
        return distribution.value
    bits = draw_bits(stream)
    level = 0
    while level < _LAST_LEVEL and bits >> np.uint64(63) != np.uint64(0):
        bits = bits << np.uint64(1)
        level += 1
    if level < _LAST_LEVEL:
        bits = bits << np.uint64(1)  # the zero that ends the ones
    step: int = nb.int64(bits >> _STEP_SHIFT)
    fraction: int = nb.int64(bits >> _FRACTION_SHIFT & _FRACTION_MASK)
    place = (level << LEVEL_BITS) + step
    low = distribution.quantiles[place]
    return low + ((distribution.quantiles[place + 1] - low) * fraction >> FRACTION_BITS)


@njit
def find_delay_ns(sim: Simulation, first: int, count: int, time_ns: int) -> int:
    low, high = first, first + count
    while high - low > 1:
        middle = (low + high) >> 1
        if sim.delays[middle].start_ns <= time_ns:
            low = middle
        else:
            high = middle
    return sim.delays[low].delay_ns


_SHIFT, _MASK = 5, 31
WORD_BITS = 1 << _SHIFT
_EXPONENT_SHIFT, _EXPONENT_BIAS = 52, 1023  # of a double


@njit
def add_member(sim: Simulation, row: int, member: int) -> None:
    sim.bitsets[row, member >> _SHIFT] |= 1 << (member & _MASK)


@njit
def remove_member(sim: Simulation, row: int, member: int) -> None:
    sim.bitsets[row, member >> _SHIFT] &= ~(1 << (member & _MASK))


@njit
def bit_length_of(number: int) -> int:
    """Bits of a number below 2 to the 53rd: the exponent of a double, in two instructions, not a loop over bits."""
    bits = int(np.float64(number).view(np.int64))
    return (bits >> _EXPONENT_SHIFT) - (_EXPONENT_BIAS - 1)


@njit
def find_next(sim: Simulation, row: int, member: int) -> int:
    start = member + 1
    word = start >> _SHIFT
    word_count = sim.bitsets.shape[1]
    if word >= word_count:
        return -1
    rest = sim.bitsets[row, word] >> (start & _MASK)
    if rest:
        return start + bit_length_of(rest & -rest) - 1
    for later in range(word + 1, word_count):
        rest = sim.bitsets[row, later]
        if rest:
            return (later << _SHIFT) + bit_length_of(rest & -rest) - 1
    return -1


@njit
def is_empty(sim: Simulation, row: int) -> bool:
    members = 0
    for word in range(sim.bitsets.shape[1]):
        members |= sim.bitsets[row, word]
    return members == 0


@njit
def clear_set(sim: Simulation, row: int) -> None:
    for word in range(sim.bitsets.shape[1]):
        sim.bitsets[row, word] = 0


def make_clocks(clock_count: int) -> list[int]:
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
