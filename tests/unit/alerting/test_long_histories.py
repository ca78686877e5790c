"""A run looks at what may still matter, however long the history is. Oracle: the fold over all of it."""

from dataclasses import replace

from pipeline.alerting.incidents import load_open, open_before
from pipeline.jobs import judge_health, raise_incidents
from pipeline.jobs.raise_incidents import load_history
from pipeline.model.incident import IncidentChange
from pipeline.model.verdict import HISTORY_FACTOR, Verdict
from pipeline.rules.rule import RuleMeasure
from pipeline.storage.outbox import mark_delivered, pending
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.incidents import INCIDENTS
from tests.memory import tracing_memory
from tests.unit.alerting.examples import MINUTE_MS, T0_MS
from tests.unit.alerting.test_queue_messages import a_run, change, queue, verdict_of

OLD = 200
"""Minutes of history; a third of the incidents in it never ended."""


def store(run, changes):
    starts = sorted({one.window_start_ms for one in changes})
    windows = [run.window_at(start) for start in starts]
    run.replace(INCIDENTS, changes, windows)
    run.replace(VERDICTS, [verdict_of(one) for one in changes], windows)


def test_open_incidents_are_found_without_those_that_ended(tmp_path):
    run = a_run(tmp_path)
    changes = [
        change(number, state, minute=number - OLD + (state == "resolved"))
        for number in range(0, OLD, 2)
        for state in ("new", "resolved")[: 1 if number % 3 == 0 else 2]
    ]
    store(run, changes)
    found = load_open(run, T0_MS)
    assert len(found) == sum(number % 3 == 0 for number in range(0, OLD, 2))
    assert found == open_before(run.values(IncidentChange, INCIDENTS), T0_MS)


def test_an_incident_that_ends_later_is_open_before(tmp_path):
    run = a_run(tmp_path)
    store(run, [change(1, minute=-3), change(1, "resolved", minute=2)])
    assert [one.last.incident_id for one in load_open(run, T0_MS)] == ["K-00000001"]


def test_an_incident_that_began_before_what_is_read_ends_when_its_subject_is_well(tmp_path):
    run = a_run(tmp_path, notify=False)
    since_ms = T0_MS - 100 * MINUTE_MS
    opened = replace(change(1, minute=-100), rule="below_min_isr", subject="topic orders", since_ms=since_ms)
    store(run, [opened])
    run.replace(VERDICTS, [replace(verdict_of(opened), rule=opened.rule)], [run.window_at(since_ms)])
    ensure_tables(run.warehouse, (RULE_MEASURES,))
    well = {"rule": opened.rule, "subject": opened.subject, "topic": "orders", "value": 0.0, "detail": "none"}
    run.replace(RULE_MEASURES, [RuleMeasure(window_start_ms=T0_MS, **well)], run.windows)
    raise_incidents.run(run, judge_health.judge_further_rules(run, T0_MS))
    changes = sorted(run.values(IncidentChange, INCIDENTS), key=lambda one: one.window_start_ms)
    assert [(one.incident_id, one.state) for one in changes] == [("K-00000001", "new"), ("K-00000001", "resolved")]
    assert load_open(run, T0_MS + MINUTE_MS) == ()


def test_verdicts_are_read_as_far_back_as_they_count(tmp_path):
    run = a_run(tmp_path)
    store(run, [change(number, minute=-number) for number in range(1, OLD)])
    longest = max(run.cluster.gate.n, *(rule.n for rule in run.cluster.rules.values()))
    recent = load_history(run, T0_MS, ())
    assert len(recent) == HISTORY_FACTOR * longest < OLD
    everything = [one for one in run.values(Verdict, VERDICTS) if one.window_start_ms < T0_MS]
    assert set(recent) < set(everything)
    since_ms = T0_MS - (OLD - 10) * MINUTE_MS
    on_since = replace(verdict_of(change(7)), window_start_ms=since_ms)
    window = run.window_at(since_ms)
    run.replace(VERDICTS, [*run.values(Verdict, VERDICTS, (window,)), on_since], (window,))
    found = load_history(run, T0_MS, [replace(change(7, minute=-5), since_ms=since_ms)])
    assert min(one.window_start_ms for one in found) == since_ms
    assert set(found) == {*recent, on_since}  # of others' verdicts none but those that count


def test_what_was_delivered_is_not_looked_at(tmp_path):
    run = a_run(tmp_path)
    queue(run, change(1), change(2))
    one, other = pending(run.warehouse)
    mark_delivered(run.warehouse, one.message_id, delivered_to="x", now_ms=T0_MS)
    assert [message.message_id for message in pending(run.warehouse)] == [other.message_id]


def test_to_judge_a_window_of_long_ago_takes_no_memory_of_all_that_was_measured_since(tmp_path):
    """Each window that was judged later is judged again: a run of a year ago took more memory than a machine has."""
    run = a_run(tmp_path, notify=False)
    ensure_tables(run.warehouse, (RULE_MEASURES, INCIDENTS))
    peaks = []
    for minutes in (range(60), range(60, 1_200)):
        measures = [
            RuleMeasure(T0_MS + minute * MINUTE_MS, "below_min_isr", f"topic t{number}", 0.0, "none", f"t{number}")
            for minute in minutes
            for number in range(30)
        ]
        run.replace(RULE_MEASURES, measures, [run.window_at(T0_MS + minute * MINUTE_MS) for minute in minutes])
        del measures
        with tracing_memory() as read_peak:
            assert judge_health.judge_further_rules(run, T0_MS) == ()
            peaks.append(read_peak())
    assert peaks[1] < 6 * peaks[0]  # with all in memory it is 20 times; what else this worker runs counts, too
