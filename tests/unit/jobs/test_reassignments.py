"""Windows in which a reassignment runs are not judged for shares. Oracle: the counts written into the table."""

from pipeline.config.rules import fill_rules
from pipeline.jobs.judge_health import find_reassignments
from pipeline.model.window import TimeWindow, instant_of
from pipeline.rules import RULES
from pipeline.rules.rule import RuleInput
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.tables.health import TOPIC_HEALTH
from pipeline.verdicts.rules import judge_rules
from tests.unit.jobs.one_cluster import write_config

HOUR_MS = 3_600_000
START_MS = 1_795_251_600_000
_ZERO = {"bigint": 0, "string": "", "double": None}


def topic_row(hour, topic, reassigning_count):
    row = {column.name: _ZERO.get(column.type) for column in TOPIC_HEALTH.columns if column.name != "run_id"}
    own = {"cluster": "lab", "window_start": instant_of(START_MS + hour * HOUR_MS), "topic": topic}
    return {**row, **own, "reassigning_count": reassigning_count}


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


def test_a_reassignment_that_hangs_is_an_incident_although_no_share_is_judged():
    """It turned shares off for days, and nobody was told."""
    counts = dict.fromkeys(range(1, 6), (2, 3)) | {0: (0, 0), 6: (0, 0)}
    rows = [topic_row(hour, topic, n) for hour, of in counts.items() for topic, n in zip("ab", of, strict=True)]
    given = RuleInput(
        load=lambda table, _: rows_of(table, rows, run_id="test"),
        starts_ms=[START_MS + hour * HOUR_MS for hour in counts],
        window_ms=HOUR_MS,
        disk_bytes={},
    )
    measures = [*RULES["reassigning_partitions"].measure("reassigning_partitions", given)]
    verdicts = judge_rules(measures, fill_rules({}), chance_level=0.001)
    assert {one.subject for one in verdicts} == {"cluster"}
    found = {(one.window_start_ms - START_MS) // HOUR_MS: one.verdict for one in verdicts}
    assert found == {1: "warn", 2: "warn", 3: "warn", 4: "fail", 5: "fail", 6: "ok"}
    assert verdicts[0].reason.startswith("5 partitions of 2 topics are being reassigned")
