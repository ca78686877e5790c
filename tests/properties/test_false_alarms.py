"""The bench's study of false alarms and misses, small. Oracle: the traffic's own balance, which is known.

`make bench` has the whole of it, beside other tools' rules.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.false_alarm_bench import count_found, flags, judge_series
from tests.bench.simulated_windows import PLACEMENTS, Traffic

OURS, OURS_OF_FOUR = "ours, one window", "ours, 3 of 4"


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_balanced_traffic_gives_next_to_no_alarm_and_no_failure(placement):
    rng = np.random.Generator(np.random.Philox(11))
    above = failed = brokers = 0
    for volume in (10**4, 10**5, 10**6):
        traffic = Traffic(partition_count=48, broker_count=6, record_count=volume, placement=placement)
        if traffic.key_count <= volume:
            for verdicts, partitions in judge_series(traffic, 40, rng):
                found = flags(traffic, verdicts, partitions)
                brokers += traffic.broker_count
                above += int(found[OURS].sum())
                failed += int(found[OURS_OF_FOUR].sum())
    assert failed == 0
    assert above <= 1 + brokers / 1_000


def test_sticky_runs_are_told_from_single_batches():
    """16 batches a run: taken one by one they would allow half of what chance does to them."""
    rng = np.random.Generator(np.random.Philox(12))
    traffic = Traffic(partition_count=12, broker_count=6, record_count=10**6, placement="sticky runs")
    ratios = [v.value for verdicts, _ in judge_series(traffic, 30, rng) for v in verdicts]
    bounds = [v.chance_value for verdicts, _ in judge_series(traffic, 30, rng) for v in verdicts]
    assert np.std(ratios) == pytest.approx((np.mean(bounds) - 1) / 3.09, rel=0.25)


@pytest.mark.parametrize(("planted", "window"), [(1.3, 3), (1.5, 2)])
def test_a_planted_broker_is_found_in_time(planted, window):
    rng = np.random.Generator(np.random.Philox(13))
    few = [
        Traffic(partition_count=48, broker_count=6, record_count=10**6, placement=placement, planted=planted)
        for placement in PLACEMENTS
        if placement != "1,000 keys"
    ]
    enough, found = count_found(few, 4, rng)
    assert enough == 16
    assert found[OURS_OF_FOUR][window] == enough
