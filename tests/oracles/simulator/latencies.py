"""Latencies counted one by one: the readable twin of the histograms that kernels fill."""

from collections.abc import Iterable

import numpy as np

from pipeline.simulator.engine.result import BUCKET_COUNT, STEP_BITS, LatencyHistogram


def bucket_of(latency_ns: int) -> int:
    """The bucket of a latency that is not negative.

    >>> [bucket_of(latency_ns) for latency_ns in (0, 255, 256, 257, 258)]
    [0, 255, 256, 256, 257]
    """
    shift = max(latency_ns.bit_length() - STEP_BITS - 1, 0)
    return min((shift << STEP_BITS) + (latency_ns >> shift), BUCKET_COUNT - 1)


def tally_latencies(latencies_ns: Iterable[int]) -> LatencyHistogram:
    """Counts latencies.

    >>> tally_latencies([1_000_000, 3_000_000]).mean_ns
    2000000.0
    """
    counts = np.zeros(BUCKET_COUNT, np.int64)
    latencies = list(latencies_ns)
    for latency_ns in latencies:
        counts[bucket_of(latency_ns)] += 1
    return LatencyHistogram(counts, sum(latencies), min(latencies, default=0), max(latencies, default=0))
