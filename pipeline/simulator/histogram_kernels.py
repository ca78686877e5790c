"""`latency_histogram` for kernels: which bucket a latency falls in, and counting it."""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types

from pipeline.compilation import instruction, kernel, part
from pipeline.simulator.latency_histogram import BUCKET_COUNT, STEP_BITS

Array = Any  # inside a kernel, an array's items are Numba's numbers
Typing = Any  # Numba's typing and code generation contexts, and what they hand out, carry no types of their own

_LAST_BUCKET = BUCKET_COUNT - 1

SUM, LEAST, LARGEST = range(3)
"""What the three extra numbers beside a histogram's counts are, all in nanoseconds."""


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
def count_latency(counts: Array, extremes: Array, latency_ns: int, times: int) -> None:
    """Counts a latency that many times, and keeps sum, least and largest, which begins at -1: none yet."""
    counts[bucket_of(latency_ns)] += times
    extremes[SUM] += latency_ns * times
    if extremes[LARGEST] < 0 or latency_ns < extremes[LEAST]:
        extremes[LEAST] = latency_ns
    extremes[LARGEST] = max(extremes[LARGEST], latency_ns)


@kernel(types.void(types.Array(types.int64, 1, "C", readonly=True), types.int64[::1], types.int64[::1]))
def count_latencies(latencies_ns: Array, counts: Array, extremes: Array) -> None:
    """Counts every latency once."""
    for latency_ns in latencies_ns:
        count_latency(counts, extremes, latency_ns, 1)
