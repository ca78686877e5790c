"""The verdict in words. Oracle: by hand."""

from dataclasses import replace
from functools import partial

import pytest

from expectations.reports import CheckResult
from pipeline.config.rules import Gate
from pipeline.verdicts.broker_share import judge_broker_share
from pipeline.verdicts.rules import describe_verdicts, find_unjudged
from pipeline.verdicts.sources import SkippedWindow, judge_skipped, judge_sources
from tests.incident_rows import new_verdict
from tests.placements import load_of
from tests.unit.verdicts.test_sources import arrival

describe_health = partial(describe_verdicts, cluster="prod", gate=Gate(), window_ms=60_000)


@pytest.mark.parametrize(("count", "windows"), [(1, "this window"), (5, "these 5 windows")])
def test_a_healthy_run_names_the_windows_that_it_is_about(count, windows):
    verdicts = [
        new_verdict(60_000 * minute, above=0, subject=f"broker {broker}")
        for minute in range(count)
        for broker in (1, 2)
    ]
    assert describe_health(verdicts) == (
        f"cluster prod: healthy, no broker fails in {windows} "
        "(to fail, a broker has to be above its share in 3 of 4 windows)"
    )


def shares(*percents, units=10_000.0):
    loads = [
        load_of(broker, 10**7 * percent, 300 * 10**7, effective_unit_count=units)
        for broker, percent in enumerate(percents, start=1)
    ]
    return judge_broker_share(loads, Gate(), window_ms=60_000)


ABOVE = (
    "  1970-01-01T00:00:00Z broker 1: 47.7% of the bytes where 33.3% is fair: 1.43 times its share; limit 1.20, "
    "above in 1 of the last 4 windows, 3 make a failure"
)


def test_a_broker_above_its_limit_in_too_few_windows_is_not_called_healthy():
    verdicts = shares(143, 80, 77)
    assert [verdict.verdict for verdict in verdicts] == ["warn", "ok", "ok"]
    assert describe_health(verdicts).splitlines() == [
        "cluster prod: no incident, but above the limit in this window: broker 1 "
        "(an incident needs that in 3 of 4 windows)",
        ABOVE,
    ]


def test_shares_are_known_where_only_metrics_are_missing():
    status = arrival(source="prometheus", expected=120, arrived=0)
    silent = "  1970-01-01T00:00:00Z prometheus brought nothing: 120 were expected"
    missing = judge_sources([status], max_age_ms=1)
    assert describe_health([*shares(143, 80, 77), *missing]).splitlines() == [
        "cluster prod: not every source is complete; judged by the others: no incident, but above the limit in this window: "
        "broker 1 (an incident needs that in 3 of 4 windows)",
        silent,
        ABOVE,
    ]
    assert describe_health(missing).splitlines() == ["cluster prod: health is not known, data is missing", silent]


MOVING = {60_000: SkippedWindow("incomplete", "a reassignment of 3 partitions was running")}


def test_a_window_that_is_not_judged_is_not_called_healthy():
    hot = judge_skipped(MOVING, {60_000: {1: 2.9, 2: 0.1}}, limit_value=1.2)
    for verdicts in (hot, (*shares(100, 100, 100), *hot)):
        assert find_unjudged(verdicts) is not None
        assert describe_health(verdicts).splitlines() == [
            "cluster prod: health is not known",
            f"  1970-01-01T00:01:00Z shares: not judged: {MOVING[60_000].reason}",
        ]


def test_windows_that_were_not_judged_are_counted_beside_the_newest():
    earlier = judge_skipped({-60_000: MOVING[60_000]}, {}, limit_value=1.2)
    verdicts = (*earlier, *shares(100, 100, 100))
    assert find_unjudged(verdicts) is None
    assert describe_health(verdicts) == (
        "cluster prod: healthy, no broker fails in this window (to fail, a broker has to be above its share in 3 of 4 windows); "
        "of 1 earlier ones nothing is known"
    )


def test_a_window_without_records_is_not_called_healthy():
    loads = [load_of(broker, 0, 0, start_ms=60_000) for broker in (1, 2)]
    verdicts = judge_broker_share(loads, Gate(), window_ms=60_000)
    assert {verdict.verdict for verdict in verdicts} == {"not_enough_traffic"}
    assert find_unjudged(verdicts) is not None
    assert describe_health(verdicts) == (
        "cluster prod: no records in this window; the next one ends at 1970-01-01T00:03:00Z"
    )
    assert describe_health([*shares(100, 100, 100), *verdicts]).splitlines() == [
        "cluster prod: health is not known",
        "  1970-01-01T00:01:00Z shares: no traffic in this window",
    ]


def test_a_broker_beyond_its_limit_that_cannot_be_judged_is_not_called_healthy():
    """A producer that sends in bursts, or chooses such times, makes thousands of batches count as a few dozen."""
    verdicts = shares(150, 75, 75, units=65.0)
    assert find_unjudged(verdicts).subject == "broker 1"
    first, line = describe_health(verdicts).splitlines()
    assert first == "cluster prod: health is not known"
    assert line.startswith(
        "  1970-01-01T00:00:00Z broker 1: 1.50 times its share, and 65 independent batches are too few to decide"
    )
    later = [replace(one, window_start_ms=60_000) for one in shares(100, 100, 100)]
    assert describe_health([*verdicts, *later]).endswith("; of 1 earlier ones nothing is known")
    assert find_unjudged([*verdicts, *shares(143, 80, 77)]) is None  # a broker is above, and named


def test_what_is_found_in_many_windows_is_one_line():
    rule = {"rule": "disk_hours_to_full", "value": 6.0, "limit_value": 48.0}
    rows = [
        new_verdict(
            60_000 * minute, above=2, subject=f"broker {broker}", reason=f"/a is full in {9 - minute} h", **rule
        )
        for minute in range(8)
        for broker in (1, 2)
    ]
    assert describe_health(rows).splitlines() == [
        "cluster prod: NOT healthy",
        *(
            f"  1970-01-01T00:07:00Z broker {broker}: /a is full in 2 h (in 8 windows since 1970-01-01T00:00:00Z)"
            for broker in (1, 2)
        ),
    ]


def test_a_subject_forges_no_line_and_holds_nothing_that_a_database_refuses():
    """Whoever reads a topic chooses the name of a group; Airflow keeps the words, on Postgres without NUL."""
    subject = "group a\0\x1b[2J\ncluster prod: healthy"
    verdict = new_verdict(rule="assignment_skew", subject=subject, value=3.0, limit_value=2.0, reason="\rsaid")
    assert describe_health([verdict]).splitlines() == [
        "cluster prod: NOT healthy",
        r"  1970-01-01T00:00:00Z group a\x00\x1b[2J\ncluster prod: healthy: \rsaid",
    ]


def test_a_row_that_breaks_a_check_is_a_line_of_bounded_length_whatever_its_names_hold():
    row = {"client_id": "a\0\n  forged: \x1b[31m" + "z" * 40_000, "value": 3}
    check = CheckResult(name="n", severity="warning", description="Said.", success=False, observed=1, rows=(row,))
    head, line = check.describe().splitlines()
    assert head == "n: Said. Found 1."
    assert line.startswith(r"    client_id a\x00\n  forged: \x1b[31mzzz")
    assert line.endswith("z, value 3")
    assert len(line) < 1_100


def test_of_a_thousand_failing_subjects_some_of_each_rule_are_told_and_how_many_more():
    def failed(rule, subject):
        return new_verdict(rule=rule, subject=subject, above=2, reason="x" * 5_000)

    many = [failed("under_replicated", f"topic {number:03}") for number in range(1_000)]
    few = [failed("broker_share", "broker 1"), failed("leaderless", "topic a")]
    lines = describe_health([*many, *few]).split("\n")
    assert [len(lines), lines[-1]] == [52, "  and 952 more"]
    assert [line.split(": ")[0].split("Z ")[1] for line in lines[1:4]] == ["broker 1", "topic a", "topic 000"]
    assert max(map(len, lines)) == 1_000
