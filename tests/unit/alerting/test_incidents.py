"""The fold of verdicts into incidents. Oracle: verdict rows drawn by hand, one letter per window.

`A` above and k of n: fail. `a` above, not yet k of n: warn. `.` calm (below 1.10). `-` between 1.10 and the limit.
`?` not enough traffic. `x` no verdict stored for the window. `B` fail, at 1.9 instead of 1.5; `C` at 2.4.
"""

import math
from dataclasses import replace

import pytest

from pipeline.alerting.incident_ids import incident_id_of
from pipeline.alerting.incidents import IncidentPolicy, as_open, fold_verdicts, open_before
from pipeline.model.incident import OpenIncident
from tests.incident_rows import new_change, new_verdict

KINDS = {"A": ("fail", 1.5), "a": ("warn", 1.5), ".": ("ok", 1.0), "-": ("ok", 1.15), "?": ("not_enough_traffic", None)}
KINDS |= {"B": ("fail", 1.9), "C": ("fail", 2.4)}
N = 4


def verdicts(drawing, *, subject="broker 1", first_ms=0):
    rows, above = [], []
    for place, letter in enumerate(drawing):
        if letter == "x":
            continue
        kind, value = KINDS[letter]
        above.append(letter in "aABC")
        count = {"is_above": above[-1], "above_count": sum(above[-N:])}
        rows.append(new_verdict(first_ms + place, subject=subject, value=value, verdict=kind, **count))
    return rows


def fold(rows, *, k=3, repeat_ms=0, **arguments):
    policy = IncidentPolicy(resolves_at=1.1, k=k, repeat_ms=repeat_ms)
    return fold_verdicts(rows, **({"cluster": "demo", "policy_of": lambda _: policy} | arguments))


def told(changes):
    return [(change.state, change.window_start_ms, change.since_ms, change.window_count) for change in changes]


@pytest.mark.parametrize(
    ("drawing", "expected"),
    [
        ("....", []),
        ("..aa", []),
        ("..aaA", [("new", 4, 2, 3)]),
        ("..aaAAA", [("new", 4, 2, 3)]),
        ("..a.aA", [("new", 5, 2, 4)]),
        ("..aaA..", [("new", 4, 2, 3)]),
        ("..aaA...", [("new", 4, 2, 3), ("resolved", 7, 2, 6)]),
        ("..aaA..-...", [("new", 4, 2, 3), ("resolved", 10, 2, 9)]),
        ("..aaA..A...", [("new", 4, 2, 3), ("resolved", 10, 2, 9)]),
        ("..aaA.?.?.", [("new", 4, 2, 3), ("resolved", 9, 2, 8)]),
        ("..aaA.x..", [("new", 4, 2, 3), ("resolved", 8, 2, 6)]),
        ("..aaA????????", [("new", 4, 2, 3)]),
        ("aaA...aaA...", [("new", 2, 0, 3), ("resolved", 5, 0, 6), ("new", 8, 6, 3), ("resolved", 11, 6, 6)]),
        ("A", [("new", 0, 0, 1)]),
        ("a??aA", [("new", 4, 3, 2)]),
    ],
)
def test_drawn_windows_give_these_changes(drawing, expected):
    assert told(fold(verdicts(drawing))) == expected


@pytest.mark.parametrize(
    ("drawing", "repeat_ms", "expected"),
    [
        ("aaAAB", 0, ["new 2", "worse 4"]),  # 1.9 is more than 1.25 times 1.5
        ("aaABBC", 0, ["new 2", "worse 3", "worse 5"]),
        ("aaBCC", 0, ["new 2", "worse 3"]),  # told at 1.9, and once at 2.4
        ("aaAAAAA", 3, ["new 2", "continuing 5"]),
        ("aaA---A", 3, ["new 2", "continuing 5"]),  # not calm: it goes on
        ("aaA....", 3, ["new 2", "resolved 5"]),  # a calm window ends it, or says nothing
        ("aaA??A", 3, ["new 2", "continuing 5"]),
        ("aaA???", 3, ["new 2"]),  # not judged: nothing to say
        ("aaAAABAA", 3, ["new 2", "worse 5"]),  # worse is told: the interval begins anew
        ("aaAAABAAA", 3, ["new 2", "worse 5", "continuing 8"]),
    ],
)
def test_an_open_incident_is_told_again_when_worse_or_after_the_interval(drawing, repeat_ms, expected):
    rows = verdicts(drawing)
    whole = fold(rows, repeat_ms=repeat_ms)
    assert [f"{change.state} {change.window_start_ms}" for change in whole] == expected
    assert len({change.incident_id for change in whole}) == 1
    one_by_one = ()
    for place, row in enumerate(rows):
        opened = open_before(one_by_one, row.window_start_ms)
        one_by_one += fold([row], repeat_ms=repeat_ms, history=rows[:place], open_incidents=opened)
    assert one_by_one == whole


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        ([40, 33], ["new 0"]),  # 40 / 33 is below 1.25
        ([40, 32], ["new 0", "worse 1"]),
        ([40, 50], ["new 0"]),
        ([40, 20, 17, 10], ["new 0", "worse 1", "worse 3"]),
        ([40, 0, 0], ["new 0", "worse 1"]),
    ],
)
def test_where_small_is_bad_worse_is_smaller_and_the_peak_is_the_smallest(hours, expected):
    rule = {"rule": "disk_hours_to_full", "limit_value": 48.0}
    rows = [new_verdict(place, value=float(value), **rule) for place, value in enumerate(hours)]
    changes = fold(rows, policy_of=lambda _: IncidentPolicy(resolves_at=math.inf, k=1))
    assert [f"{change.state} {change.window_start_ms}" for change in changes] == expected
    assert changes[-1].peak_value == min(hours[: changes[-1].window_start_ms + 1])


def test_an_incident_whose_rule_became_a_warning_is_only_told_to_be_over():
    rows = verdicts("aaAAAABBBCCC...")
    rows[4:] = [replace(row, severity="warning", verdict=row.verdict.replace("fail", "warn")) for row in rows[4:]]
    assert [one[:2] for one in told(fold(rows, repeat_ms=3))] == [("new", 2), ("resolved", 14)]


@pytest.mark.parametrize(("value", "is_calm"), [(1.09, True), (1.1, False)])
def test_a_value_at_the_ratio_of_recovery_is_not_calm(value, is_calm):
    (verdict,) = verdicts("-")
    assert IncidentPolicy(resolves_at=1.1, k=1).is_calm(replace(verdict, value=value)) == is_calm


def test_a_window_held_against_another_limit_is_well_below_its_own():
    rows = [replace(row, limit_value=1.5) if row.value == 1.15 else row for row in verdicts("aaA---")]
    policy = IncidentPolicy(resolves_at=1.1, k=3, resolves_by_limit={1.5: 1.25})
    assert [change.state for change in fold(rows, policy_of=lambda _: policy)] == ["new", "resolved"]
    assert [change.state for change in fold(verdicts("aaA---"), policy_of=lambda _: policy)] == ["new"]


def test_with_one_of_one_a_single_calm_window_resolves_and_the_next_failure_is_another_incident():
    changes = fold(verdicts("A.A"), k=1)
    assert told(changes) == [("new", 0, 0, 1), ("resolved", 1, 0, 2), ("new", 2, 2, 1)]
    assert changes[0].incident_id == changes[1].incident_id != changes[2].incident_id


def test_a_window_failing_for_its_predecessors_sake_opens_nothing():
    (row,) = verdicts(".")
    assert fold([replace(row, verdict="fail", above_count=3)]) == ()


def test_peak_and_values_are_those_of_the_windows_since():
    first, second, *others = verdicts("aaA...")
    new, resolved = fold([first, replace(second, value=1.9), *others])
    assert (new.value, new.peak_value, new.limit_value) == (1.5, 1.9, 1.2)
    assert (resolved.value, resolved.peak_value) == (1.0, 1.9)


@pytest.mark.parametrize("kind", ["incomplete", "stale", "not_enough_traffic"])
def test_the_share_of_a_window_that_was_not_judged_is_no_peak(kind):
    """Records of other brokers were missing in it, or it had three of them: the mail about the end told 3.00 as the peak."""
    rows = [replace(row, value=3.0, verdict=kind) if row.value is None else row for row in verdicts("aaA?...")]
    new, resolved = fold(rows)
    assert (new.peak_value, resolved.state, resolved.peak_value) == (1.5, "resolved", 1.5)


@pytest.mark.parametrize(
    ("after", "expected"), [("eee", "withdrawn"), ("ee.", "resolved"), ("..e", "withdrawn"), ("e-e", None)]
)
def test_an_incident_ends_when_only_hash_luck_is_left_that_the_gate_excuses(after, expected):
    """`hash_luck: warn` was set because of its mails, and they came each day for good."""
    rows = verdicts("aaA" + after.replace("e", "a"))
    rows[3:] = [replace(row, is_above=False) if row.verdict == "warn" else row for row in rows[3:]]
    states = [change.state for change in fold(rows, repeat_ms=2)]
    assert states == ["new", expected or "continuing"]


def test_subjects_are_folded_apart_and_told_by_window_then_subject():
    changes = fold([*verdicts("..aaA", subject="broker 2"), *verdicts("..aaA", subject="broker 1")])
    assert [(change.subject, change.window_start_ms) for change in changes] == [("broker 1", 4), ("broker 2", 4)]
    assert len({change.incident_id for change in changes}) == 2


def test_an_open_incident_is_not_told_again_and_resolves_under_its_id():
    change = new_change("new", 2, incident_id="K-OLD", since_ms=0, window_count=3)
    opened = OpenIncident(last=change, opened_ms=2, reported_value=1.5)
    rows = verdicts("aaAA...")
    (end,) = fold(rows[5:], open_incidents=[opened], history=rows[:5])
    assert (end.state, end.incident_id, end.window_start_ms) == ("resolved", "K-OLD", 6)


def test_history_overlapping_the_verdicts_is_ignored():
    rows = verdicts("aaA...")
    assert fold(rows[3:], open_incidents=[as_open(fold(rows[:3])[0])], history=rows) == fold(rows)[1:]


def test_open_before_leaves_out_what_was_resolved_and_what_came_later():
    changes = fold(verdicts("aaA...aaA..."))
    assert open_before(changes, 2) == ()
    assert open_before(changes, 5) == (as_open(changes[0]),)
    assert open_before(changes, 6) == ()
    assert open_before(changes, 11) == (as_open(changes[2]),)


def test_ids_differ_by_each_of_their_parts():
    ids = {
        incident_id_of("demo", "broker_share", "broker 1", 1),
        incident_id_of("demo", "broker_share", "broker 1", 2),
        incident_id_of("demo", "broker_share", "broker 11", 1),
        incident_id_of("demo", "latency", "broker 1", 1),
        incident_id_of("demo2", "broker_share", "broker 1", 1),
    }
    assert len(ids) == 5
    assert all(len(one) == 10 for one in ids)


def test_nothing_to_fold_changes_nothing():
    assert fold([], history=verdicts("aaA")) == ()
