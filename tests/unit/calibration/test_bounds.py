"""Bounds on linger.ms and batch.size, on simulated sessions where both are known."""

import numpy as np
import pytest

from pipeline.calibration.partitioner.settings import bound_batch_bytes, bound_linger_ms, measure_next
from pipeline.calibration.session_traffic import SessionBatches
from pipeline.simulator.distributions import Distribution
from tests.simulated_sessions import make_scenario, record_session

RECORD_BYTES = 521.0


def bound(strategy: str, config: dict[str, str], *, pattern: str, leaders=(0, 1, 2), delays_ms=None):
    scenario = make_scenario(strategy, config=config, pattern=pattern, leaders=leaders, delays_ms=delays_ms, seconds=8)
    traffic, batches, _ = record_session(scenario, 5)
    size = bound_batch_bytes(batches, RECORD_BYTES)
    full_bytes = (size.value or size.low + RECORD_BYTES + 1) - RECORD_BYTES
    return size, bound_linger_ms(batches, traffic, sticks=True, full_bytes=full_bytes)


@pytest.mark.parametrize("strategy", ["java-sticky-2.4", "java-builtin"])
@pytest.mark.parametrize("pattern", ["perf-test", "steady"])
@pytest.mark.parametrize("linger_ms", [0, 5, 50])
def test_linger_lies_within_its_bounds(strategy, pattern, linger_ms):
    config = {"linger.ms": str(linger_ms), "batch.size": "131072"}
    _, linger = bound(strategy, config, pattern=pattern, delays_ms={1: 20.0})
    assert linger.low <= linger_ms
    assert linger.high is not None
    assert linger_ms <= linger.high
    assert linger.value == pytest.approx(linger_ms, rel=0.5, abs=1)
    assert linger.high - linger.low <= max(5, linger_ms)


def test_full_batches_tell_their_size():
    size, _ = bound("java-sticky-2.4", {"linger.ms": "100"}, pattern="perf-test")
    assert size.value == 16_384
    assert size.low <= 16_384 <= size.high


def test_full_batches_tell_their_size_where_records_are_of_many_sizes():
    """The largest usual record is a third of a batch: the next record of its partition says whether it had room."""
    config = {"linger.ms": "100", "batch.size": "4096"}
    scenario = make_scenario(
        "java-sticky-2.4", config=config, pattern="steady", seconds=8, value_bytes=Distribution.exponential(500)
    )
    traffic, batches, _ = record_session(scenario, 5)
    size = bound_batch_bytes(batches, measure_next(traffic, batches, RECORD_BYTES))
    assert size.value == 4_096
    assert size.low <= 4_096 <= size.high


def test_batches_that_are_full_before_their_time_bound_linger_from_below_only():
    _, linger = bound("java-sticky-2.4", {"linger.ms": "100"}, pattern="perf-test", leaders=(0, 1, 2) * 4)
    assert linger.value is None
    assert 10 < linger.low < 100
    assert linger.high is None


def test_batches_that_were_not_full_do_not_tell_their_size():
    size, _ = bound("java-sticky-2.4", {"linger.ms": "5", "batch.size": "65536"}, pattern="steady")
    assert size.value is None
    assert 1_000 < size.low < 65_536


def test_single_records_tell_nothing_of_batch_size():
    one = np.ones(50, np.int64)
    batches = SessionBatches(0 * one, 0 * one, np.arange(50), np.arange(50), one, 20_000 * one)
    size = bound_batch_bytes(batches, 20_000)
    assert (size.value, size.low, size.high) == (None, 0, None)


def test_few_batches_tell_nothing_of_linger():
    scenario = make_scenario("java-sticky-2.4", seconds=8)
    traffic, batches, _ = record_session(scenario, 5)
    linger = bound_linger_ms(batches.select(np.arange(9)), traffic, sticks=True, full_bytes=1e9)
    assert (linger.value, linger.low, linger.high) == (None, 0, None)
