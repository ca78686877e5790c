"""Delta commits of files that tasks wrote: rows go from tasks to files, and the driver makes one conditional commit.

A file holds rows of one partition; one that also holds rows of other windows is written anew without those replaced.
delta-rs commits a version (`add` and `remove` actions of the Delta protocol) by a rename or a conditional PUT that
fails where the version is there; without retries a commit is refused as soon as anybody else has committed.
"""

from __future__ import annotations

import calendar
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from operator import xor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from pipeline.config.storage import Folder
from pipeline.errors import StorageError, TableMismatchError
from pipeline.model.window import DAY_MS, TimeWindow, milliseconds_of
from pipeline.stages import map_tasks
from pipeline.storage import file_writer
from pipeline.storage.durability import open_table
from pipeline.storage.file_writer import FILE, WRITTEN, Scope, format_partition
from pipeline.storage.frames import arrow_schema, note_contents
from pipeline.storage.rows import commit
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table
from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Files = Sequence[Mapping[str, Any]]  # rows of `WRITTEN`, or files as delta-rs lists them
_REFUSED = {file_writer.MISMATCH: TableMismatchError, file_writer.NOT_WRITTEN: StorageError}
ADDED_ROWS = "num_added_rows"  # in a commit's information, as delta-rs's own writer names it among its metrics


def write_files(frame: DataFrame, warehouse: Folder, table: Table, scope: Scope | None = None) -> list[dict[str, Any]]:
    """Has tasks write rows of a scope as data files of a table that no commit names yet; gives rows of `WRITTEN`."""
    work = partial(file_writer.write_batches, warehouse, table, scope)
    return _take_files(frame.mapInArrow(work, format_sql_schema(WRITTEN)))


def replace_windows(
    spark: SparkSession,
    frame: DataFrame,
    warehouse: Folder,
    table: Table,
    *,
    cluster: str,
    windows: Sequence[TimeWindow],
) -> int:
    """Replaces a cluster's rows of some windows in one commit, which is on disk when this returns; returns the table's version.

    `frame`: rows in the declared columns, see `frames.fit_frame`. `TableMismatchError` for a row that lies outside, or
    is NULL where it must not be; `StorageConflictError` where other writers came first every time it was tried.
    """
    scope = Scope.of(cluster, windows)
    return _replace(spark, write_files(frame, warehouse, table, scope), warehouse, table, scope)


def replace_in_tables(
    spark: SparkSession, answers: DataFrame, warehouse: Folder, tables: Sequence[Table], scope: Scope
) -> dict[str, int]:
    """Replaces the rows of a scope in several tables by the files that tasks wrote, each table in one commit.

    `answers`: rows of `WRITTEN`, perhaps none of a table. Gives versions by table; errors as of `replace_windows`.
    """
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
        work = partial(file_writer.keep_others, warehouse, table, scope)  # writes files anew without what is replaced
        kept = _take_files(map_tasks(spark, mixed, work, WRITTEN)) if mixed else []
        actions = [*(_remove(file, written) for file in touched), *map(_add, (*written, *kept))]
        _commit(on_disk, table, actions, written, (scope.cluster, scope.spans))

    return commit(warehouse, table, write)


def load_stored(
    spark: SparkSession, warehouse: Folder, table: Table, scope: Scope, columns: Sequence[str] = ()
) -> DataFrame:
    """Rows of the files that may hold rows of a scope, others' among them; columns as of `read_files`."""
    stored = list_touched(open_table(table_path(warehouse, table)), table, scope)
    return read_files(spark, stored, warehouse, table, columns)


def read_files(
    spark: SparkSession, files: Files, warehouse: Folder, table: Table, columns: Sequence[str] = ()
) -> DataFrame:
    """Rows of some files, as `list_touched` lists them; some columns, all and `FILE` by default."""
    schema = pa.schema([*arrow_schema(table), pa.field(FILE, pa.string())])
    wanted = pa.schema([schema.field(name) for name in columns or schema.names])
    named = [(file["path"], file.get("partition") or {}) for file in files]
    return map_tasks(spark, named, partial(file_writer.read_file, warehouse, table, wanted.names), wanted)


def append_files(frame: DataFrame, warehouse: Folder, table: Table, version: int, of: tuple[str, str]) -> bool:
    """Adds rows of a cluster and run if the table is still at a version; returns False, with nothing written, where somebody was quicker."""
    written = write_files(frame, warehouse, table)
    return commit_once(warehouse, table, written, (), lambda on_disk: on_disk.version() == version, of=of)


def commit_once(
    warehouse: Folder,
    table: Table,
    written: Files,
    removed: Files,
    is_as_read: Callable[[DeltaTable], bool],
    *,
    of: tuple[str, str] | None = None,
) -> bool:
    """Commits files if the table is as it was read, else gives False; `of`: whose rows are added, cluster and run."""
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
    return RemoveAction(
        path=file["path"],
        data_change=True,
        deletion_timestamp=max((one["written_at_ms"] for one in written), default=file["modification_time"]),
        size=file["size_bytes"],
        partition_values=format_partition(file.get("partition")),
    )


def _commit(
    on_disk: DeltaTable,
    table: Table,
    actions: list[Any],
    written: Files,
    of: tuple[str, Iterable[TimeWindow] | str] | None,
) -> None:
    if not actions:
        return
    added, digest = sum(file["row_count"] for file in written), reduce(xor, (file["digest"] for file in written), 0)
    noted = {} if of is None else note_contents(*of, added, digest)
    on_disk.create_write_transaction(
        actions,
        "append",
        on_disk.schema(),
        list(table.partitioned_by),
        commit_properties=CommitProperties(custom_metadata={ADDED_ROWS: str(added), **noted}, max_commit_retries=0),
    )


def _add(file: Mapping[str, Any]) -> AddAction:
    return AddAction(
        path=file["path"],
        size=file["size_bytes"],
        partition_values=json.loads(file["partition"]),
        modification_time=file["written_at_ms"],
        data_change=True,
        stats=file["stats"],
    )


def _take_files(answers: DataFrame) -> list[dict[str, Any]]:
    """What tasks say of the files they wrote; the first refusal is raised."""
    written: list[dict[str, Any]] = answers.toArrow().to_pylist()
    for file in written:
        if file["row_count"] in _REFUSED:
            raise _REFUSED[file["row_count"]](file["stats"])
    return written


def list_touched(on_disk: DeltaTable, table: Table, scope: Scope) -> list[dict[str, Any]]:
    """Files that may hold rows of a scope, as delta-rs lists them."""
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
    """The first and the last window of a file, milliseconds; None where its writer did not say."""
    bounds = [(file.get(name) or {}).get("window_start") for name in ("min", "max")]
    low, high = (None if value is None else milliseconds_of(value) for value in bounds)
    return low, high


def write_at_once(writes: Sequence[Callable[[], Mapping[str, int]]]) -> dict[str, int]:
    """Runs functions that write tables, each in a thread of its own.

    Each of them waits in turn for Spark, for delta-rs and for this process; together they fill the cores. Spark serves
    their jobs in the order they come. All of them end before this does, also where one fails. Each gives the versions
    of the tables it wrote, no two the same one; these are put together in the order of the functions.

    >>> write_at_once([lambda: {"a": 1}, lambda: {"b": 2}])
    {'a': 1, 'b': 2}
    """
    if not writes:
        return {}
    with ThreadPoolExecutor(len(writes)) as pool:
        written = [pool.submit(write) for write in writes]
    return {table: version for tables in written for table, version in tables.result().items()}
