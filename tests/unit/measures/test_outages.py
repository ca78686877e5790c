"""When brokers were out of the cluster. Oracle: written by hand, instants in a window from 10 to 20."""

from bisect import bisect_left, bisect_right
from random import Random

import pytest

from pipeline.measures.outages import LEAST_MISSED, LedSpan, SampleGap, find_gaps, find_outages, is_slow, sum_known_ms

A, B, C = (("t", "id", number) for number in range(3))


def asked(*answers):
    """Answers about broker 2, among others about brokers that never left."""
    return [*((broker, at_ms, False) for broker in (1, 3) for at_ms, _ in answers), *((2, *one) for one in answers)]


@pytest.mark.parametrize(
    ("answers", "away"),
    [
        ([(5, True), (25, True)], 10),
        ([(5, True), (15, True), (25, True)], 10),
        ([(1, False), (5, True), (25, True), (30, False)], 10),
        ([(5, True), (15, False), (25, True)], None),
        ([(5, True), (15, True), (25, False)], 5),  # until then at least
        ([(12, True), (25, True)], 8),
        ([(12, True), (14, True), (15, False), (16, True), (19, True)], 5),
        ([(5, False), (25, True)], None),
        ([(5, True)], None),  # nobody has asked since
        ([(5, True), (10, True)], None),
        ([(15, False)], None),
        ([], None),
    ],
)
def test_how_long_a_broker_was_away_by_a_cluster_that_is_asked_now_and_then(answers, away):
    found = find_outages(reversed(asked(*answers)))
    assert sum_known_ms(found, 10, 20) == ({} if away is None else {2: away})
    assert not any(one.is_dated for one in found)


LEFT = [LedSpan(A, 7, 2, 0, 12), LedSpan(A, 8, 1, 14, 40), LedSpan(B, 3, 2, 1, 11), LedSpan(B, 4, 3, 13, 40)]
"""Broker 2 leads two partitions up to 12; others from 13 on."""

DATED = {
    "when others began to lead": ([(1, False), (25, True)], LEFT, [(13, 25, 25, None)]),
    "the first answer of all": ([(25, True)], LEFT, [(13, 25, 25, None)]),
    "an answer after they did": ([(20, False), (25, True)], LEFT, [(25, 25, 25, None)]),
    "leaders that moved alone": ([(1, False), (25, False)], LEFT, []),
    "a partition it handed over while it led others": (
        [(1, False), (25, True)],
        [LedSpan(A, 7, 2, 0, 5), LedSpan(A, 8, 1, 6, 40), LedSpan(B, 3, 2, 1, 18), LedSpan(B, 4, 3, 19, 40)],
        [(19, 25, 25, None)],
    ),
    "a partition that it alone held": ([(25, True)], [LedSpan(A, 7, 2, 0, 12)], [(25, 25, 25, None)]),
    "an epoch of its own after one of its own": (
        [(25, True)],
        [LedSpan(A, 7, 2, 0, 12), LedSpan(A, 8, 2, 16, 16), LedSpan(A, 9, 1, 18, 40)],
        [(18, 25, 25, None)],
    ),
    "back by what it leads": ([(25, True)], [*LEFT, LedSpan(C, 9, 2, 31, 40)], [(13, 25, 25, 31)]),
    "back by an answer": ([(25, True), (28, False)], [*LEFT, LedSpan(C, 9, 2, 31, 40)], [(13, 25, 25, 28)]),
    "one outage, asked twice": ([(25, True), (35, True)], LEFT, [(13, 25, 35, None)]),
    "two, with a sign of it between": (
        [(25, True), (35, True)],
        [*LEFT, LedSpan(C, 9, 2, 28, 30), LedSpan(C, 10, 1, 32, 40)],
        [(13, 25, 25, 28), (32, 35, 35, None)],
    ),
    "a client that stamps its records hours ahead": (
        [(1, False), (25, True), (35, True)],
        [LedSpan(A, 7, 2, 0, 33), *LEFT[1:], LedSpan(C, 9, 2, 2, 34)],
        [(14, 25, 35, None)],
    ),
}  # fmt: skip  # a case a line where it fits


@pytest.mark.parametrize(("answers", "spans", "outages"), DATED.values(), ids=DATED)
def test_leader_epochs_say_since_when_and_never_that_a_broker_is_away(answers, spans, outages):
    found = find_outages(asked(*answers), reversed(spans))
    assert [(one.since_ms, one.asked_ms, one.last_ms, one.back_ms) for one in found] == outages
    assert {one.broker_id for one in found} <= {2}


@pytest.mark.parametrize(
    ("answers", "spans", "told"),
    [
        ([(25, True)], LEFT, {10: 7, 20: 10}),  # to the end of the window that was asked in
        ([(25, True), (27, False)], LEFT, {10: 7, 20: 7}),
        ([(25, True)], [*LEFT, LedSpan(C, 9, 2, 26, 40)], {10: 7, 20: 6}),
        ([(25, True), (45, True)], LEFT, {10: 7, 20: 10, 30: 10, 40: 10}),
        ([(30, True)], LEFT, {10: 7, 20: 10, 30: 10}),
        ([(25, True)], [], {20: 5}),
        ([(20, True), (22, False)], [], {20: 2}),
    ],
)
def test_every_window_of_an_outage_is_told_and_none_before_it(answers, spans, told):
    (outage,) = find_outages(asked(*answers), spans)
    found = {start: outage.told_ms(start, start + 10) for start in range(0, 60, 10)}
    assert {start: away for start, away in found.items() if away} == told


@pytest.mark.parametrize(("at_ms", "is_away"), [(10, False), (13, False), (14, True), (25, True), (26, False)])
def test_who_was_away_at_a_moment(at_ms, is_away):
    (outage,) = find_outages(asked((25, True)), LEFT)
    assert outage.covers(at_ms) is is_away


def taken_over(*, since=14, led_again=None):
    """Broker 2 led A up to 12, broker 1 from `since` on."""
    again = [] if led_again is None else [LedSpan(B, 9, 2, *led_again)]
    return [LedSpan(A, 7, 2, 0, 12), LedSpan(A, 8, 1, since, 60), *again]


UNASKED = [LedSpan(A, 7, -1, 0, 12), LedSpan(A, 8, 1, 14, 60)]
SAMPLED = {1: range(0, 70, 5), 2: [1, 11, 46, 51, 56, 61, 66]}
"""Broker 2's exporter answers nothing from 11 to 46, broker 1's does."""


def plain_gaps(sampled):
    """Each broker is compared with each other one."""
    for broker_id, own in sampled.items():
        for seen_ms, back_ms in zip(own, (*own[1:], None), strict=True):
            missed = [
                times[bisect_right(times, seen_ms) : None if back_ms is None else bisect_left(times, back_ms)]
                for other, times in sampled.items()
                if other != broker_id
            ]
            if max(map(len, missed), default=0) >= LEAST_MISSED:
                yield SampleGap(broker_id, seen_ms, max(times[-1] for times in missed if times), back_ms)


@pytest.mark.parametrize("seed", range(200))
def test_gaps_are_those_that_a_comparison_of_each_broker_with_each_other_finds(seed):
    draw = Random(seed)
    count = draw.randrange(1, 6)
    sampled = {broker_id: sorted(draw.sample(range(60), draw.randrange(1, 20))) for broker_id in range(count)}
    assert find_gaps(sampled) == [*plain_gaps(sampled)]


@pytest.mark.timeout(60)
def test_brokers_by_the_thousand_are_compared_at_once():
    """Each broker with each other one takes hours."""
    sampled = {broker_id: range(broker_id % 7, 2000, 40 + broker_id % 90) for broker_id in range(10_000)}
    assert find_gaps(sampled)


@pytest.mark.parametrize(
    ("sampled", "spans", "answers", "found"),
    [
        (SAMPLED, taken_over(), (), [(14, 45, 46)]),
        (SAMPLED, taken_over(), ((5, False), (50, False)), [(14, 45, 46)]),  # between two answers
        (SAMPLED, taken_over(led_again=(40, 60)), (), []),  # it led meanwhile: an exporter that stopped
        (SAMPLED, taken_over(), ((30, False),), []),  # the cluster says that it is there
        (SAMPLED, taken_over(since=50), (), []),  # leaders moved later
        (SAMPLED, [], (), []),  # nobody took over
        (SAMPLED, [], ((25, True),), [(25, 25, None)]),  # and samples say no more than the answer
        ({1: range(0, 70, 5), 2: range(1, 70, 5)}, taken_over(), (), []),  # leaders moved, the broker was there
        ({1: [0, 60], 2: [1, 61]}, taken_over(), (), []),  # nobody was scraped
        ({**SAMPLED, 2: [1, 11]}, taken_over(), (), [(14, 65, None)]),  # not back yet
        (SAMPLED, taken_over(), ((25, True), (50, False)), [(14, 45, 46)]),  # an answer says so, samples how long
        (SAMPLED, UNASKED, (), [(14, 45, 46)]),  # nobody had been asked who led before
        (SAMPLED, UNASKED, ((25, True),), [(14, 45, 46)]),
        (SAMPLED, [*UNASKED, LedSpan(B, 9, 2, 20, 60)], (), []),  # another's partition moved: this one leads
        (SAMPLED, [LedSpan(A, 7, 3, 0, 12), LedSpan(A, 8, -1, 14, 60)], (), []),  # who took over is not known either
    ],
)
def test_samples_that_stay_away_while_others_take_over_are_an_outage(sampled, spans, answers, found):
    outages = find_outages(asked(*answers), spans, find_gaps({one: list(times) for one, times in sampled.items()}))
    assert [(one.since_ms, one.last_ms, one.back_ms) for one in outages] == found


@pytest.mark.parametrize(
    ("latency_ms", "ratio", "slow"), [(535.0, 41.0, True), (3.0, 3.0, False), (14.0, 1.1, False), (None, None, False)]
)
def test_slow_brokers(latency_ms, ratio, slow):
    assert is_slow(latency_ms, ratio) == slow
