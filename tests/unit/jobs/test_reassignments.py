"""Windows in which a reassignment runs are not judged for shares. Oracle: the counts written into the table."""

import pytest

from pipeline.config.rules import RuleSettings, fill_rules
from pipeline.jobs.judge_health import find_reassignments
from pipeline.model.window import TimeWindow, instant_of
from pipeline.rules import RULES
from pipeline.rules.rule import RuleInput
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.tables.health import TOPIC_HEALTH
from pipeline.verdicts.rules import judge_rules
from tests.table_rows import needed_row
from tests.unit.jobs.one_cluster import write_config

HOUR_MS = 3_600_000
START_MS = 1_795_251_600_000


def topic_row(hour, topic, reassigning_count):
    return needed_row(TOPIC_HEALTH, START_MS + hour * HOUR_MS, topic=topic, reassigning_count=reassigning_count)


def test_windows_with_a_running_reassignment_are_held_and_say_so(tmp_path):
    config = write_config(tmp_path)
    windows = [TimeWindow(START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS) for hour in range(3)]
    counts = [(0, "a", 0), (1, "a", 2), (1, "b", 3), (2, "a", 1), (2, "b", 0)]
    rows = rows_of(TOPIC_HEALTH, (topic_row(*count) for count in counts), run_id="test")
    replace_rows(rows, config.warehouse, TOPIC_HEALTH, cluster="lab", windows=windows)
    (run,) = plan_runs(config, TimeWindow(START_MS, windows[-1].end_ms), run_id="test", now_ms=windows[-1].end_ms)
    skipped = find_reassignments(run, windows)
    assert {(start_ms - START_MS) // HOUR_MS: (skip.kind, skip.reason) for start_ms, skip in skipped.items()} == {
        1: ("incomplete", "a reassignment of 5 partitions was running"),
        2: ("incomplete", "a reassignment of 1 partition was running"),
    }


def measure(rows, hours, *, window_ms=HOUR_MS):
    """The rule's measures of windows that begin at some hours."""
    starts_ms = [START_MS + hour * HOUR_MS for hour in hours]

    def load(table, history):
        first, last = instant_of(starts_ms[0] - history * window_ms), instant_of(starts_ms[-1])
        return rows_of(table, [row for row in rows if first <= row["window_start"] <= last], run_id="test")

    given = RuleInput(load=load, starts_ms=starts_ms, window_ms=window_ms, disk_bytes={})
    return list(RULES["reassignment_hours"].measure("reassignment_hours", given))


@pytest.mark.parametrize(
    ("hours", "fails_at"),
    [
        ({"a": range(1, 9), "b": range(4)}, 7),  # b has ended before
        ({"a": range(9)}, 6),
        ({"a": [0, 1, 2, 3, 5, 6, 7, 8]}, None),  # it ended, and began again
        ({"a": range(0, 9, 2), "b": range(1, 9, 2)}, None),  # one after the other
    ],
)
def test_a_reassignment_that_goes_on_for_hours_is_an_incident(hours, fails_at):
    """It turned the judgement of shares off for days, and nobody was told."""
    rows = [topic_row(hour, topic, int(hour in hours[topic])) for topic in hours for hour in range(9)]
    measures = measure(rows, range(9))
    settings = {name: RuleSettings(**rule) for name, rule in fill_rules({}).items()}
    verdicts = judge_rules(measures, settings, chance_level=0.001)
    assert {one.subject for one in verdicts} <= {"cluster"}
    failed = [(one.window_start_ms - START_MS) // HOUR_MS for one in verdicts if one.verdict == "fail"]
    assert min(failed, default=None) == fails_at


def test_two_short_reassignments_a_day_apart_are_none_of_a_day():
    rows = [topic_row(24 * day, "a", 1) for day in range(3)]
    measures = measure(rows, (0, 24, 48), window_ms=24 * HOUR_MS)
    assert [(one.value, one.is_enough) for one in measures] == [(0, True), (24, False), (24, True)]


def test_windows_of_a_day_that_are_judged_one_by_one_see_a_reassignment_of_days():
    """Of each run only the window before was known, in which another one might have run: no alert for good."""
    rows = [topic_row(24 * day, "a", 1) for day in range(4)]
    measures = [one for day in range(4) for one in measure(rows, (24 * day,), window_ms=24 * HOUR_MS)]
    assert [(one.value, one.is_enough) for one in measures] == [(0, True), (24, False), (24, True), (24, True)]


def test_the_hours_are_named_and_counted_for_a_day_at_most():
    rows = [topic_row(hour, topic, 3 * (hour < 30)) for hour in (*range(30), 99) for topic in "ab"]
    measures = {(one.window_start_ms - START_MS) // HOUR_MS: one for one in measure(rows, (2, 29, 99))}
    two, day, none = (measures[hour] for hour in (2, 29, 99))
    assert (two.value, day.value, none.value) == (2, 24, 0)
    assert two.detail == "6 partitions are being reassigned, of a for 2 h or longer, and no share is judged"
    assert none.detail == "no partition is being reassigned"
