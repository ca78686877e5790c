"""The only door to Delta: load a table, replace windows of it, merge rows into it.

References:
    `replaceWhere` deletes what matches the predicate and writes the new rows in one commit, and refuses rows that do
    not match it. Two commits that touch the same rows conflict: the second writer gets a concurrency exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltalake import DeltaTable

from pipeline.errors import StorageConflictError, TableMismatchError
from pipeline.model.window import format_instant
from pipeline.storage.fitting import fit_frame
from pipeline.storage.merging import ATTEMPTS, merge_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.tables import Table

__all__ = ["ensure_tables", "load", "merge", "replace_windows", "table_path"]

_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)


def load(spark: SparkSession, warehouse: Path, table: Table) -> DataFrame:
    """The rows of a table, in the declared columns and order.

    Args:
        spark: A session made by `create_session`.
        warehouse: Folder of all tables.
        table: The declaration.
    """
    return spark.read.format("delta").load(str(table_path(warehouse, table))).select(*table.column_names)


def replace_windows(
    frame: DataFrame, warehouse: Path, table: Table, *, cluster: str, windows: Sequence[TimeWindow], run_id: str
) -> int:
    """Replaces all rows of a cluster in some windows, in one commit; an empty frame clears them.

    Args:
        frame: The new rows; `run_id` and `window_date` are filled in, see `fit_frame`.
        warehouse: Folder of all tables.
        table: The declaration; its `write_mode` is `replace`.
        cluster: Whose rows.
        windows: Which windows; at least one.
        run_id: Run that writes.

    Returns:
        The table's version after the commit.

    Raises:
        TableMismatchError: if the frame does not fit the declaration.
        StorageConflictError: if other writers came first every time it was tried.
        AnalysisException: `DELTA_REPLACE_WHERE_MISMATCH`, if a row lies outside the cluster or the windows.
    """
    if table.write_mode != "replace":
        raise TableMismatchError(f"{table.name} is merged, not replaced")
    fitted = fit_frame(frame, table, run_id=run_id)
    predicate = format_predicate(table, cluster, windows)
    path = table_path(warehouse, table)
    conflict: Exception | None = None
    for _ in range(ATTEMPTS):
        try:
            fitted.write.format("delta").mode("overwrite").option("replaceWhere", predicate).save(str(path))
        except _CONFLICTS as error:
            conflict = error
        else:
            return DeltaTable(path).version()
    raise StorageConflictError(f"{table.name}: other writers came first {ATTEMPTS} times") from conflict


def format_predicate(table: Table, cluster: str, windows: Iterable[TimeWindow]) -> str:
    """Spark SQL that selects a cluster's rows in some windows; adjacent windows become one range.

    >>> from pipeline.model.window import TimeWindow
    >>> from pipeline.tables.gold import BROKER_SHARE
    >>> format_predicate(BROKER_SHARE, "c", [TimeWindow(0, 60_000), TimeWindow(60_000, 120_000)])
    "cluster = 'c' AND ((window_start >= TIMESTAMP '1970-01-01T00:00:00Z' AND window_start < TIMESTAMP '1970-01-01T00:02:00Z'))"
    """
    spans = _joined(windows)
    if not spans:
        raise ValueError("no windows to replace")
    escaped = cluster.replace("\\", "\\\\").replace("'", "\\'")
    ranges = " OR ".join(
        f"(window_start >= TIMESTAMP '{format_instant(start_ms)}' AND window_start < TIMESTAMP '{format_instant(end_ms)}')"
        for start_ms, end_ms in spans
    )
    parts = [f"cluster = '{escaped}'", f"({ranges})"]
    if "window_date" in table.column_names:
        first, last = format_instant(spans[0][0])[:10], format_instant(spans[-1][1] - 1)[:10]
        parts.insert(1, f"window_date >= DATE '{first}' AND window_date <= DATE '{last}'")
    return " AND ".join(parts)


def _joined(windows: Iterable[TimeWindow]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for window in sorted(windows):
        if spans and window.start_ms <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], window.end_ms))
        else:
            spans.append((window.start_ms, window.end_ms))
    return spans


def merge(frame: DataFrame, warehouse: Path, table: Table, *, run_id: str, insert_only: bool = False) -> int:
    """Upserts rows by the declared key; writes nothing where nothing changes.

    Rows that equal the stored ones in every column but `run_id` leave them as they are, so a repeated run makes no
    commit. Goes through delta-rs: these tables are small, and a Spark MERGE costs seconds.

    Args:
        frame: The rows; see `fit_frame`.
        warehouse: Folder of all tables.
        table: The declaration.
        run_id: Run that writes.
        insert_only: Leave stored rows alone, whatever the frame says of them.

    Returns:
        The table's version afterwards.

    Raises:
        TableMismatchError: if the frame does not fit the declaration, or has two rows of one key.
        StorageConflictError: if other writers came first every time it was tried.
    """
    rows = fit_frame(frame, table, run_id=run_id).toArrow()
    return merge_rows(rows, warehouse, table, insert_only=insert_only)
