"""Counting records and bytes per key, as a Numba kernel; `key_counts` has the same in plain Python.

As in `key_kernels`, keys are told apart by a 64-bit hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np
from numba.core import types

from pipeline.codec.log.machine import address_of, prefetch
from pipeline.codec.log.scans import RECORD_ROW
from pipeline.codec.records.key_kernels import hash_bytes
from pipeline.compilation import READ_ONLY_BYTES, READ_ONLY_MASK, kernel, part

if TYPE_CHECKING:
    from pipeline.codec.log.header_kernels import Array, Rows
    from pipeline.codec.records.key_kernels import Word

KEY_ROW = np.dtype(
    [
        ("hash", np.uint64),
        ("record_count", np.int64),
        ("size_bytes", np.int64),
        ("first_row", np.int64),  # of the scan in which the key was met first
    ],
    align=True,
)
NULL_COUNT, NULL_BYTES, TOTAL_COUNT = range(3)
"""Places in the array of totals."""

_BLOCK = 128
_ROW_BYTES = KEY_ROW.itemsize
_RECORDS = types.Array(nb.from_dtype(RECORD_ROW), 1, "C", readonly=True)
_ROWS = types.Array(nb.from_dtype(KEY_ROW), 1, "C")
_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
_SLOTS, _TOTALS = types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C")


@kernel(types.void(_ROWS, types.int64, _SLOTS))
def fill_key_slots(rows: Rows, count: int, slots: Array) -> None:
    """Enters the first `count` rows into an empty table of slots, whose length is a power of two."""
    last = nb.uint64(len(slots) - 1)
    for index in range(count):
        slot = rows[index].hash & last
        while slots[slot]:
            slot = (slot + nb.uint64(1)) & last
        slots[slot] = index + 1


@part
def _look_ahead(
    records: Rows,
    block: int,
    end: int,
    key_offsets: Array,
    memory: Word,
    hashes: Array,
    slots: Array,
    row_memory: Word,
) -> None:
    """Hashes the keys of a block, and asks for what counting it needs: a table of many keys lies in no near cache."""
    last = nb.uint64(len(slots) - 1)
    slot_memory = address_of(slots)
    for at in range(block, end):
        if records[at].key_length >= 0:
            key_hash = hash_bytes(memory + nb.uint64(key_offsets[at]), nb.int64(records[at].key_length))
            hashes[at - block] = key_hash
            prefetch(slot_memory + nb.uint64(4) * (key_hash & last))
    for at in range(block, end):
        if records[at].key_length >= 0:
            index = slots[hashes[at - block] & last] - 1
            prefetch(row_memory + nb.uint64(_ROW_BYTES) * nb.uint64(max(index, 0)))


@kernel(
    nb.types.UniTuple(types.int64, 2)(
        *(_RECORDS, types.int64, READ_ONLY_MASK, _OFFSETS, READ_ONLY_BYTES),
        *(_SLOTS, _ROWS, types.int64, types.int64, _TOTALS),
    )
)
def count_keys(
    records: Rows,
    start: int,
    is_skipped: Array,
    key_offsets: Array,
    keys: Array,
    slots: Array,
    rows: Rows,
    count: int,
    limit: int,
    totals: Array,
) -> tuple[int, int]:
    """Counts records until all are, or until a key is met for which there is no room.

    Args:
        records: `RECORD_ROW`s.
        start: The first of them to count.
        is_skipped: By batch of the scan: its records are not counted.
        key_offsets: Where each key lies in `keys`, one more than records.
        keys: The keys' bytes.
        slots: Index of a key plus one, or 0; length a power of two above `limit`.
        rows: `KEY_ROW` by key.
        count: Keys known already.
        limit: Keys there is room for.
        totals: Sums over null keys, by place.

    Returns:
        The record that was not counted (the number of records if all were), and the keys known now.
    """
    memory, row_memory = address_of(keys), address_of(rows)
    last = nb.uint64(len(slots) - 1)
    hashes = np.empty(_BLOCK, np.uint64)
    for block in range(start, len(records), _BLOCK):
        end = min(block + _BLOCK, len(records))
        _look_ahead(records, block, end, key_offsets, memory, hashes, slots, row_memory)
        for at in range(block, end):
            record = records[at]
            if is_skipped[record.batch_index]:
                continue
            if record.key_length < 0:
                totals[NULL_COUNT] += 1
                totals[NULL_BYTES] += record.size_bytes
                continue
            key_hash = hashes[at - block]
            slot = key_hash & last
            while slots[slot] and rows[slots[slot] - 1].hash != key_hash:
                slot = (slot + nb.uint64(1)) & last
            index = slots[slot] - 1
            if index < 0:
                if count == limit:
                    return at, count
                index = count
                count += 1
                slots[slot] = count
                row = rows[index]
                row.hash = key_hash
                row.record_count = 0
                row.size_bytes = 0
                row.first_row = at
            row = rows[index]
            row.record_count += 1
            row.size_bytes += record.size_bytes
    return len(records), count
