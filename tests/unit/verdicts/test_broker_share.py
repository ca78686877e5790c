"""The broker share rule over three brokers; a window is written as the load of broker 1 beside 100 and 100.

Oracle: verdicts written out by hand. 133 gives a ratio of 1.198, 134 one of 1.204, around the limit of 1.2.
"""

import random
from dataclasses import replace

import pytest
from pydantic import ValidationError

from pipeline.config.rules import Gate
from pipeline.verdicts.broker_share import judge_broker_share
from tests.placements import load_of

LIMITS = {"limit_ratio": 1.2, "floor_bytes_per_s": 1_000, "chance_level": 0.001, "k": 3, "n": 4}
SECOND_MS = 1_000  # so that a floor per second is one per window
MINUTE_MS = 60_000
QUIET, EVEN, HOT = None, 100, 150


def window(minute, broker_1, *, units=5_000.0, scale=1_000, others=(100, 100)):
    loads = {0: others[0], 1: broker_1 or 0, 2: others[1]}
    if broker_1 is None:
        loads = dict.fromkeys(loads, 0)
    total = sum(loads.values())
    of = {"start_ms": minute * MINUTE_MS, "effective_unit_count": units if total else None}
    return [load_of(broker_id, load, total, size_bytes=load * scale, **of) for broker_id, load in loads.items()]


def judge(loads, *, judged_from_ms=None, **limits):
    return judge_broker_share(loads, Gate(**{**LIMITS, **limits}), window_ms=SECOND_MS, judged_from_ms=judged_from_ms)


def judged(loads, **options):
    return [v for v in judge(loads, **options) if v.subject == "broker 1"]


W, F, OK, N = "warn", "fail", "ok", "not_enough_traffic"


@pytest.mark.parametrize(
    ("loads", "verdicts", "above_counts"),
    [
        ([EVEN, EVEN], [OK, OK], [0, 0]),
        ([HOT, HOT, HOT, HOT], [W, W, F, F], [1, 2, 3, 4]),
        ([HOT, EVEN, HOT, HOT], [W, OK, W, F], [1, 1, 2, 3]),
        ([HOT, HOT, EVEN, EVEN, HOT], [W, W, OK, OK, W], [1, 2, 2, 2, 2]),
        # above in three of the last four, but not in this one: the window itself is fine
        ([HOT, HOT, HOT, EVEN, HOT, EVEN, EVEN], [W, W, F, OK, F, OK, OK], [1, 2, 3, 3, 3, 2, 1]),
        # a window without traffic is one of the four
        ([HOT, HOT, QUIET, HOT, QUIET, HOT], [W, W, N, F, N, W], [1, 2, 2, 3, 2, 2]),
        ([133, 133, 133], [OK, OK, OK], [0, 0, 0]),
        # a mean of 1.204 is not above 1.2 beyond chance, 1.220 is
        ([134, 134, 134], [W, W, W], [1, 2, 3]),
        ([137, 137, 137], [W, W, F], [1, 2, 3]),
        # the one window that is not above counts in the mean: 1.13, then 1.23
        ([137, 80, 137, 137], [W, OK, W, W], [1, 1, 2, 3]),
        ([150, 110, 150, 150], [W, OK, W, F], [1, 1, 2, 3]),
        # also one in which it got nothing: 1.00
        ([160, 0, 160, 160], [W, OK, W, W], [1, 1, 2, 3]),
    ],
)
def test_verdicts_window_by_window(loads, verdicts, above_counts):
    found = judged([row for minute, load in enumerate(loads) for row in window(minute, load)])
    assert [v.verdict for v in found] == verdicts
    assert [v.above_count for v in found] == above_counts
    assert [v.is_above for v in found] == [verdict in (W, F) for verdict in verdicts]


def test_a_window_in_which_a_broker_was_away_is_none_of_its_mean():
    """One that went away for a window of each four had a mean of 0.98 and never failed."""
    loads = [row for minute in range(4) for row in window(minute, HOT)]
    away = replace(loads[4], broker_id=1, size_bytes=0, share=0.0, share_ratio=None, expected_share=0.0)
    loads = [away if row.window_start_ms == MINUTE_MS and row.broker_id == 1 else row for row in loads]
    assert [verdict.verdict for verdict in judged(loads)] == [W, N, W, F]


TOO_FEW = "independent batches are too few"

# one hot window, k = n = 1: what keeps it from failing
HELD_BACK = {
    "nothing": (window(0, HOT), {}, F, "42.9% of the bytes where 33.3% is fair: 1.29 times its share"),
    "a higher limit": (window(0, HOT), {"limit_ratio": 1.3}, OK, "below the limit of 1.30"),
    "the floor": (
        window(0, HOT),
        {"floor_bytes_per_s": 150_000},
        OK,
        "150,000 bytes are not above the floor of 150,000",
    ),
    "the floor under the cluster": (window(0, HOT), {"floor_bytes_per_s": 350_000}, N, "350,000 bytes are not above"),
    # 868 units are enough for 1.20; with fewer it takes exp(-2 N d^2) <= 0.001 / 3, d = 0.095 above fair share
    "too few units": (window(0, HOT, units=435.0), {}, N, f"1.29 times its share, and 435 {TOO_FEW}"),
    "few units, a clear excess": (window(0, HOT, units=500.0), {}, F, "1.29 times"),
    "few units, near the limit": (window(0, HOT, units=445.0), {}, W, "mean, 1.29, is not above it beyond chance"),
    "just enough units": (window(0, 134, units=870.0), {}, W, "mean, 1.20, is not above it beyond chance"),
    "nearly enough units, at the limit": (window(0, 134, units=860.0), {}, N, f"860 {TOO_FEW}"),
    "few units, no excess": (window(0, 50, units=200.0), {}, OK, "0.60 times its share; below the limit"),
    "few units, an excess below the limit": (window(0, EVEN, units=200.0), {}, N, "1.00 times its share, and 200"),
    "one unit": (window(0, 1_000, units=1.0), {}, N, "2.50 times its share, and 1 independent batches"),
    "no traffic": (window(0, QUIET), {}, N, "no traffic"),
}


@pytest.mark.parametrize(("loads", "limits", "verdict", "reason"), HELD_BACK.values(), ids=HELD_BACK)
def test_every_condition_is_needed_and_the_reason_says_which(loads, limits, verdict, reason):
    (found,) = judged(loads, **{"k": 1, "n": 1, **limits})
    assert found.verdict == verdict
    assert reason in found.reason


def test_the_chance_value_is_what_chance_exceeds_once_in_a_thousand_windows():
    (found,) = judged(window(0, EVEN, units=90_000.0), chance_level=0.05)
    assert found.chance_value == pytest.approx(1 + 3.0902 * (2 / 90_000) ** 0.5, abs=1e-5)
    assert judged(window(0, QUIET))[0].chance_value is None


def test_a_topic_with_a_limit_of_its_own_brings_it_to_brokers_whose_excess_it_carries():
    """150 beside 100 and 100 is 1.29 times the share: above 1.2, not above 1.3."""
    topics = {"orders-eu": {"owner": "eu-team"}, "orders*": {"limit_ratio": 1.3}}
    carried = [
        replace(load, excess_topic=topic)
        for minute, topic in enumerate(("orders-us", "orders-eu", "clicks", "", None))
        for load in window(minute, HOT)
    ]
    found = judged(carried, topics=topics)
    assert [v.verdict for v in found] == [OK, W, W, F, F]
    assert [v.limit_value for v in found] == [1.3, 1.2, 1.2, 1.2, 1.2]
    assert "below the limit of 1.30 of topic orders-us" in found[0].reason
    with pytest.raises(ValidationError, match="limit_ratio"):
        Gate(topics={"orders": {"limit_ratio": 1.0}})


@pytest.mark.parametrize(("without", "verdict"), [(1.19, OK), (None, OK), (1.2, F)])
def test_a_higher_limit_of_a_topic_holds_only_for_a_broker_that_is_well_without_it(without, verdict):
    """More load of that topic would else make a failing broker well."""
    carried = [
        replace(load, excess_topic="batch-jobs", ratio_without_topic=without)
        for minute in range(3)
        for load in window(minute, HOT)
    ]
    found = judged(carried, topics={"batch-*": {"limit_ratio": 2.0}})
    assert found[-1].verdict == verdict


def test_history_counts_and_gets_no_verdict():
    loads = [row for minute, load in enumerate([HOT, HOT, HOT, EVEN]) for row in window(minute, load)]
    found = judged(loads, judged_from_ms=2 * MINUTE_MS)
    assert [(v.window_start_ms, v.verdict, v.above_count) for v in found] == [(120_000, F, 3), (180_000, OK, 3)]


def test_one_run_over_all_windows_equals_a_run_per_window():
    loads = [row for m, load in enumerate([EVEN, HOT, HOT, QUIET, HOT, HOT, EVEN, HOT]) for row in window(m, load)]
    at_once = judge(loads)
    one_by_one = []
    for minute in range(8):
        seen = [row for row in loads if minute - LIMITS["n"] < row.window_start_ms // MINUTE_MS <= minute]
        one_by_one += judge(seen, judged_from_ms=minute * MINUTE_MS)
    assert list(at_once) == one_by_one


def test_order_of_rows_does_not_matter():
    loads = [row for m, load in enumerate([HOT, EVEN, HOT, HOT]) for row in window(m, load)]
    shuffled = random.Random(3).sample(loads, len(loads))
    assert judge(shuffled) == judge(loads)


def test_a_broker_away_for_a_window_was_not_above_in_it():
    loads = [row for m in range(5) for row in window(m, HOT) if (m, row.broker_id) not in {(2, 1), (3, 1)}]
    assert [(v.window_start_ms // MINUTE_MS, v.verdict) for v in judged(loads)] == [(0, W), (1, W), (4, W)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"k": 5}, "k=5 is larger than n=4"),
        ({"k": 0}, "k"),
        ({"limit_ratio": 1.0}, "limit_ratio"),
        ({"chance_level": 0.0}, "chance_level"),
        ({"floor_bytes_per_s": -1}, "floor_bytes_per_s"),
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong, named):
    with pytest.raises(ValidationError, match=named):
        Gate(**{**LIMITS, **wrong})
