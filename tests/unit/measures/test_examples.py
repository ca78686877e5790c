"""Small examples of measures, worked out by hand."""

import numpy as np
import pytest

from pipeline.measures.assignors import balance_group, hash_map_order
from pipeline.measures.broker_share import luck_bound
from pipeline.measures.chance import (
    SlotLoads,
    bound_chance,
    chance_p_value,
    estimate_inflation,
    peak_share_ratios,
    required_units_of_share,
    slot_ms,
)
from pipeline.measures.disks import NO_END_HOURS, hours_to_full, is_past_retention
from pipeline.measures.leadership_board import measure_excess
from pipeline.measures.outages import is_slow
from pipeline.measures.topic_health import advise_partition_count, derive_window_seed, exceeding_chance, place_units
from pipeline.measures.window_loads import expected_shares, sum_by
from pipeline.measures.zone_plans import ZoneBytes, ZoneLoads, sum_between_zones
from pipeline.model.placement import PlacedPartition
from pipeline.model.window import HOUR_MS, MINUTE_MS


def test_a_group_now_and_under_the_assignors():
    owned = {"x": [("a", 0), ("b", 0)], "y": [("a", 1)], "z": []}
    now, under = balance_group(owned, {"a": [0, 1], "b": [0]}, {("a", 0): 10, ("a", 1): 10, ("b", 0): 40})
    assert now == pytest.approx(2.5)
    others = dict.fromkeys(("roundrobin", "sticky", "cooperative-sticky", "uniform"), 2.0)
    assert under == pytest.approx({"range": 2.5, **others})


def test_members_in_the_order_of_javas_map():
    assert hash_map_order(["a", "b", "q"]) == ["a", "q", "b"]  # 97, 98 and 113 of 16 buckets


def test_luck_of_light_keys():
    bound = luck_bound(np.array([12e6]), np.array([12.0]), np.array([10_000.0]))
    assert bound.round(-3).tolist() == [125_000.0]  # 12.5 % of 1 MB


def test_units_that_a_verdict_needs():
    assert round(required_units_of_share(1 / 3, 0.2, 0.001, 3)) == 868


@pytest.mark.parametrize(
    ("ratio", "share", "true_ratio", "chance"),
    [(1.0, 1 / 3, 1.0, 0.5), (1.2, 1 / 3, 1.0, 1.3e-45), (1.0, 1.0, 1.0, 1.0), (1.25, 1 / 3, 1.2, 0.0003)],
)
def test_chance_of_a_ratio(ratio, share, true_ratio, chance):
    assert chance_p_value(ratio, share, 10_000, true_ratio=true_ratio) == pytest.approx(chance, rel=0.3)


def test_bound_on_chance():
    assert f"{bound_chance(1.689 / 3 - 1 / 3, 736):.0e}" == "2e-34"
    assert bound_chance(0.0, 736) == 1.0


def test_runs_of_batches_inflate_chance_and_single_ones_do_not():
    rng = np.random.default_rng(7)
    single = rng.multinomial(10_000, [1 / 6] * 6, size=60).astype(float)
    assert estimate_inflation(SlotLoads(size_bytes=single, squared=single.sum(axis=1))) == 1.0
    runs = rng.multinomial(400, [1 / 6] * 6, size=60) * 25.0  # runs of 25 batches of 1 byte
    assert 20 < estimate_inflation(SlotLoads(size_bytes=runs, squared=runs.sum(axis=1))) < 35


def test_the_busiest_slot():
    slots = SlotLoads(size_bytes=np.array([[10.0, 10], [30, 10], [0, 0], [0, 0]]), squared=np.ones(4))
    assert peak_share_ratios(slots, np.array([0.5, 0.5])).tolist() == [4.0, 1.3333333333333333]
    assert (slot_ms(3_600_000), slot_ms(60_000)) == (60_000, 5_000)


@pytest.mark.parametrize(
    ("at_ms", "used", "disk", "hours"),
    [
        ([0], [200], 200, 0.0),
        ([0, HOUR_MS, 2 * HOUR_MS], [100, 110, 120], 200, 8.0),
        ([0, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS], [100, 110, 20, 30], 200, NO_END_HOURS),  # retention
        ([0, HOUR_MS], [100, 110], 200, None),
        ([0, MINUTE_MS, 2 * MINUTE_MS], [100, 110, 120], 200, None),
        ([0, HOUR_MS, 2 * HOUR_MS], [100, 110, 120], 610, NO_END_HOURS),  # in 49 hours
        ([hour * HOUR_MS for hour in range(24)], [120] * 21 + [120, 136, 152], 200, 3.0),  # of late
    ],
)
def test_hours_until_a_disk_is_full(at_ms, used, disk, hours):
    assert hours_to_full(at_ms, used, disk) == hours


def test_retention_and_the_brokers_own_delays():
    assert is_past_retention(1_000_000, 1_000_000 + 360_001)
    assert not is_past_retention(1_000_000, 1_300_000)


def test_how_uneven_brokers_are():
    assert measure_excess(np.array([1.5, 0.5]), np.array([0.5, 0.5]), 1.2) == pytest.approx(0.3)
    assert measure_excess(np.array([1.1, 0.9]), np.array([0.5, 0.5]), 1.2) == 0.0


@pytest.mark.parametrize(
    ("latency_ms", "ratio", "slow"), [(535.0, 41.0, True), (3.0, 3.0, False), (14.0, 1.1, False), (None, None, False)]
)
def test_slow_brokers(latency_ms, ratio, slow):
    assert is_slow(latency_ms, ratio) == slow


def test_a_better_number_of_partitions():
    assert advise_partition_count(4, broker_count=3)[0] == 6
    assert advise_partition_count(6, broker_count=3, consumer_count=4)[0] == 12
    assert advise_partition_count(12, broker_count=3, consumer_count=4) == (None, "")
    assert advise_partition_count(1, broker_count=3) == (None, "")  # one partition keeps all records in order


def test_placements_by_chance():
    assert derive_window_seed("demo", 1795251600000, "orders") == 849994506349356150
    assert 1.2 < np.median(place_units(100, 10_000, seed=7)) < 1.3
    # one is half: the others are as small as can be
    assert set(place_units(4, 4, seed=7, heavy_ratios=[0.5]).tolist()) == {2.5}
    assert exceeding_chance(np.array([1.0, 1.1, 1.2]), 1.15) == 0.5


def test_sums_and_shares():
    assert sum_by(np.array([0, 2, 0]), np.array([1, 5, 2]), 3).tolist() == [3, 0, 5]
    assert expected_shares([1, 1, 2]).tolist() == [0.25, 0.25, 0.5]


def test_bytes_between_zones():
    part = PlacedPartition(
        topic="t", partition=0, replicas=(1, 2), leader_id=1, in_sync=(1, 2), load_bytes=9, size_bytes=0
    )
    sums = sum_between_zones([part], ZoneLoads({("t", 0): {"a": 4.0, "b": 5.0}}), {1: "a", 2: "b"})
    assert sums == ZoneBytes(produce=5.0, replication=9.0)
