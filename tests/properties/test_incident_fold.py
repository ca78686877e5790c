"""Laws of the incident fold. Oracle: folding a range at once, and a state machine that walks the windows by hand."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pipeline.alerting.incidents import IncidentPolicy, fold_verdicts, open_before
from tests.incident_rows import new_verdict

SUBJECTS = ("broker 1", "broker 2")
RESOLVES_AT, LIMIT, WORSENS_BY, REPEAT_MS = 1.1, 1.2, 1.25, 5
READINGS = st.sampled_from([None, 1.0, 1.05, 1.15, 1.3, 1.6, 2.1])
"""Share ratios; None is a window that was not judged."""


@st.composite
def traffic(draw):
    """Verdicts of two brokers over up to 24 windows, some windows missing, judged k of n as the rule judges them."""
    k = draw(st.integers(1, 4))
    n = draw(st.integers(k, 6))
    windows = draw(st.lists(st.tuples(READINGS, READINGS), max_size=24))
    present = draw(st.lists(st.booleans() | st.just(value=True), min_size=len(windows), max_size=len(windows)))
    above = {subject: [] for subject in SUBJECTS}
    verdicts = []
    for start_ms, (values, is_present) in enumerate(zip(windows, present, strict=True)):
        for subject, value in zip(SUBJECTS, values, strict=True):
            if not is_present:
                continue
            above[subject].append(value is not None and value >= LIMIT)
            count = sum(above[subject][-n:])
            kind = "not_enough_traffic" if value is None else "ok"
            if above[subject][-1]:
                kind = "fail" if count >= k else "warn"
            of = {"value": value, "limit_value": LIMIT, "verdict": kind}
            judged = {"is_above": above[subject][-1], "above_count": count}
            verdicts.append(new_verdict(start_ms, subject=subject, **of, **judged))
    return k, n, verdicts


def fold(verdicts, k, *, open_incidents=(), history=()):
    return fold_verdicts(
        verdicts,
        cluster="demo",
        policy_of=lambda _: IncidentPolicy(resolves_at=RESOLVES_AT, k=k, repeat_ms=REPEAT_MS),
        open_incidents=open_incidents,
        history=history,
    )


@given(traffic(), st.sets(st.integers(0, 24)))
def test_runs_over_parts_tell_what_one_run_over_all_tells(case, cuts):
    """Each run sees the stored changes and the least history the fold asks for: n-1 windows, and the open incidents'."""
    k, n, verdicts = case
    starts = sorted({verdict.window_start_ms for verdict in verdicts})
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(starts)), len(starts)]
    stored = []
    for first, last in itertools.pairwise(edges):
        part = starts[first:last]
        if not part:
            continue
        opened = open_before(stored, part[0])
        reach_ms = min([starts[max(0, first - (n - 1))], *(incident.last.since_ms for incident in opened)])
        history = [v for v in verdicts if reach_ms <= v.window_start_ms < part[0]]
        stored += fold([v for v in verdicts if v.window_start_ms in part], k, open_incidents=opened, history=history)

    assert tuple(stored) == fold(verdicts, k)


@given(traffic(), st.integers(0, 23))
def test_folding_a_tail_again_replaces_it_with_itself(case, first):
    k, _, verdicts = case
    whole = fold(verdicts, k)
    again = fold(
        [v for v in verdicts if v.window_start_ms >= first],
        k,
        open_incidents=open_before(whole, first),
        history=[v for v in verdicts if v.window_start_ms < first],
    )

    assert again == tuple(change for change in whole if change.window_start_ms >= first)


@given(traffic())
def test_states_of_a_subject_alternate_and_ids_are_told_once_each(case):
    k, _, verdicts = case
    changes = fold(verdicts, k)
    for subject in SUBJECTS:
        states = [change.state for change in changes if change.subject == subject]
        ends = [state for state in states if state in {"new", "resolved"}]
        assert states[:1] in ([], ["new"])
        assert ends == ["new", "resolved"] * (len(ends) // 2) + ["new"] * (len(ends) % 2)
        assert all(state == "new" for before, state in itertools.pairwise(states) if before == "resolved")
    assert len({(change.incident_id, change.window_start_ms) for change in changes}) == len(changes)


@given(traffic())
def test_states_are_those_of_a_plain_state_machine(case):
    k, _, verdicts = case
    changes = {(change.subject, change.window_start_ms): change.state for change in fold(verdicts, k)}
    for subject in SUBJECTS:
        is_open, calm, told_ms, told_value = False, 0, 0, 0.0
        for verdict in (v for v in verdicts if v.subject == subject):
            expected = None
            if not is_open and verdict.verdict == "fail":
                is_open, calm, told_value, expected = True, 0, verdict.value, "new"
            elif is_open and verdict.value is not None:
                calm = calm + 1 if verdict.value < RESOLVES_AT else 0
                if calm == k:
                    is_open, expected = False, "resolved"
                elif calm == 0 and verdict.is_above and verdict.value >= WORSENS_BY * told_value:
                    expected = "worse"
                elif calm == 0 and verdict.window_start_ms - told_ms >= REPEAT_MS:
                    expected = "continuing"
            if expected is not None:
                told_ms, told_value = verdict.window_start_ms, max(told_value, verdict.value)
            assert changes.get((subject, verdict.window_start_ms)) == expected
