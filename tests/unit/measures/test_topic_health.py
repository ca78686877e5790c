"""A topic beside what chance gives: which peaks are placed, and which are chance without."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.measures.topic_health import (
    SURELY_CHANCE,
    TopicCounts,
    advise_partition_count,
    derive_window_seed,
    exceeding_chance,
    measure_topic,
    normal_peak,
    normal_peak_p_value,
    place_units,
)
from tests.memory import tracing_memory

KEYLESS = {"keyed_ratio": 0.0, "effective_key_count": None, "top_key_ratio": None}
COUNTS = {"partition_count": 100, "record_count": 1_000_000, "batch_unit_count": 10_000.0, "peak_to_mean": None}
EVEN = TopicCounts(**COUNTS, **KEYLESS, broker_count=3, consumer_count=0, seed=7)


@pytest.mark.parametrize("partition_count", [51, 100, 200])
@pytest.mark.parametrize("unit_count", [300, 3_000, 100_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_the_light_tail_calls_chance_is_chance(partition_count, unit_count, seed):
    """So that no peak that counts goes unplaced: placing it would find a chance as large or larger."""
    peak = normal_peak(partition_count, unit_count, SURELY_CHANCE)
    peaks = place_units(partition_count, unit_count, seed=seed)
    assert exceeding_chance(peaks, peak) > SURELY_CHANCE / 2  # 0.05 less three times what 1,000 placements scatter


def test_rare_peaks_are_placed_and_common_ones_are_not():
    """The method is told, so that nobody takes one chance for the other."""
    common = normal_peak(100, 10_000, 0.06)
    rare = normal_peak(100, 10_000, 0.04)
    assert measure_topic(replace(EVEN, peak_to_mean=common))["chance_method"] == "normal"
    found = measure_topic(replace(EVEN, peak_to_mean=rare))
    assert found["chance_method"] == "bootstrap"
    assert found["peak_p_value"] > normal_peak_p_value(rare, 100, 10_000)


def test_a_heavy_key_is_placed_sooner():
    """What the light keys do beside it is rare long before the normal tail says so."""
    keyed = replace(EVEN, partition_count=3, keyed_ratio=1.0, effective_key_count=1.23, top_key_ratio=0.9)
    usual, rare = (measure_topic(replace(keyed, peak_to_mean=peak)) for peak in (2.8, 2.995))
    assert normal_peak_p_value(2.995, 3, 1.23) > SURELY_CHANCE
    assert usual["chance_method"] == rare["chance_method"] == "bootstrap"
    assert rare["peak_p_value"] < 0.1 < usual["peak_p_value"]


def test_placements_on_very_many_partitions_take_no_memory():
    with tracing_memory() as peak_bytes:
        peaks = place_units(100_000, 1, seed=7, heavy_ratios=(1.0,))
        assert peak_bytes() < 50_000_000  # of all rounds at once 800 MB
    assert set(peaks.tolist()) == {100_000.0}


def test_a_better_number_of_partitions():
    assert advise_partition_count(4, broker_count=3)[0] == 6
    assert advise_partition_count(6, broker_count=3, consumer_count=4)[0] == 12
    assert advise_partition_count(12, broker_count=3, consumer_count=4) == (None, "")
    assert advise_partition_count(1, broker_count=3) == (None, "")  # one partition keeps all records in order


def test_no_other_number_is_advised_where_it_would_break_the_topics_use():
    """Of `__consumer_offsets`, 51 partitions on three brokers: groups would no longer find their offsets."""
    fifty = replace(EVEN, partition_count=50)
    assert measure_topic(fifty)["advised_partition_count"] == 51
    found = measure_topic(replace(fifty, has_fixed_count=True))
    assert (found["advised_partition_count"], found["advice"]) == (None, "")


def test_placements_by_chance():
    assert derive_window_seed("demo", 1795251600000, "orders") == 849994506349356150
    assert 1.2 < np.median(place_units(100, 10_000, seed=7)) < 1.3
    # one is half: the others are as small as can be
    assert set(place_units(4, 4, seed=7, heavy_ratios=[0.5]).tolist()) == {2.5}
    assert exceeding_chance(np.array([1.0, 1.1, 1.2]), 1.15) == 0.5
