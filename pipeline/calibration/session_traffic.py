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


def join_minutes(rows: pa.Table | pa.RecordBatch) -> SessionTraffic:
    """Joins the rows of one session, topic and window.

    Args:
        rows: Rows of `silver.arrivals`, in any order, at least one; of the columns `cluster`, `window_date`,
            `window_start`, `count_kind` and `run_id` none is looked at.
    """
    table = pa.table([*rows.columns], rows.schema.names) if isinstance(rows, pa.RecordBatch) else rows
    minute_ms = pc.cast(table["minute_start"], pa.timestamp("ms", tz="UTC"), safe=False).to_numpy().astype(np.int64)
    start_ms = int(minute_ms.min())
    ends = np.cumsum([0, *table["record_count"].to_pylist()])
    order = _sort_rows(table)
    places = _Places(order=order, ends=np.cumsum([0, *np.diff(ends)[order]]))
    keys, key_index = _join_keys(table, places)
    columns = [table[name] for name in ("partition", "body_bytes", "gap_ms")]
    table = table.drop_columns(["gap_ms", "body_bytes", "partition", "key_index", "keys"])
    del rows
    elapsed_ms, body_bytes, partition = (places.lay_out(columns.pop()) for _ in range(3))
    for row, part in places.items():
        np.cumsum(elapsed_ms[part], out=elapsed_ms[part])
        elapsed_ms[part] += minute_ms[row] - start_ms
    joined = [elapsed_ms, body_bytes, partition, key_index]
    if (elapsed_ms[1:] < elapsed_ms[:-1]).any():  # rows of one minute with timestamps of both types
        by_time = np.argsort(elapsed_ms, kind="stable")
        joined = [column[by_time] for column in joined]
    first = {name: table[name][0].as_py() for name in SESSION}
    sums = {name: int(table[name].to_numpy().sum()) for name in _COUNTS}
    named: dict[str, Any] = {**first, **sums}
    return SessionTraffic(
        start_ms=start_ms,
        elapsed_ms=joined[0],
        body_bytes=joined[1],
        partition=joined[2],
        key_index=joined[3],
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
    order = pc.sort_indices(rows.select(SESSION), sort_keys=[(name, "ascending") for name in SESSION])
    # sorting is stable: there is nothing to be moved where rows are in order, and there may be gigabytes of them
    ordered = rows if (np.diff(order.to_numpy().astype(np.int64)) > 0).all() else rows.take(order)
    names = [ordered[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in SESSION]
    is_first = np.any([np.diff(name, prepend=-1) != 0 for name in names], axis=0)
    edges = [*np.flatnonzero(is_first).tolist(), ordered.num_rows]
    parts = [ordered.slice(first, end - first) for first, end in itertools.pairwise(edges)]
    del rows, ordered  # from here on who joins holds them, and lets go column by column
    while parts:
        yield join_minutes(parts.pop(0))


def _sort_rows(table: pa.Table) -> NDArray[np.int64]:
    columns = [(name, "ascending") for name in ("minute_start", "timestamp_type", "part")]
    names = table.select([name for name, _ in columns])
    order: NDArray[np.int64] = pc.sort_indices(names, sort_keys=columns).to_numpy().astype(np.int64)
    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """Where the elements of each row's arrays go; arrays are moved one by one, for there may be gigabytes of them.

    Attributes:
        order: Rows as they follow each other.
        ends: Where the elements of the row in each place end, with a 0 in front.
    """

    order: NDArray[np.int64]
    ends: NDArray[np.int64]

    def items(self) -> Iterator[tuple[int, slice]]:
        """Each row and the place of its elements."""
        for row, first, end in zip(self.order.tolist(), self.ends[:-1].tolist(), self.ends[1:].tolist(), strict=True):
            yield row, slice(first, end)

    def lay_out(self, column: pa.ChunkedArray) -> NDArray[np.int32]:
        """The elements of a column of arrays, one after another."""
        laid_out = np.empty(int(self.ends[-1]), np.int32)
        arrays = list(_iter_arrays(column))
        for row, place in self.items():
            laid_out[place] = arrays[row]
        return laid_out


def _iter_arrays(column: pa.ChunkedArray) -> Iterator[NDArray[Any]]:
    """Each row's array; nothing is copied."""
    for chunk in column.chunks:
        values = chunk.values.to_numpy()
        for first, end in itertools.pairwise(chunk.offsets.to_pylist()):
            yield values[first:end]


def _join_keys(table: pa.Table, places: _Places) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """All keys once, rising, and the indexes of the rows as indexes into them."""
    listed = list(_iter_arrays(table["keys"]))
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *listed]))
    key_index = places.lay_out(table["key_index"])
    for row, place in places.items():
        if len(listed[row]):
            of_keys = np.searchsorted(keys, listed[row]).astype(np.int32)
            found = key_index[place]
            found[found >= 0] = of_keys[found[found >= 0]]
    return keys, key_index
