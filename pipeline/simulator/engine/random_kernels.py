"""`random_stream` for kernels: the same numbers to the bit. Streams and counts are uint64."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.core import types

from pipeline.compilation import kernel, part
from pipeline.simulator.engine.random_stream import (
    FIRST_FACTOR,
    FRACTION_BITS,
    GAMMA,
    LEVEL_BITS,
    LEVEL_COUNT,
    SECOND_FACTOR,
)

Bits = Any  # inside a kernel, uint64
Array = Any  # inside a kernel, an array's items are Numba's numbers

_GAMMA, _FIRST, _SECOND = np.uint64(GAMMA), np.uint64(FIRST_FACTOR), np.uint64(SECOND_FACTOR)
_LAST_LEVEL = LEVEL_COUNT - 1
_STEP_SHIFT = np.uint64(64 - LEVEL_BITS)
_FRACTION_SHIFT = np.uint64(64 - LEVEL_BITS - FRACTION_BITS)
_FRACTION_MASK = np.uint64((1 << FRACTION_BITS) - 1)


@part
def draw_bits(stream: Bits, count: Bits) -> Bits:
    """As `random_stream.draw_bits`."""
    value = nb.uint64(stream + (count + nb.uint64(1)) * _GAMMA)
    value = nb.uint64((value ^ value >> nb.uint64(30)) * _FIRST)
    value = nb.uint64((value ^ value >> nb.uint64(27)) * _SECOND)
    return value ^ value >> nb.uint64(31)


@part
def draw_index(stream: Bits, count: Bits, length: int) -> int:
    """As `random_stream.draw_index`."""
    return nb.int64(draw_bits(stream, count) >> nb.uint64(33)) % length


@part
def draw_between(stream: Bits, count: Bits, low: int, high: int) -> int:
    """As `random_stream.draw_between`."""
    return low + nb.int64(draw_bits(stream, count) >> nb.uint64(1)) % (high - low + 1)


@part
def draw_chance(stream: Bits, count: Bits, parts_per_million: int) -> bool:
    """As `random_stream.draw_chance`."""
    return nb.int64(draw_bits(stream, count) >> nb.uint64(1)) % 1_000_000 < parts_per_million


@part
def draw_quantile(stream: Bits, count: Bits, memory: Array, table: int) -> int:
    """As `random_stream.draw_quantile`; the table begins at an index of an array."""
    bits = draw_bits(stream, count)
    level = 0
    while level < _LAST_LEVEL and bits >> nb.uint64(63) != nb.uint64(0):
        bits = bits << nb.uint64(1)
        level += 1
    if level < _LAST_LEVEL:
        bits = bits << nb.uint64(1)
    place = table + (level << LEVEL_BITS) + nb.int64(bits >> _STEP_SHIFT)
    fraction = nb.int64(bits >> _FRACTION_SHIFT & _FRACTION_MASK)
    low = memory[place]
    return low + ((memory[place + 1] - low) * fraction >> FRACTION_BITS)


@kernel(types.void(types.uint64, types.int64, types.int64[::1], types.uint64[:, ::1]))
def draw_all(stream: Bits, bound: int, table: Array, drawn: Array) -> None:
    """Draws of each kind, for tests: a row per count with bits, index, between, chance and quantile."""
    for row in range(len(drawn)):
        count = nb.uint64(row)
        drawn[row, 0] = draw_bits(stream, count)
        drawn[row, 1] = nb.uint64(draw_index(stream, count, bound))
        drawn[row, 2] = nb.uint64(draw_between(stream, count, bound // 2, bound))
        drawn[row, 3] = nb.uint64(draw_chance(stream, count, bound))
        drawn[row, 4] = nb.uint64(draw_quantile(stream, count, table, 0))
