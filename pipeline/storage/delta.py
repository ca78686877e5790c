"""Tables as Spark frames, and windows replaced by more rows than one process may hold.

References:
    `replaceWhere` deletes what matches the predicate and writes the new rows in one commit, and refuses rows that do
    not match it. Two commits that touch the same rows conflict: the second writer gets a concurrency exception.
    On S3 Delta 4.3's `S3SingleDriverLogStore` overwrites a version that another writer put there since it looked, and
    no other store of it commits by a conditional PUT. There delta-rs makes every commit, and Spark's tasks read files.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from delta import exceptions
from pyspark.sql import functions as F

from pipeline.config.storage import Folder, RemoteFolder
from pipeline.engine import held_by_executors
from pipeline.errors import StorageConflictError
from pipeline.model.window import TimeWindow
from pipeline.storage.durability import NOT_DURABLE, StorageErrors, open_table, sync_commits
from pipeline.storage.files import iter_dataset, list_data_files
from pipeline.storage.frames import arrow_schema
from pipeline.storage.predicates import format_predicate
from pipeline.storage.row_groups import count_group_rows
from pipeline.storage.rows import replace_streamed_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import Table
from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

_ATTEMPTS = 3

_CONFLICTS = (  # they share no base class of their own
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentTransactionException,
    exceptions.ConcurrentWriteException,
    exceptions.DeltaConcurrentModificationException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)


def load(spark: SparkSession, warehouse: Folder, table: Table) -> DataFrame:
    """The rows of a table, in the declared columns and order."""
    return spark.read.format("delta").load(str(table_path(warehouse, table))).select(*table.column_names)


def load_windows(
    spark: SparkSession, warehouse: Folder, table: Table, cluster: str, windows: Sequence[TimeWindow]
) -> DataFrame:
    """A cluster's rows of some windows, likewise; of a table partitioned by cluster and window date."""
    wanted = format_predicate(table, cluster, windows)
    if not isinstance(warehouse, RemoteFolder):
        return load(spark, warehouse, table).where(wanted)
    paths = list_data_files(warehouse, table, cluster, windows)
    declared = arrow_schema(table)
    stored = pa.schema([field for field in declared if field.name not in table.partitioned_by])
    files = spark.createDataFrame(
        spark.sparkContext.parallelize([(path,) for path in paths], max(1, len(paths))), "path string"
    )
    rows = files.mapInArrow(partial(_read_files, warehouse, stored), format_sql_schema(stored))
    keyed = rows.withColumns({"cluster": F.lit(cluster), "window_date": F.to_date("window_start")})
    return keyed.select(*table.column_names).where(wanted)


def _read_files(warehouse: Folder, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch["path"].to_pylist():
            yield from iter_dataset(warehouse, path, schema)


def replace_spread_rows(
    spark: SparkSession,
    rows: RDD[pa.Table],
    warehouse: Folder,
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
    if isinstance(warehouse, RemoteFolder):
        return _replace_remote(rows, warehouse, table, cluster, windows)
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
    raise StorageConflictError(f"{table.name}: other writers committed first {_ATTEMPTS} times") from conflict


def _replace_remote(
    rows: RDD[pa.Table], warehouse: Folder, table: Table, cluster: str, windows: Sequence[TimeWindow]
) -> int:
    """Executors compute the rows, all at once; the driver writes them part by part."""
    with held_by_executors(rows) as held:
        sizes = held.map(lambda part: (part.num_rows, part.nbytes)).collect()
        group_rows = count_group_rows(sum(rows for rows, _ in sizes), sum(size for _, size in sizes))

        def batches() -> Iterator[pa.RecordBatch]:
            return (batch for part in held.toLocalIterator(prefetchPartitions=True) for batch in part.to_batches())

        return replace_streamed_rows(batches, warehouse, table, cluster=cluster, windows=windows, group_rows=group_rows)


def _unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for packed in batch["packed"]:
            yield from pickle.loads(packed.as_py()).to_batches()  # noqa: S301  (our own, of this job)
