"""Which windows a job takes up by itself. Oracle: worked out by hand."""

from __future__ import annotations

from pipeline.jobs import score_health
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows
from pipeline.tables.bronze import WINDOW_STATUS
from tests.unit.jobs.one_cluster import write_config

START_MS = 1_795_251_600_000


def status_row(window):
    return {
        "cluster": "lab",
        "window_start": instant_of(window.start_ms),
        "window_end": instant_of(window.end_ms),
        "source": "log_directories",
        "arrived_count": 1,
        "row_count": 1,
        "problem_count": 0,
        "as_of": instant_of(window.end_ms),
        "source_expired": False,
        "is_trusted": True,
        "table_versions": {},
    }


def test_trusted_windows_of_a_month_are_taken_up_and_older_ones_where_a_run_names_them(tmp_path):
    config = write_config(tmp_path)
    older, late, own, later = (
        TimeWindow(start_ms, start_ms + HOUR_MS)
        for start_ms in (START_MS - 32 * DAY_MS, START_MS - 30 * DAY_MS, START_MS, START_MS + HOUR_MS)
    )
    windows = (older, late, own, later)
    rows = rows_of(WINDOW_STATUS, map(status_row, windows), run_id="r")
    replace_rows(rows, config.warehouse, WINDOW_STATUS, cluster="lab", windows=windows)

    def pending(*spans):
        (run,) = plan_runs(config, TimeWindow(spans[0].start_ms, spans[-1].end_ms), run_id="r", now_ms=later.end_ms)
        return score_health.pending_windows(run)

    assert pending(own) == (late, own, later)
    assert pending(older) == windows
