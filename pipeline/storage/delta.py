"""Tables as DataFrames: loaded, replaced window by window, and rows added whose key is missing.

Spark's tasks write the data files, and delta-rs makes the one commit, see `data_files`: the same on a disk and in an object
store, on classic Spark, behind Spark Connect and on Sail. Spark reads tables with Delta's own reader where it has one.

References:
    Delta 4.3's log store for S3, `S3SingleDriverLogStore`, overwrites a version that another writer put there since it looked.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.config.storage import Folder
from pipeline.engine import reads_files_in_tasks
from pipeline.errors import StorageConflictError
from pipeline.model.window import TimeWindow
from pipeline.stages import map_tasks
from pipeline.storage.data_files import append_files
from pipeline.storage.durability import find_version
from pipeline.storage.file_writer import Scope
from pipeline.storage.files import iter_dataset, list_data_files
from pipeline.storage.frames import arrow_schema
from pipeline.storage.predicates import format_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 20


def load(spark: SparkSession, warehouse: Folder, table: Table) -> DataFrame:
    """The rows of a table, in the declared columns and order."""
    return spark.read.format("delta").load(str(table_path(warehouse, table))).select(*table.column_names)


def load_windows(
    spark: SparkSession, warehouse: Folder, table: Table, cluster: str, windows: Sequence[TimeWindow]
) -> DataFrame:
    """A cluster's rows of some windows, likewise; of a table partitioned by cluster and window date."""
    if not reads_files_in_tasks(spark, warehouse):
        return load(spark, warehouse, table).where(format_predicate(table, cluster, windows))
    paths = list_data_files(warehouse, table, cluster, windows)
    return map_tasks(
        spark, paths, partial(_read_windows, warehouse, table, Scope.of(cluster, windows)), arrow_schema(table)
    )


def _read_windows(warehouse: Folder, table: Table, scope: Scope, path: str) -> Iterator[pa.Table]:
    """Rows of one file of a table that is partitioned by cluster and window date."""
    stored = pa.schema([field for field in arrow_schema(table) if field.name not in table.partitioned_by])
    for batch in iter_dataset(warehouse, path, stored):
        rows = pa.Table.from_batches([batch])
        rows = rows.filter(scope.holds(rows))
        dates = rows["window_start"].cast(pa.date32())
        rows = rows.append_column("cluster", pa.repeat(scope.cluster, len(rows))).append_column("window_date", dates)
        yield rows.select(table.column_names)


def insert_missing(
    spark: SparkSession,
    frame: DataFrame,
    warehouse: Folder,
    table: Table,
    *,
    cluster: str,
    windows: Sequence[TimeWindow],
) -> int:
    """Adds a cluster's rows whose key is not stored yet; returns the table's version after the commit.

    `frame`: rows in the declared columns, one a key; of a table partitioned by cluster and `window_date`.
    `windows`: those whose dates the rows have.

    Raises:
        TableMismatchError: a row is NULL where it must not be.
        StorageConflictError: if other writers came first every time it was tried.
    """
    path = table_path(warehouse, table)
    for _ in range(_ATTEMPTS):
        version = find_version(path)
        stored = _load_keys(spark, warehouse, table, cluster, windows)
        new = frame.join(stored, on=list(table.key), how="left_anti").select(*table.column_names)
        if append_files(new, warehouse, table, version):
            return find_version(path)
    raise StorageConflictError(f"{table.name}: other writers committed first {_ATTEMPTS} times")


def _load_keys(
    spark: SparkSession, warehouse: Folder, table: Table, cluster: str, windows: Sequence[TimeWindow]
) -> DataFrame:
    """Keys of the rows of some windows' dates."""
    if not reads_files_in_tasks(spark, warehouse):
        return load(spark, warehouse, table).where(format_predicate(table, cluster, windows)).select(*table.key)
    files = list_data_files(warehouse, table, cluster, windows)
    keys = pa.schema([arrow_schema(table).field(name) for name in table.key])
    return map_tasks(spark, files, partial(_read_keys, warehouse, keys, cluster), keys)


def _read_keys(warehouse: Folder, keys: pa.Schema, cluster: str, path: str) -> Iterator[pa.Table]:
    # all writers name a file's folder by its date, `window_date=2026-11-21`
    date = next(part.removeprefix("window_date=") for part in path.split("/") if part.startswith("window_date="))
    partition = {"cluster": cluster, "window_date": dt.date.fromisoformat(date)}
    stored = pa.schema([field for field in keys if field.name not in partition])
    for batch in iter_dataset(warehouse, path, stored):
        columns = {
            name: pa.repeat(pa.scalar(value, keys.field(name).type), len(batch)) for name, value in partition.items()
        }
        columns |= {name: batch[name] for name in stored.names}
        yield pa.table([columns[name] for name in keys.names], schema=keys)
