"""Recorded arrivals of a producer session as plain arrays, joined from the minutes that `silver.arrivals` holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

NO_KEY = -1
"""In place of an index into `SessionTraffic.keys`: the record's key is null."""
UNNAMED_KEY = -2
"""In place of an index: there is a key, and the configuration stores no ids of keys."""
UNNAMED_EMPTY_KEY = -3
"""In place of an index: the key has no bytes, and the configuration stores no ids of keys."""

CREATE_TIME = "CreateTime"

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionTraffic:
    """What one producer session sent to one topic in a window: an element per record, in order of time.

    The order within a millisecond says nothing: it follows from sizes and keys, and never from the recorded partition.

    Attributes:
        topic: Topic.
        topic_id: Its id, or "".
        producer_id: Of the session; -1 where all producers without idempotence are pooled.
        producer_epoch: Of the session; -1 where pooled, and for transactional producers, whose epochs are one session.
        start_ms: UTC milliseconds that `elapsed_ms` counts from: the begin of the first minute.
        elapsed_ms: int32, not falling: when the record was created, after `start_ms`.
        body_bytes: int32, as `simulator.record_size.measure_body_bytes` has it.
        partition: int32, where it was written.
        key_index: int32, index into `keys`, or `NO_KEY`, `UNNAMED_KEY`, `UNNAMED_EMPTY_KEY`.
        keys: int64, rising: the first 64 bits of key ids, see `codec.key_numbers.number_of_id`; in Spark SQL
            `CAST(conv(substring(key_id, 1, 16), 16, -10) AS BIGINT)`.
        timestamp_types: `CreateTime`, `LogAppendTime` or both: with the latter, records of a batch came at one instant,
            that of its append.
        unreadable_record_count: Records besides these, in batches that could not be read.
        aborted_record_count: Of these, records of aborted transactions.
        outlier_record_count: Of these, records whose timestamp was out of line: they are placed by append order.
        late_record_count: Of these, records with a timestamp before that of the record ahead of it in the batch.
        sampling_rate: Part of the window's time that was read; 1 for all.
    """

    topic: str
    topic_id: str
    producer_id: int
    producer_epoch: int
    start_ms: int
    elapsed_ms: NDArray[np.int32]
    body_bytes: NDArray[np.int32]
    partition: NDArray[np.int32]
    key_index: NDArray[np.int32]
    keys: NDArray[np.int64]
    timestamp_types: tuple[str, ...] = (CREATE_TIME,)
    unreadable_record_count: int = 0
    aborted_record_count: int = 0
    outlier_record_count: int = 0
    late_record_count: int = 0
    sampling_rate: float = 1.0

    def __len__(self) -> int:
        return len(self.elapsed_ms)

    @property
    def at_ms(self) -> NDArray[np.int64]:
        """When each record was created, UTC milliseconds."""
        return self.elapsed_ms.astype(np.int64) + self.start_ms

    @property
    def timestamp_type(self) -> str:
        """What its timestamps are: `LogAppendTime` where any of them is."""
        return self.timestamp_types[-1]

    @property
    def is_pooled(self) -> bool:
        """Whether several producers may be behind it."""
        return self.producer_id < 0

    @property
    def is_keyed(self) -> NDArray[np.bool_]:
        """By record: it has a key, be it an empty one."""
        is_keyed: NDArray[np.bool_] = self.key_index != NO_KEY
        return is_keyed

    def choose(self, is_chosen: NDArray[np.bool_]) -> SessionTraffic:
        """The same session with some of its records; the counts of special ones stay those of all.

        Args:
            is_chosen: By record.
        """
        return replace(
            self,
            elapsed_ms=self.elapsed_ms[is_chosen],
            body_bytes=self.body_bytes[is_chosen],
            partition=self.partition[is_chosen],
            key_index=self.key_index[is_chosen],
        )

    @property
    def is_even_minute(self) -> NDArray[np.bool_]:
        """By record: it came in an even minute of UTC."""
        is_even: NDArray[np.bool_] = (self.start_ms // MINUTE_MS + self.elapsed_ms // MINUTE_MS) % 2 == 0
        return is_even


def join_minutes(rows: pa.Table | pa.RecordBatch) -> SessionTraffic:
    """Joins the rows of one session, topic and window.

    Args:
        rows: Rows of `silver.arrivals`, in any order, at least one; of the columns `cluster`, `window_date`,
            `window_start`, `count_kind` and `run_id` none is looked at.
    """
    table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
    order = [(name, "ascending") for name in ("minute_start", "timestamp_type", "part")]
    table = table.take(pc.sort_indices(table, sort_keys=order)).combine_chunks()
    minute_ms = pc.cast(table["minute_start"], pa.timestamp("ms", tz="UTC"), safe=False).to_numpy().astype(np.int64)
    counts = table["record_count"].to_numpy()
    start_ms = int(minute_ms[0])
    elapsed_ms = _join_gaps(_flat(table, "gap_ms"), counts, minute_ms - start_ms)
    columns = [elapsed_ms, *(_flat(table, name) for name in ("body_bytes", "partition"))]
    keys, key_index = _join_keys(table)
    columns.append(key_index)
    if (np.diff(elapsed_ms) < 0).any():  # rows of one minute with timestamps of both types
        by_time = np.argsort(elapsed_ms, kind="stable")
        columns = [column[by_time] for column in columns]
    first = {name: table[name][0].as_py() for name in SESSION}
    sums = {name: int(table[name].to_numpy().sum()) for name in _COUNTS}
    named: dict[str, Any] = {**first, **sums}
    return SessionTraffic(
        start_ms=start_ms,
        elapsed_ms=columns[0],
        body_bytes=columns[1],
        partition=columns[2],
        key_index=columns[3],
        keys=keys,
        timestamp_types=tuple(sorted(set(table["timestamp_type"].to_pylist()))),
        sampling_rate=float(table["sampling_rate"][0].as_py()),
        **named,
    )


_COUNTS = ("unreadable_record_count", "aborted_record_count", "outlier_record_count", "late_record_count")
SESSION = ("topic", "topic_id", "producer_id", "producer_epoch")
"""Columns of `silver.arrivals` that name a session within a cluster and window."""


def iter_sessions(rows: pa.Table) -> Iterator[SessionTraffic]:
    """The sessions of a window, in order of topic, producer id and epoch.

    Args:
        rows: Rows of `silver.arrivals` of one cluster and window.
    """
    if not rows.num_rows:
        return
    ordered = rows.take(pc.sort_indices(rows.select(SESSION), sort_keys=[(name, "ascending") for name in SESSION]))
    names = [ordered[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in SESSION]
    is_first = np.any([np.diff(name, prepend=-1) != 0 for name in names], axis=0)
    edges = [*np.flatnonzero(is_first).tolist(), ordered.num_rows]
    for first, end in itertools.pairwise(edges):
        yield join_minutes(ordered.slice(first, end - first))


def _flat(table: pa.Table, name: str) -> NDArray[np.int32]:
    return np.asarray(pc.list_flatten(table[name]).combine_chunks()).astype(np.int32, copy=False)


def _join_gaps(
    gap_ms: NDArray[np.int32], counts: NDArray[np.int64], row_start_ms: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Sums up the gaps row by row, each from its minute's begin."""
    ends = np.cumsum(counts)
    starts = ends - counts
    has_records = counts > 0
    elapsed_ms = np.cumsum(gap_ms, dtype=np.int32) if len(gap_ms) else gap_ms.astype(np.int32)
    before = np.zeros(len(counts), np.int64)
    before[has_records] = elapsed_ms[starts[has_records]].astype(np.int64) - gap_ms[starts[has_records]]
    shift = (row_start_ms - before).astype(np.int32)
    elapsed_ms += np.repeat(shift, counts)
    return elapsed_ms


def _join_keys(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """All keys once, rising, and the indexes of the rows as indexes into them."""
    listed = np.asarray(pc.list_flatten(table["keys"]).combine_chunks()).astype(np.int64, copy=False)
    key_counts = pc.list_value_length(table["keys"]).to_numpy().astype(np.int64)
    keys, places = np.unique(listed, return_inverse=True)
    index = _flat(table, "key_index")
    is_named = index >= 0
    if not is_named.any():
        return keys, index
    first_key = np.repeat(np.cumsum(key_counts) - key_counts, table["record_count"].to_numpy())
    joined = index.copy()
    joined[is_named] = places[(index + first_key)[is_named]]
    return keys, joined
