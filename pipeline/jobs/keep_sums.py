"""Drops what a window was summed up from (`sums_only`), once it is replayed and judged, and the next one compared with its keys."""

from collections.abc import Collection

from pipeline.config.sections import SUMMED_UP
from pipeline.model.window import END_OF_TIME_MS, TimeWindow, format_instant
from pipeline.runs import CATCH_UP_MS, JobReport, RunContext
from pipeline.storage.maintenance import drop_dates
from pipeline.storage.predicates import format_datafusion_text
from pipeline.tables.keys import EXPIRING
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS


def held_windows(run: RunContext) -> tuple[TimeWindow, ...]:
    """Windows that jobs may still take up and that have rows to drop; none unless `sums_only` is set."""
    if not run.config.sums_only:
        return ()
    return tuple(map(run.window_at, sorted(run.starts_in(SUMMED_UP, (_reach(run),)))))


def run(run: RunContext, judged: Collection[TimeWindow]) -> JobReport:
    """Drops rows of windows that are over; `judged`: those of `held_windows` judged from what is stored of them now."""
    if not judged:
        return JobReport()
    nothing_ms = {window.start_ms for window in judged} - run.starts_to_replay(tuple(judged))
    replayed_ms = run.starts_in((HASH_VERDICTS, BACK_TESTS), (_reach(run),)) | nothing_ms
    over = sorted(window for window in judged if {window.start_ms, window.end_ms} <= replayed_ms)
    if not over:
        return JobReport()
    for table in SUMMED_UP:
        run.replace(table, (), over)
    last = format_instant(min([window.start_ms for window in held_windows(run)], default=over[-1].end_ms))[:10]
    for table in EXPIRING:
        drop_dates(run.warehouse, table, last, where=f"cluster = {format_datafusion_text(run.cluster_name)}")
    return JobReport(notes=(f"sums_only: rows that {len(over)} windows were summed up from dropped",))


def _reach(run: RunContext) -> TimeWindow:
    return TimeWindow(max(0, run.span.start_ms - CATCH_UP_MS), END_OF_TIME_MS)
