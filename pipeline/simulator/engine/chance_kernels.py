"""Chance and schedules for kernels, from streams, distributions and steps that lie in the run's memory."""

from __future__ import annotations

from typing import Any

import numba as nb

from pipeline.compilation import part
from pipeline.simulator.engine.layout import (
    DISTRIBUTION_IS_CONSTANT,
    DISTRIBUTION_VALUE,
    STEPS_COUNT,
    STEPS_STARTS,
    STREAM_COUNT,
    STREAM_KEY,
)
from pipeline.simulator.engine.random_kernels import draw_index, draw_quantile

Array = Any  # inside a kernel, an array's items are Numba's numbers


@part
def draw_from(memory: Array, distribution: int, stream: int) -> int:
    """The next number from a distribution; one with a single value leaves the stream alone."""
    value = memory[distribution + DISTRIBUTION_VALUE]
    if memory[distribution + DISTRIBUTION_IS_CONSTANT]:
        return value
    count = memory[stream + STREAM_COUNT]
    memory[stream + STREAM_COUNT] = count + 1
    return draw_quantile(nb.uint64(memory[stream + STREAM_KEY]), nb.uint64(count), memory, value)


@part
def draw_below(memory: Array, stream: int, length: int) -> int:
    """The next index below a length."""
    count = memory[stream + STREAM_COUNT]
    memory[stream + STREAM_COUNT] = count + 1
    return draw_index(nb.uint64(memory[stream + STREAM_KEY]), nb.uint64(count), length)


@part
def read_step(memory: Array, steps: int, time_ns: int) -> int:
    """The value that holds at a time; see `distribution.Steps`."""
    count = memory[steps + STEPS_COUNT]
    starts = steps + STEPS_STARTS
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) >> 1
        if memory[starts + middle] <= time_ns:
            low = middle
        else:
            high = middle
    return memory[starts + count + low]
