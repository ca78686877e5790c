"""Draws from the streams of a run: the numbers of `random_stream`, to the bit, for kernels."""

from typing import Any

import numba as nb
import numpy as np

from pipeline.compilation import njit
from pipeline.simulator.engine.client_state import QuantileTable, RandomStream
from pipeline.simulator.engine.random_stream import (
    FIRST_FACTOR,
    FRACTION_BITS,
    GAMMA,
    LEVEL_BITS,
    LEVEL_COUNT,
    SECOND_FACTOR,
)
from pipeline.simulator.engine.state import Simulation

Word = Any  # inside a kernel, uint64: mixed with a signed number it would become a float
_GAMMA, _FIRST, _SECOND = np.uint64(GAMMA), np.uint64(FIRST_FACTOR), np.uint64(SECOND_FACTOR)
_LAST_LEVEL = LEVEL_COUNT - 1
_STEP_SHIFT = np.uint64(64 - LEVEL_BITS)
_FRACTION_SHIFT = np.uint64(64 - LEVEL_BITS - FRACTION_BITS)
_FRACTION_MASK = np.uint64((1 << FRACTION_BITS) - 1)


@njit
def draw_bits(stream: RandomStream) -> Word:
    """As `random_stream.draw_bits`; every draw takes the next count."""
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
    """As `random_stream.draw_quantile`; a distribution with a single value leaves the stream alone."""
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
    """The delay that holds at a time; see `distribution.Steps`."""
    low, high = first, first + count
    while high - low > 1:
        middle = (low + high) >> 1
        if sim.delays[middle].start_ns <= time_ns:
            low = middle
        else:
            high = middle
    return sim.delays[low].delay_ns
