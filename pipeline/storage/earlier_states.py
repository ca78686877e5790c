"""Cluster states seen by earlier runs, for sources that need the difference between two.

Two weeks of a large cluster are ten million rows and more: tasks read them and keep one of each leader epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from pipeline.config.storage import Folder
from pipeline.engine import count_task_slots
from pipeline.model.cluster import LIVE_CLUSTER, EarlierState
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow
from pipeline.stages import map_groups, map_tasks
from pipeline.storage.durability import has_table, open_table
from pipeline.storage.files import iter_file_rows, list_data_files
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.bronze import CLUSTER_STATE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACH_MS = 7 * DAY_MS
SETTLED_MS = HOUR_MS  # how far ahead of the brokers' clocks those of clients may be
_TASKS_PER_SLOT = 3
_LOG = ("topic", "topic_id", "partition")
_TERM = (*_LOG, "leader_epoch", "leader_id")
_TOLD = ("log_start_offset", "log_end_offset", "size_bytes")
_OBSERVED = ("observed_leader_epoch", "observed_leader_id")
_NEEDED = (*_TERM, *_TOLD, "window_start", "state_source", "replica_id", "is_leader")
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _LOG[:2]),
        *((name, pa.int64()) for name in ("partition", *_TERM[3:], *_TOLD, "window_start_ms", "told_at_ms")),
        *((name, pa.int64()) for name in ("observed_at_ms", "settled_offset")),
        ("is_before", pa.bool_()),
    ]
)
"""Fields of `EarlierState`, and whether its window is before the span."""


def load_earlier_states(
    spark: SparkSession, warehouse: Folder, cluster: str, span: TimeWindow
) -> tuple[EarlierState, ...]:
    """The newest leader's row of each leader epoch in the windows before a span, and likewise since it, oldest first.

    Who led in an epoch is true at any time: a late run learns it for earlier windows from runs over later ones. A row
    names the leader at its window's end, and the one observed after it.

    `warehouse`: folder of all tables; one that is not there yet, or is of a version without the columns, has none.
    `span`: the run's windows; rows of a week before and after it count.
    """
    path = table_path(warehouse, CLUSTER_STATE)
    if not has_table(path) or not {*_NEEDED} <= {field.name for field in open_table(path).schema().fields}:
        return ()
    reach = TimeWindow(max(0, span.start_ms - REACH_MS), span.end_ms + REACH_MS)
    paths, slots = list_data_files(warehouse, CLUSTER_STATE, cluster, (reach,)), count_task_slots(spark)
    count = min(len(paths), _TASKS_PER_SLOT * slots)
    read = partial(_read_terms, warehouse, reach, span.start_ms)
    terms = map_tasks(spark, [paths[number::count] for number in range(count)], read, _SCHEMA)
    found = pl.DataFrame(pl.from_arrow(map_groups(terms, _LOG, slots, _finish, _SCHEMA).toArrow())).drop("is_before")
    ordered = found.sort("window_start_ms", "topic", "partition", pl.col("leader_epoch").fill_null(0), pl.all())
    return tuple(EarlierState(**row) for row in ordered.iter_rows(named=True))


def _read_terms(warehouse: Folder, reach: TimeWindow, start_ms: int, paths: Sequence[str]) -> Iterator[pa.Table]:
    """Kernel: rows of some files, in all one or two of each term."""
    columns, terms = (*_NEEDED, *_OBSERVED, "observed_at"), pl.DataFrame(pl.from_arrow(_SCHEMA.empty_table()))
    for path in paths:
        for batch in iter_file_rows(warehouse, path, columns):
            terms = _keep_newest(pl.concat([terms, _list_terms(batch, reach, start_ms)]))
    yield terms.to_arrow()


def _list_terms(batch: pa.RecordBatch, reach: TimeWindow, start_ms: int) -> pl.DataFrame:
    """Rows of the leaders at windows' ends, and of those observed after them; files of before have no observed ones."""
    rows = pl.DataFrame(pl.from_arrow(batch))
    rows = rows.with_columns(
        pl.lit(None).alias(name) for name in (*_OBSERVED, "observed_at") if name not in rows.columns
    )
    at, told = pl.col("window_start").dt.epoch("ms"), pl.col("observed_at").cast(pl.Datetime("us")).dt.epoch("ms")
    leader_id, epoch = pl.col("leader_id"), pl.col("leader_epoch")
    rows = rows.filter(
        (pl.col("state_source").cast(pl.String) == LIVE_CLUSTER) & (at >= reach.start_ms) & (at < reach.end_ms)
    ).with_columns(
        pl.col("topic", "topic_id").cast(pl.String),
        window_start_ms=at,
        told_at_ms=told,
        observed_at_ms=told,
        settled_offset=pl.when(told <= start_ms - SETTLED_MS).then("log_end_offset"),
        is_before=at < start_ms,
    )
    observed = rows.with_columns(
        is_leader=pl.col("replica_id") == pl.col("observed_leader_id"),
        leader_epoch=pl.col("observed_leader_epoch").cast(pl.Int64),
        leader_id=pl.col("observed_leader_id").cast(pl.Int64),
    )
    either = pl.concat([one.select("is_leader", *_SCHEMA.names) for one in (rows, observed)])
    return either.filter(pl.col("is_leader") | ((leader_id < 0) & epoch.is_not_null())).drop("is_leader")


def _keep_newest(rows: pl.DataFrame) -> pl.DataFrame:
    """The newest row of each term before the span and since it; when it was first observed, and the largest settled offset."""
    first, largest = pl.col("observed_at_ms").min(), pl.col("settled_offset").max()
    others = pl.col("window_start_ms", "told_at_ms", *_TOLD)
    ordered = rows.sort("window_start_ms", "told_at_ms", *_TOLD)  # of rows of one window in whatever order the same
    return ordered.group_by(*_TERM, "is_before").agg(others.last(), first, largest).select(_SCHEMA.names)


def _finish(rows: pa.Table) -> Iterator[pa.Table]:
    """Kernel: what tasks have read of some partitions, one or two rows of each term."""
    newest = _keep_newest(pl.DataFrame(pl.from_arrow(rows)))
    yield (
        newest.with_columns(
            pl.col("observed_at_ms").min().over(_TERM), pl.col("settled_offset").max().over(*_LOG, "leader_id")
        )
        .to_arrow()
        .cast(_SCHEMA)
    )
