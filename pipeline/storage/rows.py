"""Small tables as Arrow rows through delta-rs: loaded, replaced, merged in milliseconds and without a JVM, at what Spark reads and writes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError

from pipeline.config.storage import Folder
from pipeline.errors import StorageConflictError, StorageError, TableMismatchError
from pipeline.model.window import TimeWindow, Windows, instant_of
from pipeline.storage import durability
from pipeline.storage.durability import ON_READ, StorageErrors, find_version, open_table
from pipeline.storage.frames import CONTENTS, arrow_schema, count_group_rows, digest_rows, find_mismatch, note_contents
from pipeline.storage.predicates import format_datafusion_predicate, format_datafusion_text
from pipeline.storage.tables_on_disk import read_commit_info, table_path
from pipeline.tables import Table

FEW_ROWS = 1_000_000
"""Rows that one process may hold at once, some 200 MB: where there are more, Spark writes them in parts."""
EARLIER_COMMITS = 100  # in which an earlier try of a run is looked for, where more of its rows are stored than it noted
Compared = tuple[datetime, int, int, int, int]  # first window; number and digest of rows stored, and as noted
ATTEMPTS = 20  # each costs milliseconds, and of those who try at one time one gets through


def load_rows(
    warehouse: Folder,
    table: Table,
    *,
    cluster: str | None = None,
    windows: Windows = (),
    columns: Sequence[str] = (),
    where: str = "",
) -> pa.Table:
    """Rows of a small table, of all windows or (with `cluster`) some, in declared order; `where` is DataFusion SQL."""
    conditions = [where] if where else []
    if cluster is not None:
        of_cluster = f"cluster = {format_datafusion_text(cluster)}"
        conditions.append(format_datafusion_predicate(table, cluster, windows) if windows else of_cluster)
    schema = arrow_schema(table)
    if columns:
        schema = pa.schema([schema.field(name) for name in columns])
    return pa.Table.from_batches(_stream_rows(warehouse, table, schema, conditions), schema)


def compare_contents(warehouse: Folder, table: Table, cluster: str, since: int) -> Compared | None:
    """The rows stored, and those noted by the newest commit, from a version on, about a cluster."""
    path = table_path(warehouse, table)
    newest = find_version(path)
    for of, spans, *noted in _list_noted(path, newest, since):
        if of == cluster and spans:
            windows = [TimeWindow(*span) for span in spans]
            found = _digest_stored(warehouse, table, format_datafusion_predicate(table, cluster, windows))
            if find_version(path) != newest:  # somebody has written meanwhile
                return compare_contents(warehouse, table, cluster, since)
            return instant_of(windows[0].start_ms), *found, *noted
    return None


def compare_added(
    warehouse: Folder, table: Table, of: tuple[str, str], windows: Windows, since: int
) -> Compared | None:
    """As `compare_contents`, of the rows of the dates of `windows` that a run (`of`: cluster and run) added, by earlier tries, too."""
    path = table_path(warehouse, table)
    wanted = f"{format_datafusion_predicate(table, of[0], windows)} AND run_id = {format_datafusion_text(of[1])}"
    row_count, digest = _digest_stored(warehouse, table, wanted)
    newest, is_noted, noted_count, noted_digest = find_version(path), False, 0, 0
    for version in range(newest, max(since - EARLIER_COMMITS, 0), -1):
        if version < since and noted_count >= row_count:
            break
        for cluster, run_id, added_count, added_digest in _list_noted(path, version, version):
            if (cluster, run_id) == of:
                is_noted, noted_count, noted_digest = True, noted_count + added_count, noted_digest ^ added_digest
    return (instant_of(windows[0].start_ms), row_count, digest, noted_count, noted_digest) if is_noted else None


def _list_noted(path: Folder, newest: int, since: int) -> Iterator[list[Any]]:
    infos = (read_commit_info(path, version) for version in range(newest, since - 1, -1))
    return (json.loads(info[CONTENTS]) for info in infos if CONTENTS in info)


def _digest_stored(warehouse: Folder, table: Table, wanted: str) -> tuple[int, int]:
    row_count = digest = 0
    for rows in _stream_rows(warehouse, table, arrow_schema(table), [wanted]):
        row_count, digest = row_count + rows.num_rows, digest ^ digest_rows(rows)
    return row_count, digest


def _stream_rows(warehouse: Folder, table: Table, schema: pa.Schema, conditions: list[str]) -> Iterator[pa.RecordBatch]:
    wanted = f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""
    listed = ", ".join(f'"{name}"' for name in schema.names)
    path = table_path(warehouse, table)
    query = QueryBuilder().register("stored", open_table(path))
    with StorageErrors(path, ON_READ):
        found = query.execute(f"SELECT {listed} FROM stored{wanted}")  # noqa: S608 - declared names, quoted values
        for rows in pa.RecordBatchReader.from_stream(found):
            yield rows.cast(schema)  # from the views that DataFusion answers with


def query_rows(warehouse: Folder, sql: str, tables: Mapping[str, Table]) -> pa.Table:
    """Answers DataFusion's SQL over tables, which it reads file by file; `tables` by their names in the query."""
    query = QueryBuilder()
    for name, table in tables.items():
        query.register(name, open_table(table_path(warehouse, table)))
    with StorageErrors(warehouse, ON_READ):
        rows = pa.table(query.execute(sql).read_all())
    # from the views that DataFusion answers with
    kinds = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in rows.schema]
    return rows.cast(pa.schema(kinds))


def replace_rows(rows: pa.Table, warehouse: Folder, table: Table, *, cluster: str, windows: Windows) -> int:
    """Replaces a cluster's rows in some windows in one commit; the version then; `TableMismatchError`: a row outside them or its checks."""
    starts = pa.array([window.start_ms * 1000 for window in windows], pa.timestamp("us", tz="UTC"))
    here = pc.and_(pc.equal(rows["cluster"], cluster), pc.is_in(rows["window_start"], value_set=starts))
    if elsewhere := rows.filter(pc.invert(here)).slice(0, 1).select(list(table.key)).to_pylist():
        raise TableMismatchError(f"{table.name}: a row lies outside cluster {cluster} and its windows: {elsewhere[0]}")
    _refuse_mismatch(rows, table)
    predicate = format_datafusion_predicate(table, cluster, windows)
    properties = WriterProperties(max_row_group_size=count_group_rows(rows.num_rows, rows.nbytes))
    noted = CommitProperties(custom_metadata=note_contents(cluster, windows, rows.num_rows, digest_rows(rows)))

    def write(on_disk: DeltaTable) -> None:
        write_deltalake(
            on_disk, rows, mode="overwrite", predicate=predicate, writer_properties=properties, commit_properties=noted
        )

    return commit(warehouse, table, write)


def insert_rows(rows: pa.Table, warehouse: Folder, table: Table, *, of: tuple[str, str] | None = None) -> int:
    """Adds rows whose key is not stored, noting the cluster and run `of` them, no commit for nothing; the table's version afterwards."""
    counts = rows.group_by(list(table.key)).aggregate([([], "count_all")])
    if repeated := counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist():
        raise TableMismatchError(f"two rows of one key in {table.name}: {repeated[0]}")
    _refuse_mismatch(rows, table)
    if rows.num_rows == 0:
        return open_table(table_path(warehouse, table)).version()
    same_key = " AND ".join(f"stored.{name} = new.{name}" for name in table.key)

    def insert(on_disk: DeltaTable) -> None:
        new, noted = rows, None
        if of is not None:
            new = rows.filter(pc.invert(_find_stored(rows, on_disk, table)))
            noted = CommitProperties(custom_metadata=note_contents(*of, new.num_rows, digest_rows(new)))
        merger = on_disk.merge(new, same_key, source_alias="new", target_alias="stored", commit_properties=noted)
        merger.when_not_matched_insert_all().execute()

    return commit(warehouse, table, insert)


def _find_stored(rows: pa.Table, on_disk: DeltaTable, table: Table) -> pa.Array:
    """Which rows a table holds; it may grow for good: looked at is what agrees in two texts of the key, as cluster and path are."""
    names = [name for name in table.key if pa.types.is_string(rows.schema.field(name).type)][:2]
    texts = {name: ", ".join(map(format_datafusion_text, rows[name].unique().to_pylist())) for name in names}
    near = " AND ".join(f"{name} IN ({listed})" for name, listed in texts.items())
    sql = f"SELECT {', '.join(table.key)} FROM stored WHERE {near}"  # noqa: S608 - our own words, quoted values
    found = pa.table(QueryBuilder().register("stored", on_disk).execute(sql))
    keys = {tuple(row.values()) for row in found.to_pylist()}
    return pa.array([tuple(row.values()) in keys for row in rows.select(list(table.key)).to_pylist()], pa.bool_())


def commit(warehouse: Folder, table: Table, write: Callable[[DeltaTable], None]) -> int:
    """Makes one commit, on disk when this returns; the version; `StorageConflictError` if others came first each time, else `StorageError`."""
    path = table_path(warehouse, table)
    conflict: Exception | None = None
    for _ in range(ATTEMPTS):
        on_disk = durability.take_table(path)
        before = on_disk.version()
        try:
            with StorageErrors(path, "nothing was committed: free space or repair the folder, then run again"):
                _refuse_names(on_disk)
                write(on_disk)
        except CommitFailedError as error:
            conflict = error
        else:
            with StorageErrors(path, durability.NOT_DURABLE):
                on_disk.update_incremental()
                durability.sync_commits(path, after=before, to=on_disk.version())
            durability.keep_table(path, on_disk)
            return on_disk.version()
    raise StorageConflictError(f"{table.name}: other writers committed first {ATTEMPTS} times") from conflict


def _refuse_names(on_disk: DeltaTable) -> None:
    """Refuses files that delta-rs cannot take out of a log, as Spark names them there: replaced ones would count, too."""
    if odd := [uri for uri in on_disk.file_uris() if not "/".join(uri.rsplit("/", 3)[1:]).isascii()]:
        what = "another program wrote it for a cluster whose name is not ASCII, and its rows would be counted twice"
        raise StorageError(
            f"{odd[0]}: {what}; have that program delete the cluster's rows, or begin another `warehouse`"
        )


def _refuse_mismatch(rows: pa.Table, table: Table) -> None:
    if wrong := find_mismatch(rows, table):
        raise TableMismatchError(wrong)
