"""Rows merged into Delta: added where their key is missing, or in place of stored ones.

Spark's tasks read and write the data files, and delta-rs makes the one commit, see `data_files`: the same on a disk and
in an object store, on classic Spark, behind Spark Connect and on Sail. Delta 4.3's log store for S3,
`S3SingleDriverLogStore`, would overwrite a version that another writer put there since it looked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable
from pyspark.sql import functions as F

from pipeline.config.storage import Folder
from pipeline.errors import StorageConflictError
from pipeline.model.window import END_OF_TIME_MS, TimeWindow
from pipeline.storage.data_files import append_files, commit_once, list_touched, load_stored, read_files, write_files
from pipeline.storage.durability import find_version, open_table
from pipeline.storage.file_writer import FILE, Scope
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ATTEMPTS = 20


def insert_missing(
    spark: SparkSession,
    frame: DataFrame,
    warehouse: Folder,
    table: Table,
    *,
    cluster: str,
    windows: Sequence[TimeWindow],
    run_id: str,
) -> int:
    """Adds a cluster's rows whose key is not stored yet; returns the table's version after the commit.

    `frame`: rows in the declared columns, one a key, of the dates of `windows` and the run `run_id`; the table is
    partitioned by cluster and `window_date`. Errors as of `data_files.replace_windows`.
    """
    path = table_path(warehouse, table)
    for _ in range(_ATTEMPTS):
        version = find_version(path)
        stored = load_stored(spark, warehouse, table, Scope.of(cluster, windows), table.key)
        new = frame.join(stored, on=list(table.key), how="left_anti").select(*table.column_names)
        if append_files(new, warehouse, table, version, (cluster, run_id)):
            return find_version(path)
    raise StorageConflictError(f"{table.name}: other writers committed first {_ATTEMPTS} times")


def merge_frame(
    spark: SparkSession, frame: DataFrame, warehouse: Folder, table: Table, cluster: str, *, replacing: str
) -> int:
    """Adds a cluster's rows whose key is not stored; those with `replacing` true replace others that differ.

    `frame`: rows in the declared columns, one a key; the table is partitioned by cluster alone. Makes no commit where
    nothing changes; gives the table's version, errors as of `data_files.replace_windows`.
    """
    path, scope = table_path(warehouse, table), Scope.of(cluster, [TimeWindow(0, END_OF_TIME_MS)])
    for _ in range(_ATTEMPTS):
        stored = list_touched(open_table(path), table, scope)
        removed: list[dict[str, Any]] = []
        if stored:
            both, is_new = _join_stored(frame, read_files(spark, stored, warehouse, table), table, replacing)
            found = {*both.where(is_new).select(f"old_{FILE}").distinct().toArrow()[0].to_pylist()}
            removed = [file for file in stored if file["path"] in found]
            is_kept = F.col(f"old_{FILE}").isin([file["path"] for file in removed]) if removed else F.lit(0) == 1
            chosen = (F.when(is_new, F.col(n)).otherwise(F.col(f"old_{n}")).alias(n) for n in table.column_names)
            changed = both.where(is_new | is_kept).select(*chosen) if found else None
        else:
            changed = frame
        written = [] if changed is None else write_files(changed, warehouse, table)
        if commit_once(warehouse, table, written, removed, partial(_is_as_read, table, scope, stored)):
            return open_table(path).version()
    raise StorageConflictError(f"{table.name}: other writers committed first {_ATTEMPTS} times")


def _is_as_read(table: Table, scope: Scope, files: Sequence[Mapping[str, Any]], on_disk: DeltaTable) -> bool:
    return list_touched(on_disk, table, scope) == files


def _join_stored(frame: DataFrame, stored: DataFrame, table: Table, replacing: str) -> tuple[DataFrame, Column]:
    """Rows beside those stored, whose columns begin with `old_`, and which of them are added or replace a stored one."""
    old = stored.toDF(*(f"old_{name}" for name in stored.columns))
    both = frame.join(old, [F.col(name) == F.col(f"old_{name}") for name in table.key], "full")
    compared = [name for name in table.column_names if name not in (*table.key, "run_id")]
    differs = reduce(or_, (~F.col(name).eqNullSafe(F.col(f"old_{name}")) for name in compared))
    is_stored, is_given = (F.col(prefix + table.key[0]).isNotNull() for prefix in ("old_", ""))
    return both, is_given & (~is_stored | (F.col(replacing) & differs))
