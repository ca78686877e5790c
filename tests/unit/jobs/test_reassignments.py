"""Windows in which a reassignment runs are not judged for shares. Oracle: the counts written into the table."""

from pipeline.jobs.judge_health import find_reassignments
from pipeline.model.window import TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.tables.health import TOPIC_HEALTH
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
