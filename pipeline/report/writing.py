"""Reports on disk: one for each window that a message names, and for the newest; old ones are deleted."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.config.sections import report_name
from pipeline.durable_files import replace_file
from pipeline.errors import PipelineError
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.report.page import gather_report, render_report
from pipeline.runs import RunContext
from pipeline.storage.outbox import pending
from pipeline.tables.incidents import INCIDENTS

_MOST_REPORTS = 24
"""A backfill writes reports of its newest windows only, and those that messages name: any other is `partition-health report --window`."""


def write_report(html: str, path: Path) -> None:
    """Writes a page as a whole; a reader finds the old one or the new one; `OSError` if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, html.encode(), mode=0o644)


def write_reports(run: RunContext, windows: Sequence[TimeWindow]) -> tuple[str, ...]:
    """Writes the report of the newest judged window and of those in which an incident changed, and deletes expired ones.

    A message may be about a window of another run, as when windows came late: what it names is there before it leaves.
    Returns what people should know: where the newest is, or why there is none. A report that fails stops no run.
    """
    starts_ms = {start_ms for (start_ms,) in run.tuples(INCIDENTS, windows, "window_start_ms")}
    newest = sorted(starts_ms | {max(windows).start_ms})[-_MOST_REPORTS:]
    path = None
    try:
        for start_ms in sorted({*newest, *list_missing(run)}):
            report = gather_report(
                run, until_ms=start_ms + run.window_ms, length_ms=milliseconds_of(run.config.report.period)
            )
            path = run.config.report_path(run.cluster_name, report.window_start_ms)
            write_report(render_report([report], now_ms=run.now_ms, command=run.config.command("sql")), path)
        expired_ms = max(0, max(windows).end_ms - milliseconds_of(run.config.report.keep))
        oldest = run.config.report_path(run.cluster_name, expired_ms)
        for old in oldest.parent.glob(report_name(run.cluster_name, "20??-??-??T??-??Z")):
            if old.name < oldest.name:  # names of one cluster sort by their windows
                old.unlink(missing_ok=True)
    except (OSError, PipelineError) as error:
        return (f"the report could not be written: {error}",)
    return (f"report {path}",)


def list_missing(run: RunContext) -> list[int]:
    """Starts of windows that waiting messages are about, and whose report is not there."""
    waiting = {one.window_start_ms for one in pending(run.warehouse) if one.cluster == run.cluster_name}
    return sorted(ms for ms in waiting if not run.config.report_path(run.cluster_name, ms).exists())
