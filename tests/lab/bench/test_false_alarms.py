"""The bench's study of false alarms and misses, small. Oracle: the traffic's own balance, which is known.

`make bench ARGS=false_alarm` has the whole of it, beside other tools' rules.
"""

import numpy as np
import pytest

from tests.lab.bench.false_alarm_bench import OF_FOUR, ONE_WINDOW, count_found, judge_series
from tests.lab.bench.figures import write_between
from tests.lab.bench.simulated_windows import PLACEMENTS, Cluster, Topic, draw_cluster

KINDS = {placement.name: placement for placement in PLACEMENTS}
KEYS = 100_000


def make_even(placement, records, *, partitions=48, brokers=6, rng=None):
    """One topic, the same chance for every partition; keyed ones with the luck of 100,000 equal keys."""
    chances = np.full(partitions, 1 / partitions)
    if placement.is_keyed:
        chances = np.bincount(rng.integers(0, partitions, KEYS), minlength=partitions) / KEYS
    leaders = np.arange(partitions) % brokers
    topic = Topic(placement=placement, leaders=leaders, chances=chances, records=float(records))
    return Cluster(capacities=np.ones(brokers), topics=(topic,))


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda placement: placement.name)
def test_balanced_traffic_gives_next_to_no_alarm_and_no_failure(placement):
    rng = np.random.Generator(np.random.Philox(11))
    above = failed = brokers = 0
    for volume in (10**4, 10**5, 10**6):
        for window in judge_series(make_even(placement, volume, rng=rng), 40, rng):
            brokers += len(window.truth)
            above += int(window.is_accused[ONE_WINDOW].sum())
            failed += int(window.is_accused[OF_FOUR].sum())
    assert failed == 0
    assert above <= 1 + brokers / 1_000


@pytest.mark.parametrize("brokers", [3, 6, 12, 30])
@pytest.mark.parametrize("records", [1_000, 3_000, 10_000])
def test_a_few_bursts_an_hour_are_few_units_however_many_their_batches(records, brokers):
    """3 to 30 bursts of 20 batches: fewer bursts than brokers in a slot, or fewer than eight slots with any."""
    rng = np.random.Generator(np.random.Philox(14))
    cluster = make_even(KINDS["bursts"], records, partitions=brokers * 4, brokers=brokers)
    windows = judge_series(cluster, 60, rng)
    above = sum(int(window.is_accused[ONE_WINDOW].sum()) for window in windows)
    assert above <= 1 + 60 * brokers / 100
    assert not any(window.is_accused[OF_FOUR].any() for window in windows)


def test_sticky_runs_are_told_from_single_batches():
    """16 batches a run: taken one by one they would allow half of what chance does to them."""
    rng = np.random.Generator(np.random.Philox(12))
    cluster = make_even(KINDS["sticky runs"], 10**6, partitions=12)
    verdicts = [v for window in judge_series(cluster, 30, rng) for v in window.verdicts]
    ratios, bounds = [v.value for v in verdicts], [v.chance_value for v in verdicts]
    assert np.std(ratios) == pytest.approx((np.mean(bounds) - 1) / 3.09, rel=0.25)
    assert np.std(ratios) == pytest.approx(np.mean(cluster.scatter(0)), rel=0.25)


@pytest.mark.parametrize(("planted", "windows"), [(1.3, 4), (1.5, 3)])
def test_a_planted_broker_is_found_in_time(planted, windows):
    rng = np.random.Generator(np.random.Philox(13))
    clusters = [
        make_even(placement, 2 * 10**6, rng=rng).planted(planted)
        for placement in PLACEMENTS
        if placement.name != "bursts"  # 6,000 an hour of uneven size move shares more than that
        for _ in range(4)
    ]
    found = count_found(clusters, windows, rng)
    assert found.enough == found.series == 20
    assert found.counts[OF_FOUR] == [20, 20]


def test_planting_sets_the_truth_and_keeps_the_rest():
    rng = np.random.Generator(np.random.Philox(15))
    for _ in range(20):
        plain = draw_cluster(rng)
        cluster = plain.planted(1.3)
        assert cluster.ratio()[0] == pytest.approx(1.3)
        assert [cluster.ratio(hour)[0] for hour in range(24)] == pytest.approx([1.3] * 24)
        assert cluster.bytes_per_hour == pytest.approx(plain.bytes_per_hour)
        assert cluster.ratio()[1:] / cluster.ratio()[1] == pytest.approx(plain.ratio()[1:] / plain.ratio()[1])


def test_the_table_is_written_between_its_markers(tmp_path):
    paper, begin, end = tmp_path / "paper.md", "<!-- made by: make bench ARGS=x -->", "<!-- end of what it made -->"
    paper.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    write_between(paper, "x", "new")
    assert paper.read_text() == f"before\n{begin}\nnew\n{end}\nafter\n"
    with pytest.raises(SystemExit):
        write_between(paper, "y", "new")
