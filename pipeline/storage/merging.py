"""Upserts through delta-rs: small tables, no JVM, milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from pipeline.errors import StorageConflictError, TableMismatchError
from pipeline.storage.tables_on_disk import table_path

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline.tables import Table

ATTEMPTS = 3


def merge_rows(rows: pa.Table, warehouse: Path, table: Table, *, insert_only: bool = False) -> int:
    """Upserts rows by the declared key; makes no commit where nothing changes.

    Args:
        rows: The rows, in the declared columns.
        warehouse: Folder of all tables.
        table: The declaration.
        insert_only: Leave stored rows alone, whatever the new ones say.

    Returns:
        The table's version afterwards.

    Raises:
        TableMismatchError: if two rows have one key.
        StorageConflictError: if other writers came first every time it was tried.
    """
    _refuse_repeated_keys(rows, table)
    path = table_path(warehouse, table)
    if rows.num_rows == 0:
        return DeltaTable(path).version()
    conflict: Exception | None = None
    for _ in range(ATTEMPTS):
        on_disk = DeltaTable(path)
        try:
            _merge(on_disk, rows, table, insert_only=insert_only)
        except CommitFailedError as error:
            conflict = error
        else:
            return on_disk.version()
    raise StorageConflictError(f"{table.name}: other writers came first {ATTEMPTS} times") from conflict


def _merge(on_disk: DeltaTable, rows: pa.Table, table: Table, *, insert_only: bool) -> None:
    same_key = " AND ".join(f"stored.{name} = new.{name}" for name in table.key)
    merger = on_disk.merge(rows, same_key, source_alias="new", target_alias="stored")
    if not insert_only:
        compared = [name for name in table.column_names if name not in (*table.key, "run_id")]
        changed = " OR ".join(f"(stored.{name} IS DISTINCT FROM new.{name})" for name in compared)
        merger = merger.when_matched_update_all(predicate=changed)
    merger.when_not_matched_insert_all().execute()


def _refuse_repeated_keys(rows: pa.Table, table: Table) -> None:
    counts = rows.group_by(list(table.key)).aggregate([([], "count_all")])
    repeated = counts.filter(pa.compute.greater(counts["count_all"], 1)).slice(0, 1).to_pylist()
    if repeated:
        raise TableMismatchError(f"two rows of one key in {table.name}: {repeated[0]}")
