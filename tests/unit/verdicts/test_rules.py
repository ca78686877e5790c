"""Further rules over hand-made measures. Oracle: verdicts written out by hand."""

import pytest

from pipeline.config.rules import Gate, RuleSettings, fill_rules
from pipeline.rules import RULES
from pipeline.rules.rule import RuleMeasure
from pipeline.verdicts.rules import judge_rules, list_events
from pipeline.verdicts.sources import SkippedWindow

CRITICAL = RuleSettings(limit=2.0, severity="critical", k=2, n=3)


def measure(window, value, *, rule="topic_peak", subject="topic a", p_value=None, is_enough=True):
    of = {"rule": rule, "subject": subject, "topic": subject.removeprefix("topic "), "detail": "said"}
    return RuleMeasure(window_start_ms=window * 1000, value=value, p_value=p_value, is_enough=is_enough, **of)


def judged(values, limit=CRITICAL, **settings):
    measures = [measure(window, value, **settings) for window, value in enumerate(values)]
    return [v.verdict for v in judge_rules(measures, under(limit), chance_level=0.001)]


def under(settings):
    return dict.fromkeys(RULES, settings)


W, F, OK, N = "warn", "fail", "ok", "not_enough_traffic"


@pytest.mark.parametrize(
    ("values", "settings", "verdicts"),
    [
        ([1.0, 2.0, 2.5, 1.9, 2.0], {}, [W, F, OK, F]),
        ([2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0], {}, [W, F, OK, OK, OK]),  # n windows to get well in
        ([2.0, 2.0, 2.0], {"limit": RuleSettings(limit=2.0, severity="warning", k=1, n=1)}, [W, W, W]),
        ([3.0, 3.0], {"p_value": 0.01}, []),
        ([3.0, 3.0], {"p_value": 0.0001}, [W, F]),
        ([3.0, 3.0], {"is_enough": False}, []),
        ([3.0, None, 3.0], {}, [W, N, F]),
        # what was not measured is not above: two of three
        ([3.0, None, 3.0], {"limit": RuleSettings(limit=2.0, severity="critical", k=3, n=3)}, [W, N, W]),
        # a long silence is no getting well: an incident could never end else
        ([3.0, 3.0, None, None, None, None, 1.0, 1.0, 1.0, 1.0], {}, [W, F, N, N, N, N, OK, OK, OK]),
        ([90.0, 2.0, 1.0], {"rule": "disk_hours_to_full"}, [W, F]),
    ],
)
def test_verdicts_window_by_window(values, settings, verdicts):
    assert judged(values, **settings) == verdicts


def test_windows_without_all_records_or_with_a_reassignment_count_neither_way_for_rules_about_traffic():
    """Above, above, held, above: the third window says nothing, the fourth is the third of three."""
    skipped = {2000: SkippedWindow("incomplete", "log_directories brought 2 of 3")}
    limit = RuleSettings(limit=2.0, severity="critical", k=3, n=3)
    rows = [measure(window, 3.0) for window in range(4)] + [measure(window, 1.0, subject="topic b") for window in (2,)]
    verdicts = judge_rules(rows, under(limit), chance_level=0.001, skipped=skipped)
    assert [(v.subject, v.verdict) for v in verdicts] == [("topic a", kind) for kind in (W, W, "incomplete", F)]
    assert verdicts[2].reason == "not judged: log_directories brought 2 of 3"
    dead = [measure(window, 3.0, rule="under_replicated") for window in range(4)]
    assert [v.verdict for v in judge_rules(dead, under(limit), chance_level=0.001, skipped=skipped)] == [W, W, F, F]


def test_rules_about_traffic_and_sizes_wait_for_all_records_and_others_do_not():
    waiting = {"topic_peak", "replica_size_spread", "preferred_leader", "assignment_skew", "zone_share"}
    waiting |= {"late_load", "unread_records"}
    assert {name for name, rule in RULES.items() if rule.needs_all_records} == waiting


@pytest.mark.parametrize(
    ("before", "values", "verdicts"),
    [
        ([], [1.0, 1.0, 1.0, 1.0], [OK, OK]),  # k windows end the incident
        ([1.0] * 5, [1.0, 1.0, 1.0], [OK, OK]),  # well before, when it was not judged
        ([], [None, 1.0, None, 1.0, 1.0], [N, OK, N, OK]),
        ([], [1.0, 3.0, 1.0, 1.0, 1.0, 1.0], [OK, W, OK, OK, OK]),
        ([3.0, 1.0], [1.0, 1.0, 1.0], [OK, OK]),  # as without an incident
    ],
)
def test_the_subject_of_an_open_incident_is_judged_however_long_it_had_no_measure(before, values, verdicts):
    """Else no window could end it: what is read begins after the last one above."""
    measures = [measure(40 + place - len(before), value) for place, value in enumerate((*before, *values))]
    given = {"chance_level": 0.001, "judged_from_ms": 40_000}
    found = judge_rules(measures, under(CRITICAL), **given, still_open=[("topic_peak", "topic a")])
    assert [v.verdict for v in found] == verdicts
    assert judge_rules(measures, under(CRITICAL), **given, still_open=[("topic_peak", "topic b")]) == tuple(
        v for v in found if v.is_above or (3.0 in values[: v.window_start_ms // 1000 - 40] or 3.0 in before)
    )


def test_many_subjects_are_corrected_for_and_history_gets_no_verdict():
    """Of a thousand topics, one at p = 0.0005 is what chance gives; one at 1e-9 is not."""
    measures = [measure(w, 3.0, subject=f"topic {n}", p_value=0.5) for n in range(998) for w in (0, 1)]
    measures += [measure(w, 3.0, subject="topic luck", p_value=0.0005) for w in (0, 1)]
    measures += [measure(w, 3.0, subject="topic hot", p_value=1e-9) for w in (0, 1)]
    verdicts = judge_rules(measures, under(CRITICAL), chance_level=0.001, judged_from_ms=1000)
    assert {v.window_start_ms for v in verdicts} == {1000}
    assert [v.subject for v in verdicts if v.is_above] == ["topic hot"]
    assert [v.above_count for v in verdicts if v.is_above] == [2]


def test_rules_that_are_off_or_not_known_here_give_no_verdict():
    off = RuleSettings(limit=2.0, severity="off", k=1, n=1)
    for settings in (under(off), {}):
        assert judge_rules([measure(0, 9.0)], settings, chance_level=0.001) == ()


def test_brokers_are_held_against_the_limit_and_are_the_job_of_the_topic_they_suffer_from():
    gate = Gate(
        resolve_ratio=1.05,
        owner="platform",
        topics={"orders-eu": {"owner": "eu-team"}, "orders*": {"limit_ratio": 1.5, "owner": "orders-team"}},
    )
    told = {topic: gate.of_topic(topic) for topic in ("orders-eu", "orders-us", "clicks", "")}
    assert {topic: (own.limit_ratio, own.resolves_at, own.owner) for topic, own in told.items()} == {
        "orders-eu": (1.2, 1.05, "eu-team"),
        "orders-us": (1.5, 1.25, "orders-team"),
        "clicks": (1.2, 1.05, "platform"),
        "": (1.2, 1.05, "platform"),
    }
    assert gate.resolves_by_limit == {1.5: 1.25}
    with pytest.raises(ValueError, match="greater than 1"):
        Gate(topics={"orders": {"limit_ratio": 1.0}})


def test_overrides_fit_by_pattern_and_keep_what_they_do_not_name():
    given = {"topic_peak": {"limit": 3.0, "topics": {"orders*": {"limit": 5.0, "owner": "orders-team"}}}}
    rules = fill_rules(given, Gate(limit_ratio=1.4))
    assert (rules["share_forecast"]["limit"], rules["zone_share"]["limit"]) == (1.4, 1.3)  # shares are the gate's
    rule = RuleSettings(**rules["topic_peak"])
    assert (rule.limit, rule.severity, rule.k, rule.n) == (3.0, "warning", 3, 4)
    own = rule.of_topic("orders-eu")
    assert (own.limit, own.owner, own.severity) == (5.0, "orders-team", "warning")
    assert rule.of_topic("payments") == rule.of_topic("") == rule
    with pytest.raises(ValueError, match="no rule peaks; there are topic_peak"):
        fill_rules({"peaks": {}})


def test_what_happened_to_brokers_and_producers_is_told_of_every_window_whatever_the_severity():
    measures = [
        measure(0, 45.0, rule="broker_away", subject="broker 2"),
        measure(0, 3.0, rule="leaders_moved", subject="broker 2"),
        measure(0, 9.0, rule="topic_peak"),
        measure(0, 80.0, rule="throttled", subject="client app"),
        measure(0, 7.0, rule="failed_sends", subject="client app"),
        measure(1, 0.0, rule="broker_away", subject="broker 2"),
        measure(1, 0.0, rule="throttled", subject="client app"),
    ]
    settings = {name: RuleSettings(**rule) for name, rule in fill_rules({}).items()}
    verdicts = judge_rules(measures, settings, chance_level=0.001)
    assert sorted(list_events(verdicts)) == [(0, "broker 2: said")] * 2 + [(0, "client app: said")] * 2
