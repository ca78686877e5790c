"""The only door to Delta: load a table, replace windows of it, merge rows into it.

References:
    `replaceWhere` deletes what matches the predicate and writes the new rows in one commit, and refuses rows that do
    not match it. Two commits that touch the same rows conflict: the second writer gets a concurrency exception.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
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
from pyspark.sql import functions as F

from pipeline.errors import StorageConflictError, TableMismatchError
from pipeline.storage.fitting import fit_frame
from pipeline.storage.predicates import format_predicate
from pipeline.storage.rows import load_rows, merge_rows, replace_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.tables import Table

__all__ = [
    "ensure_tables",
    "format_predicate",
    "load",
    "load_rows",
    "merge",
    "merge_in_parts",
    "replace_windows",
    "table_path",
]

_ATTEMPTS = 3
FEW_ROWS = 1_000_000
"""Rows of a large table that one process may hold at once: some 200 MB."""

_CONFLICTS = (  # they share no base class of their own
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
    frame: DataFrame,
    warehouse: Path,
    table: Table,
    *,
    cluster: str,
    windows: Sequence[TimeWindow],
    run_id: str,
    row_count: int | None = None,
) -> int:
    """Replaces all rows of a cluster in some windows, in one commit; an empty frame clears them.

    Rows of large tables are written by Spark, unless they are known to be few; those of the others are collected and
    written by delta-rs, in a tenth of the time.

    Args:
        frame: The new rows; `run_id` and `window_date` are filled in, see `fit_frame`.
        warehouse: Folder of all tables.
        table: The declaration; its `write_mode` is `replace`.
        cluster: Whose rows.
        windows: Which windows; at least one.
        run_id: Run that writes.
        row_count: How many rows there are at most, where that is known before.

    Returns:
        The table's version after the commit.

    Raises:
        TableMismatchError: if the frame does not fit the declaration, or a row lies outside the cluster and windows.
        StorageConflictError: if other writers came first every time it was tried.
        AnalysisException: `DELTA_REPLACE_WHERE_MISMATCH`, the same mistake in a large table.
    """
    if table.write_mode != "replace":
        raise TableMismatchError(f"{table.name} is merged, not replaced")
    fitted = fit_frame(frame, table, run_id=run_id)
    if not table.is_large or (row_count is not None and row_count <= FEW_ROWS):
        rows_at_hand = _collect(fitted, windows, row_count or 0)
        return replace_rows(rows_at_hand, warehouse, table, cluster=cluster, windows=windows)
    # One file per date below the target size, whatever number of Spark partitions the rows come in.
    rows = fitted.hint("rebalance", "window_date")
    predicate = format_predicate(table, cluster, windows)
    path = table_path(warehouse, table)
    conflict: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            rows.write.format("delta").mode("overwrite").option("replaceWhere", predicate).save(str(path))
        except _CONFLICTS as error:
            conflict = error
        else:
            return DeltaTable(path).version()
    raise StorageConflictError(f"{table.name}: other writers came first {_ATTEMPTS} times") from conflict


def _collect(frame: DataFrame, windows: Sequence[TimeWindow], row_count: int) -> pa.Table:
    """Rows, some windows at a time: what Spark collects lies in its driver's heap until the last row is there."""
    parts = min(len(windows), max(1, -(-row_count // FEW_ROWS)))
    if parts == 1:
        return frame.toArrow()
    starts = [[window.start_ms for window in windows[part::parts]] for part in range(1, parts)]
    in_part = [F.coalesce(F.unix_millis("window_start").isin(found), F.lit(False)) for found in starts]  # noqa: FBT003
    others = reduce(lambda left, right: left & right, (~part for part in in_part))  # and rows that lie in no window
    return pa.concat_tables([frame.where(part).toArrow() for part in (others, *in_part)])


def merge(frame: DataFrame, warehouse: Path, table: Table, *, run_id: str, insert_only: bool = False) -> int:
    """Upserts rows by the declared key; writes nothing where nothing changes.

    Rows that equal the stored ones in every column but `run_id` leave them as they are, so that a repeated run makes
    no commit.

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
    return merge_rows(fit_frame(frame, table, run_id=run_id).toArrow(), warehouse, table, insert_only=insert_only)


def merge_in_parts(frame: DataFrame, warehouse: Path, table: Table, *, run_id: str, by: str, row_count: int) -> int:
    """Adds the rows whose key is not stored yet; many rows a part at a time, so that no process holds them all.

    Args:
        frame: The rows; see `fit_frame`.
        warehouse: Folder of all tables.
        table: The declaration.
        run_id: Run that writes.
        by: Column that tells the parts apart: it should have many values.
        row_count: How many rows there are at most.

    Returns:
        The table's version afterwards.

    Raises:
        TableMismatchError: if the frame does not fit the declaration, or has two rows of one key.
        StorageConflictError: if other writers came first every time it was tried.
    """
    parts = max(1, -(-row_count // FEW_ROWS))
    version = 0
    for part in range(parts):
        mine = frame if parts == 1 else frame.where(F.pmod(F.crc32(F.col(by).cast("binary")), F.lit(parts)) == part)
        version = merge(mine, warehouse, table, run_id=run_id, insert_only=True)
    return version
