"""Delta through Spark: tables loaded as frames, and windows replaced by more rows than one process may hold.

References:
    `replaceWhere` deletes what matches the predicate and writes the new rows in one commit, and refuses rows that do
    not match it. Two commits that touch the same rows conflict: the second writer gets a concurrency exception.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
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

from pipeline.errors import StorageConflictError
from pipeline.model.window import TimeWindow
from pipeline.storage.durability import NOT_DURABLE, StorageErrors, open_table, sync_commits
from pipeline.storage.frames import arrow_schema
from pipeline.storage.predicates import format_predicate
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table
from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 3

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
    """The rows of a table, in the declared columns and order."""
    return spark.read.format("delta").load(str(table_path(warehouse, table))).select(*table.column_names)


def replace_spread_rows(
    spark: SparkSession,
    rows: RDD[pa.Table],
    warehouse: Path,
    table: Table,
    *,
    cluster: str,
    windows: Sequence[TimeWindow],
) -> int:
    """Replaces all rows of a cluster in some windows, in one commit, as `rows.replace_rows` does with few rows.

    `rows`: from `frames.fit_rows`.

    Returns:
        The table's version after the commit.

    Raises:
        StorageConflictError: if other writers came first every time it was tried.
        AnalysisException: `DELTA_REPLACE_WHERE_MISMATCH`: a row lies outside the cluster and windows.
    """
    packed = spark.createDataFrame(rows.map(lambda part: (pickle.dumps(part),)), "packed binary")
    frame = packed.mapInArrow(_unpack, format_sql_schema(arrow_schema(table)))
    # One file per date below the target size, whatever number of Spark partitions the rows come in.
    writer = frame.hint("rebalance", "window_date").write.format("delta").mode("overwrite")
    path = table_path(warehouse, table)
    before = open_table(path).version()
    conflict: Exception | None = None
    for _ in range(_ATTEMPTS):
        try:
            writer.option("replaceWhere", format_predicate(table, cluster, windows)).save(str(path))
        except _CONFLICTS as error:
            conflict = error
        else:
            version = open_table(path).version()
            with StorageErrors(path, NOT_DURABLE):
                sync_commits(path, after=before, to=version)
            return version
    raise StorageConflictError(f"{table.name}: other writers came first {_ATTEMPTS} times") from conflict


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch["packed"]:
            yield from pickle.loads(packed.as_py()).to_batches()  # noqa: S301  (our own, of this job)
