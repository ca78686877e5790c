"""A table's files, for tasks that read them by themselves: rows that stay columns never become rows of the JVM.

Measured: 24 million rows of `silver.key_traffic` take Spark 30-60 s to hand to Python workers on two busy cores, and
Parquet's own reader two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.model.window import TimeWindow
from pipeline.storage.durability import open_table
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table

_ROWS_AT_ONCE = 1 << 18  # fresh memory costs more than the work on it: small arrays are used again
_REPEATED = ("topic", "topic_id", "kind", "strategy", "strategy_version")
"""Texts that many rows share: given as dictionaries."""


def list_data_files(warehouse: Path, table: Table, cluster: str, windows: Sequence[TimeWindow]) -> tuple[str, ...]:
    """Paths of the Parquet files that may hold a cluster's rows of some windows, sorted.

    `table`: a declaration partitioned by cluster and window date.
    `windows`: at least one; rows of other windows may lie in the same files.
    """
    predicate = format_datafusion_predicate(table, cluster, windows)
    return tuple(sorted(open_table(table_path(warehouse, table)).file_uris(file_pruning_predicate=predicate)))


def count_file_rows(paths: Sequence[str]) -> int:
    """Rows of some files together, from their footers."""
    return sum(int(pq.read_metadata(path).num_rows) for path in paths)


def iter_file_rows(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of one file, some columns of them; a quarter of a million at once.

    `columns`: their names; not those the table is partitioned by.
    """
    texts = [name for name in columns if name in _REPEATED]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(columns), use_threads=False)


def read_window_rows(
    paths: Sequence[str], columns: Sequence[str], start_ms: int, within: Mapping[str, Collection[Any]]
) -> pa.Table:
    """Rows of one window, from some files; row groups that hold none are not read.

    `columns`: their names; not those the table is partitioned by.
    """
    tables = []
    for path in paths:
        stored_as = pq.read_schema(path).field("window_start").type  # Spark's files name no time zone, delta-rs's do
        start = pa.scalar(start_ms * 1_000, pa.timestamp("us", stored_as.tz)).cast(stored_as)
        filters = [("window_start", "=", start), *((name, "in", list(values)) for name, values in within.items())]
        found = pq.read_table(path, columns=list(columns), filters=filters, use_threads=False, partitioning=None)
        tables.append(found)
    return pa.concat_tables(tables, promote_options="permissive")
