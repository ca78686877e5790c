"""From packed chunks of arrivals to rows of `silver.arrivals`: the records of all partitions of a topic as one sequence.

Chunks come with those of one session, topic and minute next to each other, by the time of their first record. No more than
a few million records are held at once, however many a minute has: what lies before the first record of the newest chunk
can be put in order and written.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.arrays import Ints
from pipeline.calibration.session_traffic import NO_KEY
from pipeline.calibration.within_ms import ArrivedRecords, put_in_order, sort_within
from pipeline.codec.records.arrival_layout import SUMS
from pipeline.tables.silver import RECORDS_PER_ROW

BLOCK_RECORDS = 2 * RECORDS_PER_ROW  # records gathered before they are put in order

GROUP = (
    *("window_start_ms", "topic", "topic_id", "producer_id", "producer_epoch"),
    *("minute_start_ms", "timestamp_type"),
)
"""Columns of what is put in order by itself; chunks are sorted by them, then by `first_ms`."""

CHUNK_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        *((name, pa.int64()) for name in ("partition", "window_start_ms", "minute_start_ms")),
        *((name, pa.int64()) for name in ("producer_id", "producer_epoch")),
        ("timestamp_type", pa.string()),
        ("record_count", pa.int64()),
        *((name, pa.int64()) for name in SUMS),
        ("first_ms", pa.int64()),
        *((name, pa.binary()) for name in ("at_ms", "body_bytes", "key_number")),
    ]
)
"""A chunk of a segment, one group of it: arrays as the bytes of `PackedArrivals`; no `key_number` where all keys are null."""

ROW_SCHEMA = pa.schema(
    [
        *(CHUNK_SCHEMA.field(name) for name in GROUP),
        ("part", pa.int64()),
        ("record_count", pa.int64()),
        *((name, pa.int64()) for name in SUMS),
        *((name, pa.list_(pa.int32())) for name in ("gap_ms", "body_bytes", "partition", "key_index")),
        ("keys", pa.list_(pa.int64())),
    ]
)
"""Rows of `silver.arrivals` with instants as milliseconds."""


_ITEM_BYTES = {"at_ms": 2, "body_bytes": 4, "key_number": 8}


def are_chunks_whole(chunks: pa.Table) -> bool:
    """Whether each array of each chunk holds as many values as the chunk has records; `key_number` may hold none."""
    counts = chunks["record_count"].to_numpy()
    for name, item_bytes in _ITEM_BYTES.items():
        lengths = pc.fill_null(pc.binary_length(chunks[name]), -1).to_numpy()
        is_whole = (lengths == item_bytes * counts) | ((lengths == 0) & (name == "key_number"))
        if not is_whole.all():
            return False
    return True


def join_chunks(
    chunks: Iterable[pa.RecordBatch],
    *,
    is_named: bool,
    block_records: int = BLOCK_RECORDS,
    records_per_row: int = RECORDS_PER_ROW,
) -> Iterator[pa.RecordBatch]:
    """Puts the records of chunks in order, as rows of `ROW_SCHEMA` with at most `records_per_row` each.

    Chunks of `CHUNK_SCHEMA` are sorted by `GROUP` and `first_ms`; how they are cut into record batches plays no part.
    Key numbers are those of ids where `is_named`; else 1 is a key and 2 one of no bytes.
    """
    to_rows = partial(_make_rows, is_named=is_named, per_row=records_per_row)
    held, record_count, limit = list[pa.RecordBatch](), 0, block_records
    first_part = 0  # of the first group held: earlier ones are written
    for chunk in chunks:
        if chunk.num_rows:
            held.append(chunk)
            record_count += _count(chunk)
        if record_count < limit:
            continue
        waiting, held = pa.concat_batches(held), []
        starts = _group_starts(waiting)
        last = int(starts[-1])  # all groups but the last one are whole
        if last:
            yield to_rows(*_order_groups(waiting.slice(0, last), starts[:-1]), first_part)
            first_part = 0
        waiting, start = waiting.slice(last), np.zeros(1, np.int64)
        safe_ms = waiting["first_ms"][waiting.num_rows - 1].as_py()  # before it no later chunk adds to the last group
        records = _unpack(waiting, start)
        if count := int(np.count_nonzero(records.at_ms < safe_ms)) // records_per_row * records_per_row:
            ordered = put_in_order(records, _seeds(waiting, start))
            head = waiting.slice(0, 1)
            yield to_rows(head, ordered.take(slice(0, count)), _add_up(waiting, start), first_part)
            first_part += count // records_per_row
            waiting = _pack(head, ordered.take(slice(count, None)))
        held, record_count = [waiting], _count(waiting)
        limit = max(block_records, 2 * record_count)  # else one long millisecond is sorted again and again
    if held:
        waiting = pa.concat_batches(held)
        yield to_rows(*_order_groups(waiting, _group_starts(waiting)), first_part)


def _order_groups(held: pa.RecordBatch, starts: Ints) -> tuple[pa.RecordBatch, ArrivedRecords, pa.Table]:
    """A chunk of each group, the records of all in order, and the sums of each."""
    ordered = put_in_order(_unpack(held, starts), _seeds(held, starts))
    return held.take(pa.array(starts)), ordered, _add_up(held, starts)


def _make_rows(
    heads: pa.RecordBatch, ordered: ArrivedRecords, sums: pa.Table, first_part: int, *, is_named: bool, per_row: int
) -> pa.RecordBatch:
    """Rows of groups, given a chunk of each, their records, and sums that stand in a group's first row."""
    of_group = np.bincount(ordered.group, minlength=heads.num_rows)
    row_counts = np.maximum(1, -(-of_group // per_row))  # a group without records has a row too
    group = np.repeat(np.arange(len(of_group)), row_counts)
    part = np.arange(len(group)) - (np.cumsum(row_counts) - row_counts)[group]
    record_counts = np.clip(of_group[group] - part * per_row, 0, per_row)
    of_rows = heads.select(GROUP).take(pa.array(group))
    columns = {name: of_rows[name] for name in GROUP}
    columns["part"] = pa.array(part + np.where(group == 0, first_part, 0))
    columns["record_count"] = pa.array(record_counts)
    sums = sums.take(pa.array(group))
    columns |= {name: pc.if_else(pa.array(part == 0), sums[name].combine_chunks(), 0) for name in SUMS}
    columns |= _make_arrays(ordered, record_counts, is_named=is_named)
    return pa.RecordBatch.from_arrays([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)


def _count(chunk: pa.RecordBatch) -> int:
    return int(chunk["record_count"].to_numpy().sum())


def _group_starts(held: pa.RecordBatch) -> Ints:
    is_first = np.zeros(held.num_rows, np.bool_)
    is_first[0] = True
    for name in GROUP:
        column = held[name]
        is_first[1:] |= np.asarray(pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)))
    return np.flatnonzero(is_first)


def _seeds(held: pa.RecordBatch, starts: Ints) -> NDArray[np.uint64]:
    """A seed for each group, of its names."""
    names = held.select(GROUP).take(pa.array(starts)).to_pylist()
    texts = ("\0".join(map(str, name.values())).encode() for name in names)
    return np.array(
        [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts], np.uint64
    )


def _add_up(held: pa.RecordBatch, starts: Ints) -> pa.Table:
    """The sums of each group; NULL where a chunk has none."""
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=held.num_rows))
    grouped = pa.table([*held.select(SUMS), pa.array(group)], [*SUMS, "group"]).group_by("group", use_threads=False)
    is_whole = pc.ScalarAggregateOptions(skip_nulls=False)
    return grouped.aggregate([(name, "sum", is_whole) for name in SUMS]).rename_columns(["group", *SUMS])


def _unpack(held: pa.RecordBatch, starts: Ints) -> ArrivedRecords:
    counts = held["record_count"].to_numpy()
    group = np.searchsorted(starts, np.arange(held.num_rows), side="right") - 1
    key_number = np.zeros(int(counts.sum()), np.int64)
    is_keyed = np.asarray(pc.binary_length(held["key_number"])) > 0
    key_number[np.repeat(is_keyed, counts)] = np.frombuffer(_bytes(held["key_number"]), np.int64)
    return ArrivedRecords(
        group=np.repeat(group, counts),
        at_ms=np.frombuffer(_bytes(held["at_ms"]), np.uint16),
        body_bytes=np.frombuffer(_bytes(held["body_bytes"]), np.int32),
        partition=np.repeat(held["partition"].to_numpy().astype(np.int32), counts),
        key_number=key_number,
    )


def _bytes(column: pa.Array) -> memoryview:
    """All values one after another; nothing is copied."""
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32, len(column) + 1, offset=4 * column.offset)
    return memoryview(data or b"")[offsets[0] : offsets[-1]]


def _pack(head: pa.RecordBatch, records: ArrivedRecords) -> pa.RecordBatch:
    """Records of one group as chunks again, one a partition; their other counts are written already."""
    packed = records.take(np.argsort(records.partition, kind="stable"))
    partitions, first, counts = np.unique(packed.partition, return_index=True, return_counts=True)
    shared = head.select(GROUP).to_pylist()[0] | dict.fromkeys(SUMS, 0)
    rows = [
        {
            **shared,
            "partition": partition,
            "record_count": count,
            "first_ms": int(packed.at_ms[start : start + count].min()),
            **{
                name: getattr(packed, name)[start : start + count].tobytes()
                for name in ("at_ms", "body_bytes", "key_number")
            },
        }
        for partition, start, count in zip(partitions.tolist(), first.tolist(), counts.tolist(), strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=CHUNK_SCHEMA)


def _make_arrays(ordered: ArrivedRecords, record_counts: Ints, *, is_named: bool) -> dict[str, pa.Array]:
    ends = np.concatenate([[0], np.cumsum(record_counts)])
    gap_ms = ordered.at_ms.astype(np.int32)
    gap_ms[1:] -= ordered.at_ms[:-1]
    starts = ends[:-1][record_counts > 0]
    gap_ms[starts] = ordered.at_ms[starts]
    keys, key_ends, key_index = _index_keys(ordered.key_number, record_counts, is_named=is_named)
    return {
        "gap_ms": _lists(ends, gap_ms),
        "body_bytes": _lists(ends, ordered.body_bytes),
        "partition": _lists(ends, ordered.partition),
        "key_index": _lists(ends, key_index),
        "keys": _lists(key_ends, keys),
    }


def _lists(ends: Ints, values: NDArray[np.int32] | Ints) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), pa.array(values))


def _index_keys(key_number: Ints, record_counts: Ints, *, is_named: bool) -> tuple[Ints, Ints, NDArray[np.int32]]:
    """The distinct keys of each row, rising; where each row's end, with a 0 in front; and by record its key's index."""
    if not is_named:
        no_keys = np.zeros(0, np.int64), np.zeros(len(record_counts) + 1, np.int64)
        return *no_keys, (NO_KEY - key_number).astype(np.int32)
    key_index = np.full(len(key_number), NO_KEY, np.int32)
    keyed = np.flatnonzero(key_number)
    row = np.repeat(np.arange(len(record_counts)), record_counts)[keyed]
    order = sort_within(row, key_number[keyed])
    numbers, rows = key_number[keyed[order]], row[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (numbers[1:] != numbers[:-1]) | (rows[1:] != rows[:-1])
    key_ends = np.concatenate([[0], np.cumsum(np.bincount(rows[is_new], minlength=len(record_counts)))])
    key_index[keyed[order]] = np.cumsum(is_new) - 1 - key_ends[rows]
    return numbers[is_new], key_ends, key_index
