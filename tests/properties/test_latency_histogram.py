"""The latency histogram: kernel and readable twin count alike, and quantiles are as near as it says."""

import numba as nb
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.compilation import make_items
from pipeline.simulator.engine.primitives import count_latency
from pipeline.simulator.engine.result import BUCKET_COUNT, MAX_BITS, LatencyHistogram, merge_histograms, middle_of
from pipeline.simulator.engine.state import NEVER, LatencyBuckets
from tests.oracles.simulator.latencies import bucket_of, tally_latencies

LATENCIES_NS = st.one_of(st.integers(0, 2000), st.integers(0, 2**MAX_BITS - 1))
PROBABILITIES = [0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0]


@nb.njit
def count_latencies(histograms, latencies_ns):
    for latency_ns in latencies_ns:
        count_latency(histograms[0], latency_ns)


def assert_equal_histograms(one, other):
    assert np.array_equal(one.counts, other.counts)
    assert (one.sum_ns, one.min_ns, one.max_ns) == (other.sum_ns, other.min_ns, other.max_ns)


@given(st.lists(LATENCIES_NS, min_size=1, max_size=200))
def test_kernel_counts_as_the_readable_twin(latencies_ns):
    histograms = make_items(LatencyBuckets, 1)
    histograms["min_ns"] = NEVER
    count_latencies(histograms, np.array(latencies_ns))
    [row] = histograms
    counted = LatencyHistogram(row["counts"], int(row["sum_ns"]), int(row["min_ns"]), int(row["max_ns"]))
    assert_equal_histograms(counted, tally_latencies(latencies_ns))


@given(st.lists(LATENCIES_NS, min_size=1, max_size=200))
def test_quantiles_are_as_near_as_stated(latencies_ns):
    histogram = tally_latencies(latencies_ns)
    in_order = sorted(latencies_ns)
    for probability in PROBABILITIES:
        exact_ns = in_order[min(int(probability * len(in_order)), len(in_order) - 1)]
        assert abs(histogram.find_quantile_ns(probability) - exact_ns) <= exact_ns / 256
    assert histogram.mean_ns == sum(latencies_ns) / len(latencies_ns)


@given(st.lists(st.lists(LATENCIES_NS, max_size=20), max_size=5))
def test_merging_is_counting_in_one(parts_ns):
    merged = merge_histograms(tally_latencies(part_ns) for part_ns in parts_ns)
    assert_equal_histograms(merged, tally_latencies(latency_ns for part_ns in parts_ns for latency_ns in part_ns))


def test_buckets_follow_one_another():
    edges = [middle_of(bucket) for bucket in range(BUCKET_COUNT)]
    assert [bucket_of(edge) for edge in edges] == list(range(BUCKET_COUNT))
    assert (np.diff(edges) > 0).all()


def test_too_long_a_latency_counts_in_the_last_bucket():
    histogram = tally_latencies([2**60])
    assert histogram.counts[-1] == 1
    assert histogram.max_ns == 2**60


def test_no_latency_has_no_quantile():
    histogram = merge_histograms([])
    assert (histogram.count, histogram.mean_ns, histogram.find_quantile_ns(0.5)) == (0, None, None)
