"""Sums over decoded records and a count per key, as a Numba kernel; `record_tally` has the same in plain Python.

Keys are told apart by a 64-bit hash (MurmurHash3's mixing steps over 8-byte words): among ten million keys two are taken
for one with a chance of 3 in a million.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
from numba.core import types

from pipeline.codec.log.machine import address_of, load_byte, load_word
from pipeline.codec.log.scans import RECORD_ROW
from pipeline.compilation import inlined, kernel, part

if TYPE_CHECKING:
    from pipeline.codec.log.header_kernels import Array, Row, Rows

Word = Any  # inside a kernel, uint64

_RECORDS = types.Array(nb.from_dtype(RECORD_ROW), 1, "C", readonly=True)
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
_MASK = types.Array(types.boolean, 1, "C", readonly=True)
_INT64, _INT32, _UINT64 = (types.Array(kind, 1, "C") for kind in (types.int64, types.int32, types.uint64))

NULL_KEYS, TOMBSTONES, KEY_BYTES, VALUE_BYTES, HEADERS, MIN_TIMESTAMP, MAX_TIMESTAMP, TOTAL_COUNT = range(8)
"""Places in the array of totals."""


@inlined
def _rotate(word: Word, bits: int) -> Word:
    return (word << nb.uint64(bits)) | (word >> nb.uint64(64 - bits))


@inlined
def _mix(state: Word, word: Word) -> Word:
    word = _rotate(word * nb.uint64(0x87C37B91114253D5), 31) * nb.uint64(0x4CF5AD432745937F)
    return _rotate(state ^ word, 27) * nb.uint64(5) + nb.uint64(0x52DCE729)


@part
def hash_bytes(address: Word, size: int) -> Word:
    """Hashes `size` bytes at an address to 64 bits."""
    state = nb.uint64(size) * nb.uint64(0x9E3779B97F4A7C15)
    left = size
    while left >= 8:
        state = _mix(state, load_word(address))
        address += nb.uint64(8)
        left -= 8
    word = nb.uint64(0)
    for i in range(left):
        word |= load_byte(address + nb.uint64(i)) << nb.uint64(8 * i)
    if left:
        state = _mix(state, word)
    state ^= state >> nb.uint64(33)
    state *= nb.uint64(0xFF51AFD7ED558CCD)
    return state ^ (state >> nb.uint64(33))


@inlined
def find_slot(slots: Array, hashes: Array, key_hash: Word) -> Word:
    """The slot that holds a key, or the empty one where it belongs.

    Args:
        slots: Index of a key plus one, or 0; length a power of two, not full.
        hashes: By key.
        key_hash: Its hash.
    """
    last = nb.uint64(len(slots) - 1)
    slot = key_hash & last
    while slots[slot] and hashes[slots[slot] - 1] != key_hash:
        slot = (slot + nb.uint64(1)) & last
    return slot


@kernel(types.void(_UINT64, types.int64, _INT32))
def fill_slots(hashes: Array, count: int, slots: Array) -> None:
    """Enters the first `count` hashes into an empty table of slots, whose length is a power of two."""
    last = nb.uint64(len(slots) - 1)
    for index in range(count):
        slot = hashes[index] & last
        while slots[slot]:
            slot = (slot + nb.uint64(1)) & last
        slots[slot] = index + 1


@inlined
def _sum_record(record: Row, totals: Array) -> None:
    totals[HEADERS] += record.header_count
    if record.timestamp_ms >= 0:
        totals[MIN_TIMESTAMP] = min(totals[MIN_TIMESTAMP], record.timestamp_ms)
        totals[MAX_TIMESTAMP] = max(totals[MAX_TIMESTAMP], record.timestamp_ms)
    if record.value_length < 0:
        totals[TOMBSTONES] += 1
    else:
        totals[VALUE_BYTES] += record.value_length
    if record.key_length < 0:
        totals[NULL_KEYS] += 1
    else:
        totals[KEY_BYTES] += record.key_length


@kernel(
    nb.types.UniTuple(types.int64, 2)(
        *(_RECORDS, _MASK, _OFFSETS, _BYTES, _INT64, _INT32, _UINT64, _INT64, _INT64),
        *(types.int64, types.int64, _INT32, _INT64),
    )
)
def tally_records(
    records: Rows,
    is_skipped: Array,
    key_offsets: Array,
    keys: Array,
    totals: Array,
    slots: Array,
    hashes: Array,
    counts: Array,
    last_rows: Array,
    count: int,
    chunk_start: int,
    touched: Array,
    counts_before: Array,
) -> tuple[int, int]:
    """Adds the records of a chunk to the totals and to the table of keys.

    Args:
        records: `RECORD_ROW`s.
        is_skipped: By batch of the chunk: its records are not counted.
        key_offsets: Where each key lies in `keys`, one more than records.
        keys: The keys' bytes.
        totals: Sums so far, by place.
        slots: Index of a key plus one, or 0; length a power of two, at least twice the keys there can be.
        hashes: Hash by key, with room for a new key per record; likewise `counts` and `last_rows`.
        counts: Records by key.
        last_rows: Row of the newest record with the key, counted over all chunks.
        count: Keys known already.
        chunk_start: Rows of all chunks before.
        touched: Takes the index of each key that the chunk has, in the order they are first met.
        counts_before: Takes the count each of them had before.

    Returns:
        Keys known now, and how many of them the chunk has.
    """
    memory = address_of(keys)
    touched_count = 0
    for row in range(len(records)):
        record = records[row]
        if is_skipped[record.batch_index]:
            continue
        _sum_record(record, totals)
        if record.key_length < 0:
            continue
        key_hash = hash_bytes(memory + nb.uint64(key_offsets[row]), nb.int64(record.key_length))
        slot = find_slot(slots, hashes, key_hash)
        index = slots[slot] - 1
        if index < 0:
            index = count
            count += 1
            slots[slot] = count
            hashes[index], counts[index], last_rows[index] = key_hash, 0, -1
        if last_rows[index] < chunk_start:
            touched[touched_count] = index
            counts_before[touched_count] = counts[index]
            touched_count += 1
        counts[index] += 1
        last_rows[index] = chunk_start + row
    return count, touched_count


@kernel(types.int64(_UINT64, _INT64, _INT32, _UINT64, _INT64, types.int64, _INT32))
def merge_keys(
    new_hashes: Array, added: Array, slots: Array, hashes: Array, counts: Array, count: int, touched: Array
) -> int:
    """Adds keys that are counted already.

    Args:
        new_hashes: Their hashes, each once.
        added: How many records each has.
        slots: As in `tally_records`, as are the arguments after it.
        hashes: Hash by key.
        counts: Records by key.
        count: Keys known already.
        touched: Takes the index of each.

    Returns:
        Keys known now.
    """
    for i in range(len(new_hashes)):
        slot = find_slot(slots, hashes, new_hashes[i])
        index = slots[slot] - 1
        if index < 0:
            index = count
            count += 1
            slots[slot] = count
            hashes[index], counts[index] = new_hashes[i], 0
        counts[index] += added[i]
        touched[i] = index
    return count
