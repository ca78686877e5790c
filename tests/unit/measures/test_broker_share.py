"""Rows of one window from hand-made partition loads; every expected number is worked out in the table or a comment."""

from dataclasses import fields

import pytest

from pipeline.config.rules import Gate
from pipeline.model.verdict import BrokerLoad
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.verdicts.broker_share import judge_broker_share
from tests.loads import PartitionKeys, PartitionLoad, TopicKeys, measure_brokers, measure_partitions


def load(topic, partition, leader_id, size_bytes, **others):
    batches = others.pop("batch_count", size_bytes // 10)
    row = {"record_count": size_bytes // 5, "batch_count": batches, "batch_bytes_squared": 10.0 * size_bytes}
    row |= {"topic": topic, "partition": partition, "leader_id": leader_id, "size_bytes": size_bytes}
    return PartitionLoad(**row | others)


EVEN = [load("a", 0, 0, 100), load("a", 1, 1, 100), load("a", 2, 2, 100)]


@pytest.mark.parametrize(
    ("row", "table"),
    [(measure_brokers(EVEN, {}, range(3))[0], BROKER_SHARE), (measure_partitions(EVEN)[0], PARTITION_HEALTH)],
    ids=["broker", "partition"],
)
def test_measures_are_the_tables_columns_in_order(row, table):
    added_by_the_job = {"cluster", "window_start", "run_id", "rack_aware_term"}
    columns = [name for name in table.column_names if name not in added_by_the_job]
    assert [field.name for field in fields(row)] == columns


@pytest.mark.parametrize(
    ("stood", "fair", "ratios"),
    [
        ({}, (1 / 3, 1 / 3, 1 / 3), (1.5, 1.5, 0.0)),
        ({2: 0.0}, (1 / 2, 1 / 2, 0.0), (1.0, 1.0, None)),  # dead throughout: the two that stood share all
        ({2: 0.5}, (0.4, 0.4, 0.2), (1.25, 1.25, 0.0)),
        ({0: 0.5}, (0.2, 0.4, 0.4), (2.5, 1.25, 0.0)),
        ({0: 0.0, 2: 0.0}, (1 / 2, 1 / 2, 0.0), (1.0, 1.0, None)),  # who carries load stood, whatever is said
        ({0: 0.0, 1: 0.0, 2: 0.0}, (1 / 2, 1 / 2, 0.0), (1.0, 1.0, None)),
    ],
)
def test_fair_is_the_capacity_that_stood_for_as_long_as_it_stood(stood, fair, ratios):
    rows = measure_brokers(EVEN[:2], {}, range(3), stood=stood)
    assert [row.expected_share for row in rows] == pytest.approx(fair)
    assert [row.share_ratio for row in rows] == [None if one is None else pytest.approx(one) for one in ratios]
    assert [row.chance_ratio is None for row in rows] == [one is None for one in ratios]


def test_a_record_that_bears_a_time_after_its_brokers_end_gives_the_dead_no_fair_share():
    """The living brokers of three were at 1.5 times their shares, and blamed for hours: so far ahead was a client's clock."""
    loads = [load("a", 0, 0, 100_000), load("a", 1, 1, 100_000), load("a", 2, 2, 10)]
    rows = measure_brokers(loads, {}, range(3), stood={2: 0.0})
    assert [row.share_ratio for row in rows[:2]] == pytest.approx([1.0, 1.0], abs=1e-4)
    assert rows[2].expected_share < 1e-4


def test_one_dead_of_five_makes_no_equal_broker_fail():
    loads = [load("a", number, number, 25_000_000, batch_count=10_000) for number in range(4)]
    rows = measure_brokers(loads, {}, range(5), stood={4: 0.0})
    assert [row.share_ratio for row in rows] == [1.0, 1.0, 1.0, 1.0, None]
    fields = ("size_bytes", "record_count", "share", "expected_share", "share_ratio", "effective_unit_count")
    known = [
        BrokerLoad(window_start_ms=0, broker_id=row.broker_id, **{name: getattr(row, name) for name in fields})
        for row in rows
    ]
    verdicts = judge_broker_share(known, Gate(k=1, n=1), window_ms=60_000)
    assert [one.verdict for one in verdicts] == ["ok"] * 4 + ["not_enough_traffic"]
    assert verdicts[-1].reason == "out of the cluster throughout this window"


# what: loads, capacities -> per broker (share ratio, leaders, topic mix, partition skew)
CAUSES = {
    "even": (EVEN, {}, {0: (1.0, 0, 0, 0), 1: (1.0, 0, 0, 0), 2: (1.0, 0, 0, 0)}),
    "broker 1 leads two of four partitions": (
        [*EVEN[:2], load("a", 2, 1, 100), load("a", 3, 2, 100)],
        {},
        {0: (0.75, 1 / 4 - 1 / 3, 0, 0), 1: (1.5, 1 / 2 - 1 / 3, 0, 0), 2: (0.75, 1 / 4 - 1 / 3, 0, 0)},
    ),
    "broker 1 leads the busy topic": (
        [load("quiet", 0, 0, 100), load("busy", 0, 1, 200), load("quiet", 1, 2, 100)],
        {},
        {0: (0.75, 0, 1 / 4 - 1 / 3, 0), 1: (1.5, 0, 1 / 2 - 1 / 3, 0), 2: (0.75, 0, 1 / 4 - 1 / 3, 0)},
    ),
    "broker 1 leads the topic's hot partition": (
        [load("a", 0, 0, 100), load("a", 1, 1, 200), load("a", 2, 2, 100)],
        {},
        {0: (0.75, 0, 0, 1 / 4 - 1 / 3), 1: (1.5, 0, 0, 1 / 2 - 1 / 3), 2: (0.75, 0, 0, 1 / 4 - 1 / 3)},
    ),
    "broker 1 is twice as large and leads no more": (
        EVEN,
        {1: 2.0},
        {0: (4 / 3, 1 / 3 - 1 / 4, 0, 0), 1: (2 / 3, 1 / 3 - 1 / 2, 0, 0), 2: (4 / 3, 1 / 3 - 1 / 4, 0, 0)},
    ),
    # 50 of broker 0's bytes came while it led what broker 1 leads at the end: led 1 each, so all of it is skew
    "the leader moved within the window": (
        [load("a", 0, 0, 100), load("a", 1, 1, 50), load("a", 1, 0, 50, is_leader=False), load("a", 2, 2, 100)],
        {},
        {0: (1.5, 0, 0, 1 / 6), 1: (0.5, 0, 0, -1 / 6), 2: (1.0, 0, 0, 0)},
    ),
    "a load without known leader belongs to nobody": (
        [*EVEN, load("a", 3, -1, 900)],
        {},
        {0: (1.0, 0, 0, 0), 1: (1.0, 0, 0, 0), 2: (1.0, 0, 0, 0)},
    ),
}


@pytest.mark.parametrize(("loads", "capacities", "expected"), CAUSES.values(), ids=CAUSES)
def test_share_and_causes(loads, capacities, expected):
    rows = measure_brokers(loads, capacities, brokers=(0, 1, 2))
    terms = [(row.share_ratio, row.leaders_term, row.topic_mix_term, row.partition_skew_term) for row in rows]
    found = dict(zip((row.broker_id for row in rows), terms, strict=True))
    assert found == {broker_id: pytest.approx(terms, abs=1e-12) for broker_id, terms in expected.items()}


def test_the_topic_that_adds_most_to_a_brokers_excess_is_named():
    """Broker 0 has 300 of 400 of a and 100 of 800 of b; its fair half of b is 400."""
    loads = [load("a", 0, 0, 300), load("a", 1, 1, 100), load("b", 0, 0, 100), load("b", 1, 1, 700)]
    assert [row.excess_topic for row in measure_brokers(loads, {}, brokers=(0, 1))] == ["a", "b"]
    # 400 of 1,200 bytes where 600 are fair; without the 100 of topic a that are more than its half, 300
    assert [row.ratio_without_topic for row in measure_brokers(loads, {}, brokers=(0, 1))] == pytest.approx(
        [0.5, 5 / 6]
    )
    assert [row.excess_topic for row in measure_brokers([load("a", 0, 0, 0)], {}, brokers=(0,))] == [None]


def test_a_topic_that_was_made_anew_within_a_window_adds_to_an_excess_as_one():
    """Topic a adds 200 to what broker 0 has above its half, under two ids, and b 150: the limit of a holds."""
    made_anew = [
        load("a", 0, broker, size, topic_id=one) for one in ("x", "y") for broker, size in ((0, 300), (1, 100))
    ]
    rows = measure_brokers([*made_anew, load("b", 0, 0, 400), load("b", 1, 1, 100)], {}, brokers=(0, 1))
    assert (rows[0].excess_topic, rows[0].ratio_without_topic) == ("a", pytest.approx(2 * 1000 / 1300 - 2 * 200 / 1300))


def test_counts_units_and_chance_of_a_row():
    row = measure_brokers([load("a", 0, 0, 300_000), load("__consumer_offsets", 0, 1, 100_000)], {}, brokers=(0, 1))[0]
    assert (row.size_bytes, row.record_count, row.batch_count, row.leader_count) == (300_000, 60_000, 30_000, 1)
    # batches of 10 bytes: 400,000^2 / (40,000 * 100) = 40,000 units
    assert row.effective_unit_count == pytest.approx(40_000)
    assert row.chance_ratio == pytest.approx(1 + 3.0902 * (1 / 40_000) ** 0.5, abs=1e-5)
    assert row.chance_p_value == pytest.approx(0, abs=1e-300)
    assert (row.share, row.expected_share, row.share_ratio, row.capacity) == (0.75, 0.5, 1.5, 1.0)


def test_brokers_without_load_and_leaders_nobody_listed_get_rows():
    rows = measure_brokers([load("a", 0, 7, 100)], {}, brokers=(3,))
    assert [(row.broker_id, row.size_bytes, row.share_ratio) for row in rows] == [(3, 0, 0.0), (7, 100, 2.0)]


def test_without_traffic_nothing_is_measured_but_leaders_and_capacity():
    rows = measure_brokers([load("a", 0, 0, 0), load("a", 1, 0, 0)], {}, brokers=(0, 1))
    assert [(row.leader_count, row.expected_share) for row in rows] == [(2, 0.5), (0, 0.5)]
    measured = {"share", "share_ratio", "chance_ratio", "chance_p_value", "effective_unit_count", "leaders_term"}
    assert {getattr(row, name) for row in rows for name in measured} == {None}
    assert measure_brokers([], {}, brokers=()) == ()


def test_one_broker_alone_carries_its_share():
    (row,) = measure_brokers([load("a", 0, 0, 100)], {}, brokers=(0,))
    assert (row.share_ratio, row.chance_ratio, row.chance_p_value) == (1.0, 1.0, 1.0)


def test_partitions_beside_their_topics_mean():
    moved = [load("a", 1, 1, 250), load("a", 1, 2, 50, is_leader=False)]
    rows = measure_partitions([load("a", 0, 0, 100), *moved, load("b", 0, 2, 0)])
    told = [(row.topic, row.partition, row.leader_id, row.size_bytes, row.excess_bytes) for row in rows]
    assert told == [("a", 0, 0, 100, -100), ("a", 1, 1, 300, 100), ("b", 0, 2, 0, 0)]
    hot = rows[1]
    assert (hot.topic_share, hot.ratio_to_mean, hot.topic_peak_to_mean, hot.topic_cv) == (0.75, 1.5, 1.5, 0.5)
    assert (hot.topic_partition_count, hot.topic_effective_partitions) == (2, pytest.approx(1.6))
    assert hot.topic_chance_cv == pytest.approx((1 / 40) ** 0.5)  # 400 bytes in batches of 10
    assert (rows[2].topic_share, rows[2].ratio_to_mean, rows[2].topic_cv, rows[2].topic_chance_cv) == (None,) * 4


def test_a_recreated_topic_is_another_topic():
    rows = measure_partitions([load("a", 0, 0, 100, topic_id="old"), load("a", 0, 1, 300, topic_id="new")])
    assert [(row.topic_id, row.ratio_to_mean) for row in rows] == [("new", 1.0), ("old", 1.0)]


def test_a_partition_hot_by_one_key_by_luck_and_by_neither():
    """Of 4,000 bytes a heavy key holds 1,000 in partition 1; the light keys' luck may reach 4.8 % of their mean."""
    loads = [load("a", 0, 0, 500), load("a", 1, 1, 1_600), load("a", 2, 2, 1_000), load("a", 3, 2, 900)]
    parts = {
        0: PartitionKeys(heavy_ratio=0, light_ratio=1),
        1: PartitionKeys(heavy_ratio=1_000 / 1_600, light_ratio=600 / 1_600),
        2: PartitionKeys(heavy_ratio=0, light_ratio=0.75),  # 250 bytes have no key
        3: PartitionKeys(heavy_ratio=0, light_ratio=600 / 900),
    }
    # light: 500 600 750 600, mean 612.5; the bound is 3.4808 * sqrt(3 / 15,772) * 612.5 = 29.4
    keys = {("a", ""): TopicKeys(light_unit_count=15_772.0, partitions=parts)}
    rows = measure_partitions(loads, keys)
    assert [row.heavy_keys_bytes for row in rows] == pytest.approx([-250, 750, -250, -250])
    bound = 3.4808 * (3 / 15_772) ** 0.5 * 612.5
    assert [row.hash_luck_bytes for row in rows] == pytest.approx([-bound, -12.5, bound, -12.5], abs=0.01)
    # without a key: 0 0 250 300, mean 137.5; and what is beyond luck
    remainder = [-137.5 - 112.5 + bound, -137.5, 112.5 + 137.5 - bound, 162.5]
    assert [row.remainder_bytes for row in rows] == pytest.approx(remainder, abs=0.01)
    assert measure_brokers(loads, {}, (0, 1, 2), keys)[1].heavy_keys_term == pytest.approx(750 / 4_000)
