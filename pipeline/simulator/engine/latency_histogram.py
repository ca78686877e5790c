"""Latencies counted in buckets: memory that does not grow with the records, and quantiles with a known error.

Buckets are log-linear: below 256 ns every nanosecond has one, and each power of two above has 128 of equal width. A
quantile is given as the middle of its bucket, so it is off by at most 1/256 (0.4 %) of itself, whatever its size.
Count, sum, least and largest are exact. The layout is HdrHistogram's (http://hdrhistogram.org/).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEP_BITS = 7  # a power of two has 2 to the power of this many buckets
MAX_BITS = 44
"""Latencies have at most so many bits, so they stay below 4.8 hours; what is longer counts in the last bucket."""
BUCKET_COUNT = (MAX_BITS - STEP_BITS + 1) << STEP_BITS


def middle_of(bucket: int) -> int:
    """The middle of a bucket, in nanoseconds, rounded down.

    >>> [middle_of(bucket) for bucket in (0, 255, 256, 257)]
    [0, 255, 256, 258]
    """
    shift = max((bucket >> STEP_BITS) - 1, 0)
    low_ns = (bucket - (shift << STEP_BITS)) << shift
    return low_ns + ((1 << shift) - 1 >> 1)


@dataclass(frozen=True)
class LatencyHistogram:
    # how many fell in each bucket, `BUCKET_COUNT` long; merged ones take 4 bytes each where they fit: thousands are held at once
    counts: NDArray[np.int64] | NDArray[np.int32]
    sum_ns: int  # of all of them
    min_ns: int  # the least; 0 where there is none
    max_ns: int  # the largest; 0 where there is none

    @property
    def count(self) -> int:
        return 0 if self.is_empty else int(self.counts.sum())

    @property
    def is_empty(self) -> bool:
        """Nothing is counted; looks at one bucket, where the memory of the others may never have been touched."""
        return self.max_ns == 0 and not self.counts[0]

    @property
    def mean_ns(self) -> float | None:
        count = self.count
        return self.sum_ns / count if count else None

    def find_quantile_ns(self, probability: float) -> int | None:
        """The latency of rank `int(probability * count)`, as in `kafka-producer-perf-test`, within 1/256; or None."""
        count = self.count
        if not count:
            return None
        place = min(int(probability * count), count - 1)
        bucket = int(np.searchsorted(np.cumsum(self.counts), place, side="right"))
        return min(max(middle_of(bucket), self.min_ns), self.max_ns)


def merge_histograms(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """Puts histograms together, as if their latencies had been counted in one."""
    filled = [histogram for histogram in histograms if not histogram.is_empty]
    if not filled:
        return LatencyHistogram(np.zeros(BUCKET_COUNT, np.int32), 0, 0, 0)
    counts = filled[0].counts.astype(np.int64)  # a copy: a view would keep those of a whole run
    for histogram in filled[1:]:
        counts += histogram.counts
    is_narrow = counts.max() <= np.iinfo(np.int32).max
    return LatencyHistogram(
        counts.astype(np.int32) if is_narrow else counts,
        sum(histogram.sum_ns for histogram in filled),
        min(histogram.min_ns for histogram in filled),
        max(histogram.max_ns for histogram in filled),
    )
