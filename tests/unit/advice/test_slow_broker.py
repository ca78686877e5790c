"""What is said of a broker that answers late. Oracle: worked out by hand."""

from dataclasses import replace

import pytest

from pipeline.advice.following import BrokerAnswers, check_broker
from pipeline.advice.recommendations import recommend
from tests.unit.advice.examples import BROKERS, FOLLOWS, HOT, MOVABLE, effect

SLOW = BrokerAnswers(latency_avg_ms=535.0, ratio_to_peers=41.0, since_ms=1_795_251_600_000)


def test_a_slow_broker_is_to_be_looked_at_first():
    even = dict.fromkeys(range(3), (0.95, 1.0, 1.05))
    found = recommend(replace(FOLLOWS, answers=SLOW), MOVABLE, BROKERS, [effect("linger", 1, even)])
    assert [row.action for row in found] == ["check_broker", "replay:linger", "move_leaders"]
    assert found[0].title == "broker 1 is slow: look at its disk, network, neighbours"
    assert found[0].predicted_ratio is None
    assert not found[0].is_enough
    assert (
        recommend(replace(HOT, answers=SLOW), MOVABLE, BROKERS, ())[0].action == "move_leaders"
    )  # it explains nothing


HEALED = {0: (0.9, 0.98, 1.03), 1: (0.97, 1.04, 1.1), 2: (0.9, 0.98, 1.03)}


def test_what_a_slow_broker_would_carry_once_it_is_mended_is_predicted_by_replay():
    mended = replace(HOT, answers=SLOW, healed=HEALED)
    check = check_broker(mended)
    assert (check.predicted_ratio_low, check.predicted_ratio, check.predicted_ratio_high) == HEALED[1]
    assert (check.predicted_peak_ratio, check.is_enough) == (1.04, True)
    assert check.broker_ratios == {0: 0.98, 1: 1.04, 2: 0.98}
    assert check.text.endswith("Were it as fast as the others, the replay puts the highest broker at 1.04x.")
    assert not check_broker(replace(mended, target_ratio=1.0)).is_enough
    assert check_broker(replace(mended, answers=None)).predicted_ratio is None  # nobody knows that it is slow


SHOWN = {
    "clients alone": ({}, ["535 ms for broker 1, 13 ms for the others (41.0x)", "are not scraped (`RequestMetrics`)"]),
    "a disk": (
        {
            "stages_ms": {"total": 500.0, "local": 480.0, "remote": 15.0, "requestqueue": 1.0},
            "peer_stages_ms": {"local": 3.0},
        },
        ["a request spends 480 ms appending to its log (3.0 ms)", "points to its disk"],
    ),
    "a disk, where quotas delay clients after their answers": (
        {"stages_ms": {"total": 500.0, "local": 480.0, "throttle": 900.0}},
        ["points to its disk", "900 ms throttled"],
    ),
    "followers": (
        {"stages_ms": {"total": 510.0, "remote": 500.0, "local": 5.0}},
        ["points to followers or the network"],
    ),
    "less than the metrics show": (
        {"stages_ms": {"total": 0.0, "local": 0.0}, "peer_stages_ms": {"local": 0.0}},
        ["On the broker itself a request takes less than 0.5 ms in each stage."],
    ),
    "the way there": ({"stages_ms": {"total": 3.0, "local": 2.0}}, ["Clients wait longer than the broker needs"]),
    "busy threads": (
        {"idle_ratios": {"request handlers": 0.05, "network threads": 0.9}},
        ["Its request handlers are idle 5.0 % of the time."],
    ),
    "what else": (
        {"changes": ("leaders of 3 partitions changed",)},
        ["When it began: leaders of 3 partitions changed."],
    ),
    "nothing else": ({}, ["slow since 2026-11-21 09:00 UTC.", "leaders and brokers were as before"]),
    "longer than is known": ({"is_since_first": True}, ["since 2026-11-21 09:00 UTC or longer."]),
}


@pytest.mark.parametrize(("known", "said"), SHOWN.values(), ids=SHOWN)
def test_what_the_metrics_show_of_a_slow_broker(known, said):
    text = check_broker(replace(HOT, answers=replace(SLOW, **known))).text
    for words in said:
        assert words in text


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (None, "is not known: scrape their metrics"),
        (BrokerAnswers(latency_avg_ms=14.0, ratio_to_peers=1.1), "not slow"),
    ],
)
def test_a_broker_that_is_not_known_to_be_slow_is_not_called_slow(answers, words):
    found = check_broker(replace(HOT, answers=answers))
    assert "slow:" not in found.title
    assert words in found.text
