"""Packing arrivals, as Numba kernels; `arrivals.pack_arrivals` is the same in NumPy and their oracle.

As in `key_kernels`, keys are told apart by a 64-bit hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
from numba.core import types

from pipeline.codec.log.header_kernels import ROWS
from pipeline.codec.log.machine import address_of
from pipeline.codec.log.scans import RECORD_ROW, Flaw
from pipeline.codec.records.arrival_layout import (
    ALL_EPOCHS,
    FIXED_BODY_BYTES,
    GROUP_ROW,
    MINUTE_MS,
    NO_WINDOW,
    TOLERANCE_MS,
)
from pipeline.codec.records.key_kernels import find_slot, hash_bytes
from pipeline.compilation import READ_ONLY_BYTES, READ_ONLY_MASK, inlined, kernel, part

if TYPE_CHECKING:
    from pipeline.codec.log.header_kernels import Array, Row, Rows
    from pipeline.codec.records.key_kernels import Word

_RECORDS = types.Array(nb.from_dtype(RECORD_ROW), 1, "C", readonly=True)
_GROUPS = types.Array(nb.from_dtype(GROUP_ROW), 1, "C")
_READ_ONLY_INT64 = types.Array(types.int64, 1, "C", readonly=True)
_INT64, _INT32, _UINT64, _UINT16 = (
    types.Array(kind, 1, "C") for kind in (types.int64, types.int32, types.uint64, types.uint16)
)
_SOUND = int(Flaw.NONE)
_NONE = -1


@inlined
def _varint_bytes(value: int) -> int:
    """Bytes of a zig-zag varint."""
    rest = nb.uint64((value << 1) ^ (value >> 63)) >> nb.uint64(7)
    size_bytes = 1
    while rest:
        rest >>= nb.uint64(7)
        size_bytes += 1
    return size_bytes


@inlined
def _field_bytes(length: int) -> int:
    if length < 0:
        size_bytes = 1
    elif length < 64:
        size_bytes = 1 + length
    else:
        size_bytes = _varint_bytes(length) + length
    return size_bytes


@part
def _measure_body(record: Row, batch: Row) -> int:
    """See `arrivals.measure_bodies`."""
    if record.header_count <= 0:
        return (
            FIXED_BODY_BYTES
            + _field_bytes(nb.int64(record.key_length))
            + _field_bytes(nb.int64(record.value_length))
            + 1
        )
    length_bytes = 1
    while length_bytes < 5 and record.size_bytes > (1 << (7 * length_bytes - 1)) - 1 + length_bytes:
        length_bytes += 1
    long_bytes = _varint_bytes(record.offset - batch.base_offset) - 1
    if not batch.attributes & 8:
        long_bytes += _varint_bytes(record.timestamp_ms - batch.base_timestamp_ms) - 1
    return record.size_bytes - length_bytes - long_bytes


@part
def _find_group(window_start_ms: int, minute_start_ms: int, batch: Row, groups: Rows, count: int, slots: Array) -> int:
    """Index of a group; `count` if it is a new one, which is entered."""
    epoch = nb.int64(batch.producer_epoch)
    if batch.magic >= 2 and batch.attributes & 16:
        epoch = nb.int64(ALL_EPOCHS)
    kind = nb.int64(batch.attributes >> 3 & 1) if batch.magic >= 1 else nb.int64(0)
    last = nb.uint64(len(slots) - 1)
    state = nb.uint64(minute_start_ms // MINUTE_MS) * nb.uint64(0x9E3779B97F4A7C15)
    state = (state ^ nb.uint64(batch.producer_id)) * nb.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ nb.uint64(epoch) ^ nb.uint64(window_start_ms) ^ (state >> nb.uint64(31))) * nb.uint64(
        0x94D049BB133111EB
    )
    slot = (state >> nb.uint64(20)) & last
    while slots[slot]:
        group = groups[slots[slot] - 1]
        if (
            group.minute_start_ms == minute_start_ms
            and group.window_start_ms == window_start_ms
            and group.producer_id == batch.producer_id
            and group.producer_epoch == epoch
            and group.is_append_time == kind
        ):
            return slots[slot] - 1
        slot = (slot + nb.uint64(1)) & last
    slots[slot] = count + 1
    group = groups[count]
    group.window_start_ms, group.minute_start_ms = window_start_ms, minute_start_ms
    group.producer_id, group.producer_epoch, group.is_append_time = batch.producer_id, epoch, kind
    group.record_count, group.unreadable_record_count, group.aborted_record_count = 0, 0, 0
    group.outlier_record_count, group.late_record_count, group.first_ms = 0, 0, MINUTE_MS
    return count


@part
def _place(stamp_ms: int, event_ms: int, ahead_ms: int, is_outlier: bool) -> tuple[int, bool]:
    """See `arrivals.place_records`: when a record was created, and whether its own timestamp is out of line."""
    is_out = is_outlier or stamp_ms < max(event_ms - TOLERANCE_MS, 0) or stamp_ms > event_ms
    if not is_out:
        placed_ms = stamp_ms
    elif ahead_ms >= 0:
        placed_ms = ahead_ms
    else:
        placed_ms = event_ms
    return placed_ms, is_out


@part
def _count_unreadable(
    batches: Rows, window_starts: Array, event_times: Array, groups: Rows, count: int, slots: Array
) -> int:
    """Counts the records of batches that cannot be read by their headers; gives how many groups there are then."""
    for batch_index in range(len(batches)):
        batch = batches[batch_index]
        if batch.flaw == _SOUND or window_starts[batch_index] == NO_WINDOW:
            continue
        event_ms = event_times[batch_index]
        index = _find_group(window_starts[batch_index], event_ms - event_ms % MINUTE_MS, batch, groups, count, slots)
        count = max(count, index + 1)
        groups[index].unreadable_record_count += max(batch.record_count, 0)
    return count


@kernel(
    types.int64(
        *(_RECORDS, ROWS, _READ_ONLY_INT64, _READ_ONLY_INT64, READ_ONLY_MASK, READ_ONLY_MASK),
        *(_GROUPS, _INT32, _INT32, _UINT16, _INT32),
    )
)
def group_records(
    records: Rows,
    batches: Rows,
    window_starts: Array,
    event_times: Array,
    is_outlier: Array,
    is_aborted: Array,
    groups: Rows,
    slots: Array,
    record_groups: Array,
    at_ms: Array,
    body_bytes: Array,
) -> int:
    """Finds the group of each record, and what is stored of it.

    Args:
        records: `RECORD_ROW`s, in the order of their batches.
        batches: `HEADER_ROW`s.
        window_starts: By batch; `NO_WINDOW`: it does not count.
        event_times: By batch.
        is_outlier: By batch.
        is_aborted: By batch.
        groups: Takes a `GROUP_ROW` each, with room for one per record and batch.
        slots: Zeros, as many as a power of two, at least twice the groups there can be.
        record_groups: Takes the index of each record's group, or -1 where it does not count.
        at_ms: Takes its milliseconds within the minute.
        body_bytes: Takes its bytes.

    Returns:
        The number of groups.
    """
    count = 0
    last_batch, last_minute, index = _NONE, nb.int64(_NONE), _NONE
    ahead_ms = nb.int64(_NONE)
    for row in range(len(records)):
        record = records[row]
        batch_index = record.batch_index
        window_start = window_starts[batch_index]
        if window_start == NO_WINDOW:
            record_groups[row] = _NONE
            continue
        batch = batches[batch_index]
        if batch_index != last_batch:
            last_batch, last_minute, ahead_ms = batch_index, nb.int64(_NONE), nb.int64(_NONE)
        placed_ms, is_out = _place(record.timestamp_ms, event_times[batch_index], ahead_ms, is_outlier[batch_index])
        minute = placed_ms - placed_ms % MINUTE_MS
        if minute != last_minute:
            index = _find_group(window_start, minute, batch, groups, count, slots)
            count = max(count, index + 1)
            last_minute = minute
        group = groups[index]
        group.record_count += 1
        group.aborted_record_count += is_aborted[batch_index]
        group.outlier_record_count += is_out
        group.late_record_count += not is_out and placed_ms < ahead_ms
        group.first_ms = min(group.first_ms, placed_ms - minute)
        if not is_out:
            ahead_ms = placed_ms
        record_groups[row] = index
        at_ms[row] = placed_ms - minute
        body_bytes[row] = _measure_body(record, batch)
    return _count_unreadable(batches, window_starts, event_times, groups, count, slots)


@kernel(
    nb.types.UniTuple(types.int64, 2)(
        *(_RECORDS, types.int64, _READ_ONLY_INT64, READ_ONLY_BYTES),
        *(_INT32, _UINT64, _INT64, types.int64, types.int64, _INT32),
    )
)
def index_keys(
    records: Rows,
    start: int,
    key_offsets: Array,
    keys: Array,
    slots: Array,
    hashes: Array,
    first_rows: Array,
    count: int,
    limit: int,
    key_indexes: Array,
) -> tuple[int, int]:
    """Finds the place of each record's key among those known, until one is met for which there is no room.

    Args:
        records: `RECORD_ROW`s.
        start: The first of them to look at.
        key_offsets: Where each key lies in `keys`, one more than records.
        keys: The keys' bytes.
        slots: Index of a key plus one, or 0; length a power of two above `limit`.
        hashes: By key.
        first_rows: Takes the record where each new key was met.
        count: Keys known already.
        limit: Keys there is room for.
        key_indexes: Takes the index of each record's key, or -1 for a null one.

    Returns:
        The record that was not looked at (the number of records if all were), and the keys known now.
    """
    memory = address_of(keys)
    for row in range(start, len(records)):
        length = nb.int64(records[row].key_length)
        if length < 0:
            key_indexes[row] = _NONE
            continue
        key_hash: Word = hash_bytes(memory + nb.uint64(key_offsets[row]), length)
        slot = find_slot(slots, hashes, key_hash)
        if not slots[slot]:
            if count == limit:
                return row, count
            hashes[count], first_rows[count] = key_hash, row
            count += 1
            slots[slot] = count
        key_indexes[row] = slots[slot] - 1
    return len(records), count


@kernel(
    types.void(
        *(_INT32, _UINT16, _INT32, _INT64, types.boolean, _INT64),
        *(_UINT16, _INT32, _INT64),
    )
)
def gather_groups(
    record_groups: Array,
    at_ms: Array,
    body_bytes: Array,
    key_numbers: Array,
    is_keyed: bool,
    ends: Array,
    gathered_at_ms: Array,
    gathered_bytes: Array,
    gathered_numbers: Array,
) -> None:
    """Lays records of one group side by side, in the order they have.

    Args:
        record_groups: By record; -1: it is left out.
        at_ms: By record.
        body_bytes: By record.
        key_numbers: By record; empty where no key is wanted.
        is_keyed: There are key numbers.
        ends: Where the next record of each group goes; moved on.
        gathered_at_ms: Written.
        gathered_bytes: Written.
        gathered_numbers: Written where there are key numbers.
    """
    for row in range(len(record_groups)):
        index = record_groups[row]
        if index < 0:
            continue
        place = ends[index]
        ends[index] = place + 1
        gathered_at_ms[place] = at_ms[row]
        gathered_bytes[place] = body_bytes[row]
        if is_keyed:
            gathered_numbers[place] = key_numbers[row]
