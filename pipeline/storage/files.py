"""A table's files, for tasks that read them by themselves: rows that stay columns never become rows of the JVM."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.config.storage import Folder, open_in_arrow
from pipeline.model.window import TimeWindow
from pipeline.storage.durability import open_table
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table

_ROWS_AT_ONCE = 1 << 18  # fresh memory costs more than the work on it: small arrays are used again
_KEPT_BYTES = 1 << 26
"""Row groups of a window's rows, before compression, that are read once and kept: 49 reads of the sessions of two windows of
41,000 batches took 2.8 of 12 CPU-s of their replay."""
_REPEATED = ("topic", "topic_id", "kind", "strategy", "strategy_version")  # texts of many rows: given as dictionaries


def list_data_files(warehouse: Folder, table: Table, cluster: str, windows: Sequence[TimeWindow]) -> tuple[str, ...]:
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
