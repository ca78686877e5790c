"""Ranges over few seeds: one more run lies in them nine times of ten, whatever the number of seeds."""

import numpy as np
import pytest

from pipeline.replay.loads import Estimate, count_seeds, expect_range, measure_seeds, spread_over_seeds


@pytest.mark.parametrize("seed_count", [2, 3, 4, 5, 10, 20, 100])
def test_a_further_run_lies_in_the_range_nine_times_of_ten(seed_count):
    """Student's own table, by trying: 40,000 times so many seeds and one run more."""
    runs = np.random.default_rng(seed_count).normal(0.5, 0.02, (seed_count + 1, 40_000))
    low, median, high = expect_range(runs[:-1], least=-np.inf)
    assert ((low <= runs[-1]) & (runs[-1] <= high)).mean() == pytest.approx(0.9, abs=0.007)
    assert ((low <= median) & (median <= high)).all()


def test_percentiles_of_ten_seeds_would_be_too_narrow():
    """Why it is not they."""
    runs = np.random.default_rng(1).normal(size=(11, 20_000))
    low, high = np.percentile(runs[:-1], [5, 95], axis=0)
    assert ((low <= runs[-1]) & (runs[-1] <= high)).mean() < 0.8


@pytest.mark.parametrize("values", [[0.1], [0.3, 0.3, 0.3], [1 / 3] * 7])
def test_what_does_not_change_is_its_own_range(values):
    assert measure_seeds(values) == Estimate(values[0], values[0], values[0])


def test_the_order_of_seeds_plays_no_part():
    values = np.random.default_rng(4).random(10)
    assert measure_seeds(values) == measure_seeds(values[::-1]) == measure_seeds(np.roll(values, 3))


def test_nothing_lies_beyond_what_can_be():
    """Shares end at 0 and 1, counts at 0, parts at the whole; what no seed tells has no range."""
    assert measure_seeds([0.01, 0.04, 0.002], most=1.0).low == 0
    assert measure_seeds([0.99, 0.96, 0.998], most=1.0).high == 1
    assert measure_seeds([1.01, 1.2], least=1.0).low == 1
    assert count_seeds([0, 9]) == Estimate(4, 0, 54)
    loads = spread_over_seeds(np.array([[1, 9], [5, 5]]), 100)
    assert (loads.low.tolist(), loads.high.tolist()) == ([0, 0], [100, 100])
    assert loads.median.sum() == 100
    assert measure_seeds([None, None]) == Estimate(None, None, None)
    assert measure_seeds([None, 2.0]) == Estimate(2.0, 2.0, 2.0)
