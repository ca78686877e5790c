"""The kernel against the reference model: equal in every counter, histogram, batch and record."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.simulator.reference.run import simulate_reference
from pipeline.simulator.simulate import simulate
from tests.properties.simulated_scenarios import scenarios


def assert_equal_results(one, other):
    """Same to the byte, but first where it differs first: the batch trace is the run's diary."""
    for trace in ("batch_trace", "record_trace"):
        rows, others = (getattr(result, trace).to_pylist() for result in (one, other))
        for number, (row, other_row) in enumerate(zip(rows, others, strict=False)):
            assert row == other_row, f"{trace}, row {number}"
        assert len(rows) == len(others), trace
    for counters in ("lanes", "connections", "producers"):
        assert getattr(one, counters).tolist() == getattr(other, counters).tolist(), counters
    for histograms in ("latencies", "queue_times", "request_latencies"):
        for column in ("counts", "sums_ns", "mins_ns", "maxs_ns"):
            values = (getattr(getattr(result, histograms), column) for result in (one, other))
            assert np.array_equal(*values), (histograms, column)
    assert one.end_ns == other.end_ns


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(scenario=scenarios(), seed=st.integers(0, 2**32))
def test_kernel_does_as_the_reference(scenario, seed):
    assert_equal_results(simulate(scenario, seed, traces=True), simulate_reference(scenario, seed, traces=True))
