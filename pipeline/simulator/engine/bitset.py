"""Bit sets: which of a producer's queues or brokers have something to do, so that the sender looks at no others.

A set is a row of `Simulation.bitsets`. A word holds 32 members: its sign stays clear.
"""

import numpy as np

from pipeline.compilation import njit
from pipeline.simulator.engine.state import Simulation

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
    """The first member of a set after a number; -1 if there is none."""
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
def copy_set(sim: Simulation, source: int, target: int) -> None:
    for word in range(sim.bitsets.shape[1]):
        sim.bitsets[target, word] = sim.bitsets[source, word]


@njit
def clear_set(sim: Simulation, row: int) -> None:
    for word in range(sim.bitsets.shape[1]):
        sim.bitsets[row, word] = 0
