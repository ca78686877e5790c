"""Laws that hold for any loads: conservation, bounds, and the exact split of an excess."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.config.rules import Gate
from pipeline.measures.chance import chance_p_value
from pipeline.verdicts.broker_share import MEAN_LEVEL, judge_broker_share
from tests.loads import PartitionKeys, PartitionLoad, TopicKeys, measure_brokers, measure_partitions
from tests.oracles.imbalance import cv, effective_partitions, peak_to_mean
from tests.placements import load_of

BROKERS = (0, 1, 2, 5)


def load(topic, partition, size_bytes, **given):
    """Of one batch."""
    usual = {"leader_id": 0, "is_leader": True, "record_count": 1, "batch_count": 1}
    usual |= {"batch_bytes_squared": float(size_bytes) ** 2}
    return PartitionLoad(topic=topic, partition=partition, size_bytes=size_bytes, **usual | given)


@st.composite
def partition_loads(draw):
    loads = []
    for topic in draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)):
        for partition in range(draw(st.integers(1, 6))):
            leaders = draw(st.lists(st.sampled_from(BROKERS), min_size=1, max_size=2, unique=True))
            for leader_id in leaders:
                of = {"leader_id": leader_id, "is_leader": leader_id == leaders[0]}
                counts = {"size_bytes": draw(st.integers(0, 10**12)), "record_count": draw(st.integers(0, 10**9))}
                loads.append(load(topic, partition, **of, **counts))
    return loads


capacities = st.dictionaries(st.sampled_from(BROKERS), st.floats(0.01, 100), max_size=4)


@given(partition_loads(), capacities)
def test_the_three_terms_sum_to_the_excess_and_each_to_zero_over_brokers(loads, capacity):
    rows = measure_brokers(loads, capacity, BROKERS)
    assert sum(row.size_bytes for row in rows) == sum(load.size_bytes for load in loads)
    assert math.fsum(row.expected_share for row in rows) == pytest.approx(1)
    if rows[0].share is None:
        return
    for row in rows:
        terms = row.leaders_term + row.topic_mix_term + row.partition_skew_term
        assert terms == pytest.approx(row.share - row.expected_share, abs=1e-9)
    for term in ("leaders_term", "topic_mix_term", "partition_skew_term"):
        assert math.fsum(getattr(row, term) for row in rows) == pytest.approx(0, abs=1e-9)


@st.composite
def known_keys(draw, loads):
    """Parts of heavy and light keys for some topics, and within them for some partitions."""
    keys = {}
    for topic in sorted({load.topic for load in loads}):
        if draw(st.booleans()):
            partitions = {}
            for partition in sorted({load.partition for load in loads if load.topic == topic}):
                heavy = draw(st.floats(0, 1))
                light = draw(st.floats(0, 1)) * (1 - heavy)
                partitions[partition] = PartitionKeys(heavy_ratio=heavy, light_ratio=light)
            units = draw(st.none() | st.floats(1, 1e6))
            keys[topic, ""] = TopicKeys(light_unit_count=units, partitions=partitions)
    return keys


@given(st.data(), capacities)
def test_skew_splits_exactly_into_heavy_keys_luck_and_remainder(data, capacity):
    loads = data.draw(partition_loads())
    keys = data.draw(known_keys(loads))
    for row in measure_brokers(loads, capacity, BROKERS, keys):
        if row.share is None:
            return
        parts = (row.heavy_keys_term, row.hash_luck_term, row.remainder_term)
        assert math.fsum(parts) == pytest.approx(row.partition_skew_term, abs=1e-9)
        terms = (row.leaders_term, row.topic_mix_term, *parts)
        assert math.fsum(terms) == pytest.approx(row.share - row.expected_share, abs=1e-9)
    rows = measure_partitions(loads, keys)
    for row in rows:
        of_topic = [other.size_bytes for other in rows if other.topic == row.topic]
        parts = (row.heavy_keys_bytes, row.hash_luck_bytes, row.remainder_bytes)
        excess = row.size_bytes - sum(of_topic) / len(of_topic)
        assert math.fsum(parts) == pytest.approx(excess, abs=1e-9 * max(1, sum(of_topic)))
        if (row.topic, "") not in keys:
            assert parts[:2] == (0, 0)


@given(partition_loads(), capacities, st.randoms())
def test_order_of_loads_does_not_matter(loads, capacity, random):
    shuffled = random.sample(loads, len(loads))
    for row, other in zip(
        measure_brokers(loads, capacity, BROKERS), measure_brokers(shuffled, capacity, BROKERS), strict=True
    ):
        assert (row.size_bytes, row.share, row.leader_count) == (other.size_bytes, other.share, other.leader_count)
    assert [(r.topic, r.partition, r.size_bytes) for r in measure_partitions(loads)] == [
        (r.topic, r.partition, r.size_bytes) for r in measure_partitions(shuffled)
    ]


@given(partition_loads())
def test_partitions_conserve_bytes_and_balance_their_excess(loads):
    rows = measure_partitions(loads)
    assert sum(row.size_bytes for row in rows) == sum(load.size_bytes for load in loads)
    for topic in {row.topic for row in rows}:
        own = [row for row in rows if row.topic == topic]
        assert abs(sum(row.excess_bytes for row in own)) <= len(own) / 2 + 1e-9 * sum(row.size_bytes for row in own)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50).filter(any))
def test_a_topics_unevenness_follows_from_the_definitions(sizes):
    count = len(sizes)
    for row in measure_partitions([load("a", partition, size_bytes) for partition, size_bytes in enumerate(sizes)]):
        assert row.topic_cv == pytest.approx(cv(sizes), abs=1e-7)
        assert row.topic_effective_partitions == pytest.approx(effective_partitions(sizes))
        assert row.topic_peak_to_mean == pytest.approx(peak_to_mean(sizes))
        assert 1 - 1e-9 <= row.topic_effective_partitions <= count * (1 + 1e-9)
        assert 1 - 1e-9 <= row.topic_peak_to_mean <= count * (1 + 1e-9)


@given(
    st.lists(st.integers(1, 10**9), min_size=2, max_size=12),
    st.floats(1, 1e7),
    st.floats(1.01, 3),
    st.sampled_from([0.05, 0.001, 1e-6]),
)
@example([1, 1, 22], 5.0, 2.75, 0.05)  # at the limit: beyond the fair share, and not beyond the limit
def test_whatever_is_above_passes_even_the_strictest_correction(sizes, units, limit_ratio, level):
    """Oracle: Bonferroni, stricter than Benjamini-Hochberg, follows from the units a judgement needs."""
    fair, total = 1 / len(sizes), sum(sizes)
    of = {"expected_share": fair, "effective_unit_count": units}
    loads = [load_of(broker_id, size_bytes, total, **of) for broker_id, size_bytes in enumerate(sizes)]
    gate = Gate(limit_ratio=limit_ratio, floor_bytes_per_s=0, chance_level=level, k=1, n=1)
    for verdict in judge_broker_share(loads, gate, window_ms=60_000):
        is_beyond = chance_p_value(verdict.value, fair, units, true_ratio=limit_ratio) <= MEAN_LEVEL
        assert (verdict.verdict == "fail") == (verdict.is_above and is_beyond)
        if verdict.is_above:
            assert verdict.value >= limit_ratio
            assert chance_p_value(verdict.value, fair, units) <= level / len(sizes) * (1 + 1e-9)
