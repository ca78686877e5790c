"""Loads with an unknown part, and brokers whose leaders are open. Oracle: every way to place few units, tried out."""

from itertools import product

import numpy as np
import pytest

from pipeline.replay.leaders import DRAWS, draw_leaders
from pipeline.replay.loads import measure_effective_partitions, measure_peak_to_mean, spread_unknown
from tests.oracles.imbalance import effective_partitions, peak_to_mean


@pytest.mark.parametrize("known", [[5, 0, 1], [2, 2, 2], [0, 0, 7], [1, 3, 4]])
@pytest.mark.parametrize("unknown", [0, 1, 4])
def test_ranges_hold_every_way_the_unknown_may_lie(known, unknown):
    loads = spread_unknown(np.array(known), unknown)
    assert loads.median.sum() == sum(known) + unknown
    ways = [np.add(known, np.bincount(places, minlength=3)) for places in product(range(3), repeat=unknown)]
    peak, even = measure_peak_to_mean(loads), measure_effective_partitions(loads)
    peaks, evens = [peak_to_mean(way) for way in ways], [effective_partitions(way) for way in ways]
    assert peak.low <= min(peaks) + 1e-12
    assert peak.high == pytest.approx(max(peaks))
    assert even.low == pytest.approx(min(evens))
    assert even.high >= max(evens) - 1e-12
    for way in ways:
        assert (loads.low <= way).all()
        assert (way <= loads.high).all()


def test_no_load_has_no_measure():
    loads = spread_unknown(np.zeros(3, dtype=np.int64), 0)
    assert measure_peak_to_mean(loads) == measure_effective_partitions(loads) == (None, None, None)


def test_leaders_that_are_known_stay_and_new_ones_come_in_rounds():
    known = {0: 1, 1: 2, 2: 3, 3: 1}
    same = draw_leaders(known, [1, 2, 3], "orders", 4)
    assert not same.is_drawn
    assert same.leaders.tolist() == [[0, 1, 2, 0]]
    more = draw_leaders(known, [1, 2, 3], "orders", 10)
    assert more.leaders.shape == (DRAWS, 10)
    assert (more.leaders[:, :4] == [0, 1, 2, 0]).all()
    for draw in more.leaders.tolist():
        assert sorted(draw[4:7]) == sorted(draw[7:10]) == [0, 1, 2]
    assert len({tuple(draw) for draw in more.leaders.tolist()}) > 10
    assert (more.leaders == draw_leaders(known, [3, 2, 1], "orders", 10).leaders).all()
    anew = draw_leaders(known, [1, 2, 3], "orders", 3)
    assert {tuple(sorted(draw)) for draw in anew.leaders.tolist()} == {(0, 1, 2)}


def test_a_brokers_range_holds_its_draws_and_known_leaders_give_one_number():
    loads = spread_unknown(np.array([8, 1, 1, 4, 2, 0]), 0)
    known = dict(enumerate([1, 2, 3, 1, 2, 3]))
    same = draw_leaders(known, [1, 2, 3], "", 6)
    assert [part.tolist() for part in same.sum_by_broker(loads)] == [[12, 3, 1]] * 3
    assert same.measure_peak(loads) == pytest.approx((12 / (16 / 3),) * 3)
    drawn = draw_leaders({0: 1, 1: 2, 2: 3}, [1, 2, 3], "", 6)
    low, median, high = drawn.sum_by_broker(loads)
    assert low.tolist() == [8, 1, 1]  # each gets one of the three new partitions: 4, 2 or 0
    assert high.tolist() == [12, 5, 5]
    assert (low <= median).all()
    assert (median <= high).all()
    assert median.sum() == 16


def test_a_partition_without_leader_is_on_no_broker():
    placements = draw_leaders({0: 1, 1: -1}, [1, 2], "", 2)
    assert placements.sum_by_broker(spread_unknown(np.array([3, 4]), 0)).median.tolist() == [3, 0]
