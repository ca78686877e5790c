"""Recorded traffic of a producer session as plain arrays: its records from `silver.arrivals`, and its batches."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.arrays import Flags, Ints
from pipeline.calibration.within_ms import Pattern, choose_pattern, place_within_ms
from pipeline.model.window import NS_PER_MS

Which = slice | Flags | Ints
"""Some of the records or batches: a slice, a flag for each, or their indexes."""

NO_KEY = -1  # in place of an index into `SessionTraffic.keys`: the record's key is null
CREATE_TIME = "CreateTime"
SESSION = ("topic", "topic_id", "producer_id", "producer_epoch")
"""Columns of `silver.arrivals` that name a session within a cluster and window."""
_MARKERS_MS = 20  # between markers of one transaction: a client waits as long before it begins the next (`ADD_PARTITIONS_RETRY_BACKOFF_MS`)
_COUNTS = ("unreadable_record_count", "aborted_record_count", "outlier_record_count", "late_record_count")
_BY_RECORD = ("elapsed_ms", "body_bytes", "partition", "key_index")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionTraffic:
    """Records of one producer session to one topic in a window: an element per record, in order of time.

    The order within a millisecond says nothing: it follows from sizes and keys, and never from the recorded partition.
    """

    topic: str
    topic_id: str
    producer_id: int  # -1 where all producers without idempotence are pooled
    producer_epoch: int  # -1 where pooled, and for transactional producers, whose epochs are one session
    start_ms: int  # UTC milliseconds that `elapsed_ms` counts from: the begin of the first minute
    elapsed_ms: NDArray[np.int32]  # int32, not falling: when the record was created, after `start_ms`
    body_bytes: NDArray[np.int32]  # int32, as `simulator.engine.batches.measure_body_bytes` has it
    partition: NDArray[np.int32]  # int32, where it was written
    # int32, index into `keys`, or `NO_KEY`; where no ids of keys are stored -2 for a key, -3 for one of no bytes
    key_index: NDArray[np.int32]
    # int64, rising: the first 64 bits of key ids, see `codec.key_numbers.number_of_id`; in Spark SQL
    # `CAST(conv(substring(key_id, 1, 16), 16, -10) AS BIGINT)`
    keys: Ints
    # `CreateTime`, `LogAppendTime` or both: with the latter, records of a batch came at one instant, that of its append
    timestamp_types: tuple[str, ...] = (CREATE_TIME,)
    unreadable_record_count: int = 0  # records besides these, in batches that could not be read
    aborted_record_count: int = 0
    outlier_record_count: int = 0  # of these, records whose timestamp was out of line: they are placed by append order
    late_record_count: int = 0  # of these, records with a timestamp before that of the record ahead of it in the batch
    sampling_rate: float = 1.0  # part of the window's time that was read; 1 for all

    def __len__(self) -> int:
        return len(self.elapsed_ms)

    @property
    def at_ms(self) -> Ints:
        """When each record was created, UTC milliseconds."""
        return self.elapsed_ms.astype(np.int64) + self.start_ms

    @property
    def timestamp_type(self) -> str:
        """`LogAppendTime` where any of its timestamps is, else `CreateTime`."""
        return self.timestamp_types[-1]

    @property
    def is_pooled(self) -> bool:
        """Whether several producers may be behind it."""
        return self.producer_id < 0

    @property
    def is_keyed(self) -> Flags:
        """By record: it has a key, be it an empty one."""
        is_keyed: Flags = self.key_index != NO_KEY
        return is_keyed

    def place_records(self, base_ms: int, seed: int) -> Ints:
        """When each record was sent, ns after an instant: within its millisecond by chance."""
        placed = place_within_ms(self.elapsed_ms, choose_pattern(self.elapsed_ms), seed)
        placed += (self.start_ms + int(self.elapsed_ms[0]) - base_ms) * NS_PER_MS
        return placed

    def choose(self, which: Which) -> "SessionTraffic":
        """The same session with some of its records; the counts of special ones stay those of all."""
        return replace(self, **{name: getattr(self, name)[which] for name in _BY_RECORD})

    def deal(self, weights: Sequence[float]) -> "list[SessionTraffic]":
        """Deals pooled records to several producers by weight: at random and always alike, a burst's millisecond to one.

        What independent producers send together is the same as one such stream, dealt by chance.
        """
        elapsed_ms, parts = self.elapsed_ms, np.arange(len(self))
        if choose_pattern(elapsed_ms) is Pattern.BURST:
            parts = np.cumsum(np.diff(elapsed_ms, prepend=elapsed_ms[:1]) != 0)
        drawn = np.random.default_rng(0).random(len(self))[parts]
        owner = np.searchsorted(np.cumsum(weights)[:-1] / sum(weights), drawn, side="right")
        return [self.choose(owner == number) for number in range(len(weights))]


@dataclass(frozen=True, eq=False)
class SessionBatches:
    """Record batches of a producer session in a topic and window, control batches left out; arrays have one element a batch."""

    partition: NDArray[np.int32]
    leader: NDArray[np.int32]  # id of the broker that led when it was written, or -1
    base_ms: Ints  # time of the first record, epoch milliseconds; `max_ms` is the largest in it
    max_ms: Ints
    record_count: Ints
    size_bytes: Ints  # as on disk
    codec: str = "none"  # `none`, or the codec most batches have
    commits_ms: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # see `find_commits`

    def __len__(self) -> int:
        return len(self.partition)

    def select(self, which: Which) -> "SessionBatches":
        arrays = {name: getattr(self, name)[which] for name in _BY_BATCH}
        return replace(self, **arrays)


_BY_BATCH = tuple(one.name for one in fields(SessionBatches))[:6]


def batches_of(stored: pa.Table) -> Callable[[SessionTraffic], SessionBatches]:
    """Makes what selects a session's data batches in a topic; a producer's commits are found once for all its topics."""
    return partial(_select_batches, stored, cache(partial(find_commits, stored)))


def _select_batches(stored: pa.Table, commits_of: Callable[[int], Ints], traffic: SessionTraffic) -> SessionBatches:
    wanted = {name: getattr(traffic, name) for name in SESSION}
    if traffic.producer_epoch < 0:  # pooled: all epochs
        del wanted["producer_epoch"]
    is_own = pc.invert(stored["is_control"])
    for name, value in wanted.items():
        is_own = pc.and_(is_own, pc.equal(stored[name], value))
    rows = stored.filter(is_own)
    codecs = sorted(rows["codec"].cast(pa.string()).value_counts().to_pylist(), key=itemgetter("values"))
    batches = SessionBatches(
        partition=rows["partition"].to_numpy().astype(np.int32),
        leader=rows["leader_id"].to_numpy().astype(np.int32),
        base_ms=_epoch_ms(rows["base_timestamp"], rows["max_timestamp"]),
        max_ms=_epoch_ms(rows["max_timestamp"]),
        record_count=rows["record_count"].to_numpy().astype(np.int64),
        size_bytes=rows["size_bytes"].to_numpy().astype(np.int64),
        codec=max(codecs, key=itemgetter("counts"))["values"] if codecs else "none",
        commits_ms=commits_of(traffic.producer_id),
    )
    # files have rows in any order, and sums of floats depend on it
    return batches.select(np.lexsort([getattr(batches, name) for name in _BY_BATCH]))


def find_commits(stored: pa.Table, producer_id: int) -> Ints:
    """When a producer's application ended its transactions: when each sent its last record, rising, epoch milliseconds.

    `stored` are rows of `silver.record_batches` of the window. A transaction has one marker in each of its partitions, all
    written together: the newest record before any of them in its partition is the transaction's last.
    """
    own, of_partition = pc.equal(stored["producer_id"], producer_id), ("topic", "topic_id", "partition")
    if producer_id < 0 or not pc.any(pc.and_(own, stored["is_control"])).as_py():
        return np.zeros(0, np.int64)
    rows = stored.filter(own).sort_by([(name, "ascending") for name in (*of_partition, "base_offset")])
    is_marker = rows["is_control"].to_numpy()
    places, max_ms = np.arange(len(is_marker)), _epoch_ms(rows["max_timestamp"])
    first = np.maximum.accumulate(np.where(_begin_group(rows, of_partition), places, 0))
    before = np.maximum.accumulate(np.where(is_marker, -1, places))
    sent_ms = np.where(before >= first, max_ms[before], 0)[is_marker]
    order = np.argsort(max_ms[is_marker], kind="stable")
    starts, held, before_ms = list[int](), set[int](), 0
    markers = zip(max_ms[is_marker][order].tolist(), first[is_marker][order].tolist(), strict=True)
    for place, (at_ms, partition) in enumerate(markers):
        if not held or at_ms - before_ms > _MARKERS_MS or partition in held:
            starts.append(place)
            held.clear()
        held.add(partition)
        before_ms = at_ms
    commits = np.unique(np.maximum.reduceat(sent_ms[order], starts))
    return commits[commits > 0]


def commits_ns(commits_ms: Ints, base_ms: int) -> Ints:
    """When an application commits, ns after an instant: once the millisecond of each transaction's last record is over."""
    return (commits_ms + 1 - base_ms) * NS_PER_MS


def _begin_group(rows: pa.Table, columns: Sequence[str]) -> Flags:
    """By row of a sorted table: it is the first with its values of these columns."""
    names = [rows[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in columns]
    is_first: Flags = np.any([np.diff(name, prepend=-1) != 0 for name in names], axis=0)
    return is_first


def _epoch_ms(*instants: pa.ChunkedArray) -> Ints:
    """The first of each row's instants that is known; 0 where none is."""
    known = pc.coalesce(*instants, pa.scalar(0, instants[0].type))
    values: Ints = pc.cast(known, pa.timestamp("ms", tz="UTC"), safe=False).to_numpy().astype(np.int64)
    return values


def iter_sessions(rows: pa.Table) -> Iterator[SessionTraffic]:
    """The sessions of a window, in order of topic, producer id and epoch; from `silver.arrivals` of one cluster."""
    if not rows.num_rows:
        return
    order = pc.sort_indices(rows.select(SESSION), sort_keys=[(name, "ascending") for name in SESSION])
    # sorting is stable: nothing has to be moved where rows are in order, and there may be gigabytes of them
    ordered = rows if (np.diff(order.to_numpy().astype(np.int64)) > 0).all() else rows.take(order)
    edges = [*np.flatnonzero(_begin_group(ordered, SESSION)).tolist(), ordered.num_rows]
    parts = [ordered.slice(first, end - first) for first, end in itertools.pairwise(edges)]
    del rows, ordered  # from here on `_join_minutes` holds them, and frees column by column
    while parts:
        yield _join_minutes(parts.pop(0))


def _join_minutes(table: pa.Table) -> SessionTraffic:
    minute_ms = _epoch_ms(table["minute_start"])
    start_ms = int(minute_ms.min())
    by_time = [(name, "ascending") for name in ("minute_start", "timestamp_type", "part")]
    order = pc.sort_indices(table.select([name for name, _ in by_time]), sort_keys=by_time).to_pylist()
    counts = table["record_count"].to_numpy()[order]
    ends = np.cumsum([0, *counts]).tolist()
    keys, key_index = _join_keys(table, order)
    columns = [table[name] for name in ("partition", "body_bytes", "gap_ms")]
    table = table.drop_columns(["gap_ms", "body_bytes", "partition", "key_index", "keys"])
    elapsed_ms, body_bytes, partition = (_concatenate(columns.pop(), order) for _ in range(3))
    for row, first, end in zip(order, ends[:-1], ends[1:], strict=True):
        np.cumsum(elapsed_ms[first:end], out=elapsed_ms[first:end])
        elapsed_ms[first:end] += minute_ms[row] - start_ms
    joined = [elapsed_ms, body_bytes, partition, key_index]
    if (elapsed_ms[1:] < elapsed_ms[:-1]).any():  # rows of one minute with timestamps of both types
        in_order = np.argsort(elapsed_ms, kind="stable")
        joined = [column[in_order] for column in joined]
    named: dict[str, Any] = dict(zip(_BY_RECORD, joined, strict=True))
    named |= {name: table[name][0].as_py() for name in SESSION}
    named |= {name: int(table[name].to_numpy().sum()) for name in _COUNTS}
    types, rate = tuple(sorted(set(table["timestamp_type"].to_pylist()))), float(table["sampling_rate"][0].as_py())
    return SessionTraffic(start_ms=start_ms, keys=keys, timestamp_types=types, sampling_rate=rate, **named)


def _concatenate(column: pa.ChunkedArray, order: list[int]) -> NDArray[Any]:
    """The elements of a column of arrays, row after row; columns are moved one by one, for each may hold gigabytes."""
    arrays = list(_iter_arrays(column))
    return np.concatenate([arrays[row] for row in order])


def _iter_arrays(column: pa.ChunkedArray) -> Iterator[NDArray[Any]]:
    """Each row's array; nothing is copied."""
    for chunk in column.chunks:
        values = chunk.values.to_numpy()
        for first, end in itertools.pairwise(chunk.offsets.to_pylist()):
            yield values[first:end]


def _join_keys(table: pa.Table, order: list[int]) -> tuple[Ints, NDArray[np.int32]]:
    """All keys once, rising, and the indexes of the rows as indexes into them."""
    of_row = list(_iter_arrays(table["keys"]))
    keys = np.unique(np.concatenate([np.zeros(0, np.int64), *of_row]))
    key_index = _concatenate(table["key_index"], order)
    first = 0
    for row, count in zip(order, table["record_count"].to_numpy()[order].tolist(), strict=True):
        part = key_index[first : first + count]
        part[part >= 0] = np.searchsorted(keys, of_row[row])[part[part >= 0]]
        first += count
    return keys, key_index
