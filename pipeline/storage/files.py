"""What tasks do with a Delta table's data files: read them, write rows to new ones, or one anew without some of its rows."""

import functools
import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.config.storage import Folder, open_in_arrow
from pipeline.errors import StorageError, TableMismatchError
from pipeline.model.window import TimeWindow, Windows, stretches_of
from pipeline.storage.durability import open_table
from pipeline.storage.frames import arrow_schema, count_group_rows, digest_rows, find_mismatch
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table
from pipeline.tables.arrow_types import integers, strings

_ROWS_AT_ONCE = 1 << 18  # fresh memory costs more than the work on it: small arrays are used again
_KEPT_BYTES = 1 << 26
"""Row groups of a window's rows, before compression, that are read once and kept: 49 reads of the sessions of two windows of
41,000 batches took 2.8 of 12 CPU-s of their replay."""
_REPEATED = ("topic", "topic_id", "kind", "strategy", "strategy_version")  # texts of many rows: given as dictionaries


def list_data_files(warehouse: Folder, table: Table, cluster: str, windows: Windows) -> tuple[str, ...]:
    """Sorted paths of the files that may hold a cluster's rows of these windows; in a store without the scheme."""
    predicate, folder = format_datafusion_predicate(table, cluster, windows), table_path(warehouse, table)
    on_disk = open_table(folder)
    root = on_disk.table_uri.removeprefix("file://")  # as in a URI: a space is %20
    uris = on_disk.file_uris(file_pruning_predicate=predicate)
    start = open_in_arrow(folder)[1]
    return tuple(sorted(f"{start}/{path.removeprefix(root)}" for path in uris))


@functools.cache  # of one warehouse, in each process that reads it
def _files_of(warehouse: Folder) -> fs.FileSystem | None:
    return open_in_arrow(warehouse)[0]


def count_file_rows(warehouse: Folder, paths: Sequence[str]) -> int:
    return sum(int(pq.read_metadata(path, filesystem=_files_of(warehouse)).num_rows) for path in paths)


def iter_file_rows(warehouse: Folder, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    texts = [name for name in columns if name in _REPEATED]
    with pq.ParquetFile(path, read_dictionary=texts, filesystem=_files_of(warehouse)) as file:
        yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(columns), use_threads=False)


def read_window_rows(
    warehouse: Folder,
    paths: Sequence[str],
    columns: Sequence[str],
    start_ms: int,
    within: Mapping[str, Collection[Any]],
    *,
    most_bytes: int = _KEPT_BYTES,
) -> pa.Table:
    """Rows of one window with the values wanted (`within`); a small window, whose row groups have `most_bytes`, is read once and kept."""
    whole = _read_small_window(warehouse, tuple(paths), tuple(columns), start_ms, most_bytes)
    if whole is None:
        wanted = {name: list(values) for name, values in within.items()}
        files = [_WindowFile.open(warehouse, path, start_ms) for path in paths]
        return pa.concat_tables([file.read(columns, wanted) for file in files], promote_options="permissive")
    for name, values in within.items():
        whole = whole.filter(pc.is_in(whole[name], pa.array(list(values), whole.schema.field(name).type)))
    return whole


@functools.lru_cache(maxsize=2)  # arrivals and batches of the window at hand; a data file never changes
def _read_small_window(
    warehouse: Folder, paths: tuple[str, ...], columns: tuple[str, ...], start_ms: int, most_bytes: int
) -> pa.Table | None:
    files = [_WindowFile.open(warehouse, path, start_ms) for path in paths]
    if sum(file.size_bytes for file in files) > most_bytes:
        return None
    return pa.concat_tables([file.read(columns, {}) for file in files], promote_options="permissive")


class _WindowFile(NamedTuple):
    fragment: ds.ParquetFileFragment
    is_of_window: ds.Expression

    @classmethod
    def open(cls, warehouse: Folder, path: str, start_ms: int) -> Self:
        (fragment,) = ds.dataset(path, filesystem=_files_of(warehouse)).get_fragments()
        # Spark's files name no time zone, delta-rs's do
        stored_as = fragment.physical_schema.field("window_start").type
        start = pa.scalar(start_ms * 1_000, pa.timestamp("us", stored_as.tz)).cast(stored_as)
        is_of_window = ds.field("window_start") == start
        return cls(fragment.subset(is_of_window), is_of_window)

    @property
    def size_bytes(self) -> int:  # before compression
        return sum(int(group.total_byte_size) for group in self.fragment.row_groups)

    def read(self, columns: Sequence[str], within: Mapping[str, list[Any]]) -> pa.Table:
        wanted = self.is_of_window
        for name, values in within.items():
            wanted &= ds.field(name).isin(values)
        return self.fragment.to_table(columns=list(columns), filter=wanted, use_threads=False)


WRITTEN = pa.schema(  # what a task says of a file that it wrote
    [*strings("table", "path", "partition", "stats"), *integers("size_bytes", "row_count", "digest", "written_at_ms")]
)
FILE = "_file"  # name of a column: in which data file a row is
MISMATCH, NOT_WRITTEN = -1, -2
ERRORS = {MISMATCH: TableMismatchError, NOT_WRITTEN: StorageError}
"""In place of a file's rows, where it was refused or could not be written; the reason stands in place of its statistics."""


@dataclass(frozen=True, slots=True)
class Scope:
    cluster: str
    spans: tuple[TimeWindow, ...]  # without gaps in them, ascending

    @classmethod
    def of(cls, cluster: str, windows: Iterable[TimeWindow]) -> Self:
        return cls(cluster, stretches_of(windows))

    def holds(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        starts = rows["window_start"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        held = pc.less(starts, -(1 << 62))
        for span in self.spans:
            inside = pc.and_(pc.greater_equal(starts, 1000 * span.start_ms), pc.less(starts, 1000 * span.end_ms))
            held = pc.or_(held, inside)
        return held

    def meets(self, low_ms: int, high_ms: int) -> bool:
        return any(span.start_ms <= high_ms and low_ms < span.end_ms for span in self.spans)

    def covers(self, low_ms: int, high_ms: int) -> bool:
        return any(span.start_ms <= low_ms and high_ms < span.end_ms for span in self.spans)


def write_tables(
    warehouse: Folder, tables: Mapping[str, Table], scope: Scope, rows: Iterable[tuple[str, pa.Table]]
) -> Iterator[pa.Table]:
    by_table: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for name, part in rows:
        by_table[name] += part.to_batches()
    for name, batches in by_table.items():
        yield pa.Table.from_batches(write_batches(warehouse, tables[name], scope, batches), WRITTEN)


def write_batches(
    warehouse: Folder, table: Table, scope: Scope | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Kernel: rows in the declared columns to files, one for each partition; yields rows of `WRITTEN`."""
    try:
        yield from _write_partitions(warehouse, table, scope, batches)
    except OSError as error:
        path = table_path(warehouse, table)
        text = f"{path}: {error}; nothing was committed: free space or repair the folder, then run again"
        yield from _say_wrong(table, text, NOT_WRITTEN).to_batches()


def _write_partitions(
    warehouse: Folder, table: Table, scope: Scope | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    writers: dict[tuple[Any, ...], _FileWriter] = {}
    schema = arrow_schema(table)
    for batch in batches:
        if not batch.num_rows:
            continue
        rows = pa.Table.from_batches([batch]).cast(pa.schema([field.with_nullable(nullable=True) for field in schema]))
        wrong = find_mismatch(rows, table)
        if not wrong and scope is not None:
            inside = pc.and_(scope.holds(rows), pc.equal(rows["cluster"], scope.cluster))
            for outside in rows.filter(pc.invert(inside)).slice(0, 1).select(list(table.key)).to_pylist():
                wrong = f"{table.name}: a row lies outside cluster {scope.cluster} and its windows: {outside}"
        if wrong:
            yield from _say_wrong(table, wrong, MISMATCH).to_batches()
            return
        for values, part in _split(rows, table.partitioned_by):
            if values not in writers:
                named = dict(zip(table.partitioned_by, values, strict=True))
                writers[values] = _FileWriter(warehouse, table, format_partition(named))
            writers[values].digest ^= digest_rows(part)
            for one in part.drop_columns(list(table.partitioned_by)).to_batches():
                writers[values].write(one)
    for writer in writers.values():
        yield from writer.close().to_batches()


def _split(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    if not names:
        yield (), rows
        return
    groups = rows.select(list(names)).group_by(list(names)).aggregate([]).to_pylist()
    for values in groups:
        part = rows
        for name, value in values.items() if len(groups) > 1 else ():
            part = part.filter(pc.equal(part[name], pa.scalar(value, part.schema.field(name).type)))
        yield tuple(values[name] for name in names), part


class _FileWriter:
    def __init__(self, warehouse: Folder, table: Table, partition: Mapping[str, str | None]) -> None:
        self._table, self._partition = table, dict(partition)
        # Where a file lies is free: the log says what it holds. A date is the same in a path, a URI and a log.
        self._path = f"window_date={partition.get('window_date', 'none')}/part-{uuid.uuid4().hex}.parquet"
        self._files, root = open_in_arrow(table_path(warehouse, table))
        self._place = f"{root}/{self._path}"
        self._writer: pq.ParquetWriter | None = None
        self._row_count = 0
        self.digest = 0
        self._window: tuple[Any, Any] | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        schema = pa.schema([f for f in arrow_schema(self._table) if f.name in rows.schema.names])
        held = pa.Table.from_batches([rows]).cast(schema)
        if self._writer is None:
            if self._files is None:
                Path(self._place).parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._place, schema, filesystem=self._files)
        self._writer.write_table(held, row_group_size=count_group_rows(held.num_rows, held.nbytes))
        self._row_count += held.num_rows
        if "window_start" in schema.names:
            bounds = pc.min_max(held["window_start"]).as_py()
            low, high = self._window or (bounds["min"], bounds["max"])
            self._window = min(low, bounds["min"]), max(high, bounds["max"])

    def close(self) -> pa.Table:
        if self._writer is None:
            return WRITTEN.empty_table()
        self._writer.close()
        status = (self._files or fs.LocalFileSystem()).get_file_info(self._place)
        stats: dict[str, Any] = {"numRecords": self._row_count}
        if self._window is not None:
            low, high = (instant.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" for instant in self._window)
            bounds = {"minValues": low, "maxValues": high, "nullCount": 0}
            stats |= {name: {"window_start": value} for name, value in bounds.items()}
        row = {
            "table": self._table.name,
            "path": self._path,
            "partition": json.dumps(self._partition),
            "stats": json.dumps(stats),
            "size_bytes": status.size,
            "row_count": self._row_count,
            "digest": self.digest,
            "written_at_ms": status.mtime_ns // 1_000_000,
        }
        return pa.Table.from_pylist([row], schema=WRITTEN)


def keep_others(
    warehouse: Folder, table: Table, scope: Scope, file: tuple[str, dict[str, str | None]]
) -> Iterator[pa.Table]:
    """Kernel: a data file, and its partition, to one without the rows of a scope; gives a row of `WRITTEN`."""
    path, partition = file
    writer = _FileWriter(warehouse, table, partition)
    for batch in _iter_stored(warehouse, table, path):
        replaced = scope.holds(batch)
        if "cluster" not in table.partitioned_by:
            replaced = pc.and_(replaced, pc.equal(batch["cluster"], scope.cluster))
        writer.write(batch.filter(pc.invert(replaced)))
    yield writer.close()


def read_file(
    warehouse: Folder, table: Table, columns: Sequence[str], file: tuple[str, Mapping[str, Any]]
) -> Iterator[pa.Table]:
    path, partition = file
    constant = {**partition, FILE: path}
    for batch in _iter_stored(warehouse, table, path, [name for name in columns if name not in constant]):
        arrays = [pa.repeat(constant[n], len(batch)) if n in constant else batch[n] for n in columns]
        yield pa.table(arrays, names=list(columns))


def _iter_stored(
    warehouse: Folder, table: Table, path: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([field for field in arrow_schema(table) if field.name not in table.partitioned_by])
    files, root = open_in_arrow(table_path(warehouse, table))
    rows = ds.dataset(f"{root}/{unquote(path)}", schema, format="parquet", filesystem=files, partitioning=None)
    yield from rows.to_batches(columns=columns, use_threads=False)


def format_partition(partition: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in (partition or {}).items()}


def _say_wrong(table: Table, reason: str, code: int) -> pa.Table:
    return pa.Table.from_pylist([{"table": table.name, "stats": reason, "row_count": code}], schema=WRITTEN)
