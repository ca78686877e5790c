"""`latency_histogram` for kernels: which bucket a latency falls in, and counting it.

A histogram is two indexes into an array: its counts, and its extremes, three numbers.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types

from pipeline.compilation import instruction, kernel, part
from pipeline.simulator.engine.latency_histogram import BUCKET_COUNT, STEP_BITS

Array = Any  # inside a kernel, an array's items are Numba's numbers
Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own

_LAST_BUCKET = BUCKET_COUNT - 1

SUM, LEAST, LARGEST = range(3)
"""The extremes, in nanoseconds. The largest is -1 before there is one."""


def _leading_zeros(_: Typing, value: Typing) -> tuple[Typing, Typing]:
    """Counts the zero bits above an int64's highest one; 64 for 0."""

    def generate(_: Typing, builder: Typing, __: Typing, args: Typing) -> Typing:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


_count_leading_zeros: Any = instruction(_leading_zeros)


@part
def bucket_of(latency_ns: int) -> int:
    """As `latency_histogram.bucket_of`."""
    shift = max(63 - STEP_BITS - _count_leading_zeros(nb.int64(latency_ns)), 0)
    return min((shift << STEP_BITS) + (latency_ns >> shift), _LAST_BUCKET)


@part
def note_extremes(memory: Array, extremes: int, sum_ns: int, least_ns: int, largest_ns: int) -> None:
    """Takes the sum, least and largest of some latencies in."""
    memory[extremes + SUM] += sum_ns
    if memory[extremes + LARGEST] < 0 or least_ns < memory[extremes + LEAST]:
        memory[extremes + LEAST] = least_ns
    memory[extremes + LARGEST] = max(memory[extremes + LARGEST], largest_ns)


@part
def count_latency(memory: Array, counts: int, extremes: int, latency_ns: int) -> None:
    """Counts a latency."""
    memory[counts + bucket_of(latency_ns)] += 1
    note_extremes(memory, extremes, latency_ns, latency_ns, latency_ns)


@kernel(types.void(types.Array(types.int64, 1, "C", readonly=True), types.int64[::1]))
def count_latencies(latencies_ns: Array, memory: Array) -> None:
    """Counts every latency once; the extremes come first in memory, then the counts."""
    for latency_ns in latencies_ns:
        count_latency(memory, 3, 0, latency_ns)
