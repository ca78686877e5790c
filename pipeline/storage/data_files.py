"""Delta commits of files that tasks wrote: the driver makes one conditional commit, refused if anybody else committed meanwhile.

A file that also holds rows of other windows is written anew without those replaced.
"""

import calendar
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from operator import or_, xor
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.config.storage import Folder
from pipeline.errors import StorageConflictError
from pipeline.model.window import DAY_MS, END_OF_TIME_MS, TimeWindow, milliseconds_of
from pipeline.stages import map_tasks
from pipeline.storage.durability import find_version, open_table
from pipeline.storage.files import ERRORS, FILE, WRITTEN, Scope, format_partition, keep_others, read_file, write_batches
from pipeline.storage.frames import arrow_schema, note_contents
from pipeline.storage.rows import commit
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table
from pipeline.tables.arrow_types import format_sql_schema

Files = Sequence[Mapping[str, Any]]  # rows of `WRITTEN`, or files as delta-rs lists them
Noted = tuple[str, Iterable[TimeWindow] | str]  # a cluster, and the windows or the run that rows are of
ADDED_ROWS = "num_added_rows"  # in a commit's information, as delta-rs's own writer names it among its metrics


def write_files(frame: DataFrame, warehouse: Folder, table: Table, scope: Scope | None = None) -> list[dict[str, Any]]:
    """Has tasks write rows of a scope as data files of a table that no commit names yet; gives rows of `WRITTEN`."""
    work = partial(write_batches, warehouse, table, scope)
    return _take_files(frame.mapInArrow(work, format_sql_schema(WRITTEN)))


def replace_windows(spark: SparkSession, frame: DataFrame, warehouse: Folder, table: Table, scope: Scope) -> int:
    """Replaces a scope's rows (see `frames.fit_frame`) in one commit; the table's version; errors as of `rows.replace_rows`."""
    return _replace(spark, write_files(frame, warehouse, table, scope), warehouse, table, scope)


def replace_in_tables(
    spark: SparkSession, answers: DataFrame, warehouse: Folder, tables: Sequence[Table], scope: Scope
) -> dict[str, int]:
    """Replaces a scope's rows in several tables by files that tasks wrote (rows of `WRITTEN`), one commit each; versions by table."""
    by_table: dict[str, list[dict[str, Any]]] = {table.name: [] for table in tables}
    for file in _take_files(answers):
        by_table[file["table"]].append(file)

    def replace(table: Table) -> dict[str, int]:
        return {table.name: _replace(spark, by_table[table.name], warehouse, table, scope)}

    return write_at_once([partial(replace, table) for table in tables])


def _replace(spark: SparkSession, written: Files, warehouse: Folder, table: Table, scope: Scope) -> int:
    def is_inside(file: Mapping[str, Any]) -> bool:  # all its rows are known to be replaced
        low, high = _span(file)  # a table that is not partitioned has files of several clusters
        return "cluster" in table.partitioned_by and low is not None and high is not None and scope.covers(low, high)

    def write(on_disk: DeltaTable) -> None:
        touched = list_touched(on_disk, table, scope)
        mixed = [(file["path"], format_partition(file.get("partition"))) for file in touched if not is_inside(file)]
        work = partial(keep_others, warehouse, table, scope)  # writes files anew without what is replaced
        kept = _take_files(map_tasks(spark, mixed, work, WRITTEN)) if mixed else []
        actions = [*(_remove(file, written) for file in touched), *map(_add, (*written, *kept))]
        _commit(on_disk, table, actions, written, (scope.cluster, scope.spans))

    return commit(warehouse, table, write)


def load_stored(
    spark: SparkSession, warehouse: Folder, table: Table, scope: Scope, columns: Sequence[str] = ()
) -> DataFrame:
    stored = list_touched(open_table(table_path(warehouse, table)), table, scope)
    return read_files(spark, stored, warehouse, table, columns)


def read_files(
    spark: SparkSession, files: Files, warehouse: Folder, table: Table, columns: Sequence[str] = ()
) -> DataFrame:
    schema = pa.schema([*arrow_schema(table), pa.field(FILE, pa.string())])
    wanted = pa.schema([schema.field(name) for name in columns or schema.names])
    named = [(file["path"], file.get("partition") or {}) for file in files]
    return map_tasks(spark, named, partial(read_file, warehouse, table, wanted.names), wanted)


IsAsRead = Callable[[DeltaTable], bool]


def append_files(frame: DataFrame, warehouse: Folder, table: Table, version: int, of: tuple[str, str]) -> bool:
    written = write_files(frame, warehouse, table)
    return commit_once(warehouse, table, written, (), lambda on_disk: on_disk.version() == version, of=of)


def commit_once(
    warehouse: Folder, table: Table, written: Files, removed: Files, is_as_read: IsAsRead, *, of: Noted | None
) -> bool:
    is_committed = not written

    def write(on_disk: DeltaTable) -> None:
        nonlocal is_committed
        if not is_committed and is_as_read(on_disk):
            actions = [*(_remove(file, written) for file in removed), *map(_add, written)]
            _commit(on_disk, table, actions, written, of)
            is_committed = True

    if written:
        commit(warehouse, table, write)
    return is_committed


def _remove(file: Mapping[str, Any], written: Files) -> RemoveAction:
    at_ms = max((one["written_at_ms"] for one in written), default=time.time_ns() // 1_000_000)
    values, path, size = format_partition(file.get("partition")), file["path"], file["size_bytes"]
    # delta-rs writes a path into the log as a URI, and reads it as it stands there
    return RemoveAction(unquote(path), data_change=True, deletion_timestamp=at_ms, size=size, partition_values=values)


def _commit(on_disk: DeltaTable, table: Table, actions: list[Any], written: Files, of: Noted | None) -> None:
    if not actions:
        return
    added, digest = sum(file["row_count"] for file in written), reduce(xor, (file["digest"] for file in written), 0)
    noted = {} if of is None else note_contents(*of, added, digest)
    properties = CommitProperties(custom_metadata={ADDED_ROWS: str(added), **noted}, max_commit_retries=0)
    columns, schema = list(table.partitioned_by), on_disk.schema()
    on_disk.create_write_transaction(actions, "append", schema, columns, commit_properties=properties)


def _add(file: Mapping[str, Any]) -> AddAction:
    path, size, at_ms = file["path"], file["size_bytes"], file["written_at_ms"]
    values, stats = json.loads(file["partition"]), file["stats"]
    return AddAction(path, size, values, modification_time=at_ms, data_change=True, stats=stats)


def _take_files(answers: DataFrame) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = answers.toArrow().to_pylist()
    for file in written:
        if file["row_count"] in ERRORS:
            raise ERRORS[file["row_count"]](file["stats"])
    return written


def list_touched(on_disk: DeltaTable, table: Table, scope: Scope) -> list[dict[str, Any]]:
    touched = []
    for file in pa.table(on_disk.get_add_actions()).to_pylist():
        partition = file.get("partition") or {}
        if "cluster" in table.partitioned_by and partition.get("cluster") != scope.cluster:
            continue
        if "window_date" in partition:
            day_ms = calendar.timegm(partition["window_date"].timetuple()) * 1000
            if not scope.meets(day_ms, day_ms + DAY_MS - 1):
                continue
        low, high = _span(file)
        if low is None or high is None or scope.meets(low, high):
            touched.append(file)
    return touched


def _span(file: Mapping[str, Any]) -> tuple[int | None, int | None]:
    bounds = [(file.get(name) or {}).get("window_start") for name in ("min", "max")]
    low, high = (None if value is None else milliseconds_of(value) for value in bounds)
    return low, high


def write_at_once(writes: Sequence[Callable[[], Mapping[str, int]]]) -> dict[str, int]:
    """Runs functions that write tables, a thread each, since each waits for Spark and delta-rs; gives the versions of all of them."""
    if not writes:
        return {}
    with ThreadPoolExecutor(len(writes)) as pool:
        written = [pool.submit(write) for write in writes]
    return {table: version for tables in written for table, version in tables.result().items()}


_ATTEMPTS = 20


def insert_missing(
    spark: SparkSession, frame: DataFrame, warehouse: Folder, table: Table, scope: Scope, *, run_id: str
) -> int:
    """Adds a run's rows, one a key and of a scope's dates, whose key is not stored; the table's version afterwards."""
    path = table_path(warehouse, table)
    for _ in range(_ATTEMPTS):
        version = find_version(path)
        stored = load_stored(spark, warehouse, table, scope, table.key)
        new = frame.join(stored, on=list(table.key), how="left_anti").select(*table.column_names)
        if append_files(new, warehouse, table, version, (scope.cluster, run_id)):
            return find_version(path)
    raise StorageConflictError(f"{table.name}: other writers committed first {_ATTEMPTS} times")


def merge_frame(
    spark: SparkSession, frame: DataFrame, warehouse: Folder, table: Table, cluster: str, *, replacing: str
) -> int:
    """Adds a cluster's rows whose key is not stored; those with `replacing` true replace others that differ; the table's version."""
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

        def is_as_read(on_disk: DeltaTable, files: Files = stored) -> bool:
            return list_touched(on_disk, table, scope) == files

        if commit_once(warehouse, table, written, removed, is_as_read, of=None):
            return open_table(path).version()
    raise StorageConflictError(f"{table.name}: other writers committed first {_ATTEMPTS} times")


def _join_stored(frame: DataFrame, stored: DataFrame, table: Table, replacing: str) -> tuple[DataFrame, Column]:
    old = stored.toDF(*(f"old_{name}" for name in stored.columns))
    both = frame.join(old, [F.col(name) == F.col(f"old_{name}") for name in table.key], "full")
    compared = [name for name in table.column_names if name not in (*table.key, "run_id")]
    differs = reduce(or_, (~F.col(name).eqNullSafe(F.col(f"old_{name}")) for name in compared))
    is_stored, is_given = (F.col(prefix + table.key[0]).isNotNull() for prefix in ("old_", ""))
    return both, is_given & (~is_stored | (F.col(replacing) & differs))
