"""Rows of a run's windows, replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.storage.delta import replace_windows
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import replace_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipeline.model.window import TimeWindow
    from pipeline.runs import RunContext
    from pipeline.tables import Table


def replace_fresh(
    run: RunContext, table: Table, frame: DataFrame, windows: tuple[TimeWindow, ...], row_count: int | None = None
) -> int:
    """Replaces a table's rows in some of the run's windows; see `replace_windows`."""
    starts = [window.start_ms for window in windows]
    within = frame.where(F.unix_millis("window_start").isin(starts)) if len(windows) < len(run.windows) else frame
    return replace_windows(
        within,
        run.warehouse,
        table,
        cluster=run.cluster_name,
        windows=windows,
        run_id=run.run_id,
        row_count=row_count,
    )


def clear(run: RunContext, table: Table, windows: tuple[TimeWindow, ...]) -> int:
    """Leaves a table without rows in some windows."""
    nothing = rows_of(table, (), run_id=run.run_id)
    return replace_rows(nothing, run.warehouse, table, cluster=run.cluster_name, windows=windows)
