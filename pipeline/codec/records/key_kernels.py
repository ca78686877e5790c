"""The hash table behind `key_table`, as Numba kernels: 25 ns a key, where a dictionary of Python takes 10 times as long.

Keys are distinguished by a 64-bit hash: among ten million keys two are taken for one with a chance of 3 in a million.
Whoever writes to a topic chooses its keys, so the hash has a secret (folded products, as in wyhash, but with secret
words in place of its constants): without it nobody can make keys whose hashes, or the low bits that choose a slot, are
equal. Slots are found by open addressing; their number is a power of two.

References: Wang, wyhash (final version 4): `_wymum`; Carter, Wegman, Universal classes of hash functions, 1979.
"""

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pipeline.codec.records.record_kernels import Array, load_byte
from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part

Word = Any  # inside a kernel, uint64
_LENGTHS, _OFFSETS = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int32, types.int64))
_SECRET = types.Array(types.uint64, 1, "C", readonly=True)
_INT64, _INT32, _HASHES = (types.Array(kind, 1, "C") for kind in (types.int64, types.int32, types.uint64))


@intrinsic  # type: ignore[untyped-decorator]
def _fold(_: object, one: Word, other: Word) -> tuple[Any, Any]:
    """Multiplies to 128 bits and combines the halves by exclusive or."""

    def generate(_: object, builder: Any, __: object, words: Any) -> Any:  # noqa: ANN401 - LLVM's values
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(value, wide) for value in words))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(builder.trunc(product, word), high)

    return types.uint64(types.uint64, types.uint64), generate


@inlined
def _little_endian(data: Array, at: int, size: int) -> Word:
    word = nb.uint64(0)
    for index in range(size):
        word |= nb.uint64(load_byte(data, at + index)) << nb.uint64(8 * index)
    return word


@part
def _hash_bytes(data: Array, at: int, size: int, secret: Array) -> Word:
    """Hashes `size` bytes to 64 bits; the last words of keys of 8 bytes or more overlap those before."""
    state, end = secret[0], at + size
    while end - at > 16:
        state = _fold(_little_endian(data, at, 8) ^ secret[1], _little_endian(data, at + 8, 8) ^ state)
        at += 16
    if size >= 16:
        first, second = _little_endian(data, end - 16, 8), _little_endian(data, end - 8, 8)
    elif size >= 8:
        first, second = _little_endian(data, at, 8), _little_endian(data, end - 8, 8)
    else:
        first, second = _little_endian(data, at, size), nb.uint64(0)
    return _fold(_fold(first ^ secret[1], second ^ state) ^ secret[2], nb.uint64(size) ^ secret[3])


@part
def _find_slot(slots: Array, hashes: Array, key_hash: Word) -> Word:
    """Returns the slot of a hash: the one that holds it, or the free one where it belongs."""
    last = nb.uint64(len(slots) - 1)
    slot = key_hash & last
    while slots[slot] and hashes[slots[slot] - 1] != key_hash:
        slot = (slot + nb.uint64(1)) & last
    return slot


@kernel(types.void(_HASHES, types.int64, _INT32))
def fill_slots(hashes: Array, count: int, slots: Array) -> None:
    """Enters the first `count` hashes (uint64) into empty slots (int32: index of a key plus one, or 0)."""
    for index in range(count):
        slots[_find_slot(slots, hashes, hashes[index])] = index + 1


@kernel(
    nb.types.UniTuple(types.int64, 2)(
        *(_LENGTHS, _OFFSETS, READ_ONLY_BYTES, types.int64, _SECRET),
        *(_INT32, _HASHES, types.int64, types.int64, _INT64, _INT32),
    )
)
def number_keys(
    key_lengths: Array,
    key_offsets: Array,
    keys: Array,
    start: int,
    secret: Array,
    slots: Array,
    hashes: Array,
    count: int,
    limit: int,
    first_rows: Array,
    numbers: Array,
) -> tuple[int, int]:
    """Numbers the keys of records by the order they are met in, until one is met for which there is no room.

    `key_lengths` (int32, shape (records,)) are below 0 where there is no key; `key_offsets` (int64, one more) say where
    each key begins in `keys` (uint8). `slots` (int32) hold the index of a key plus one, or 0, and are more than
    `limit`; `hashes` (uint64, by key) have room for `limit`. `count` keys are known. `first_rows` (int64) takes the
    record where each new key was met, `numbers` (int32, shape (records,)) the number of each record's key, or -1.
    Returns the first record that was not looked at (the number of records if all were), and the keys known now.
    """
    known = count
    for row in range(start, len(key_lengths)):
        length = nb.int64(key_lengths[row])
        if length < 0:
            numbers[row] = -1
            continue
        key_hash: Word = _hash_bytes(keys, key_offsets[row], length, secret)
        slot = _find_slot(slots, hashes, key_hash)
        if not slots[slot]:
            if count == limit:
                return row, count
            hashes[count], first_rows[count - known] = key_hash, row
            count += 1
            slots[slot] = count
        numbers[row] = slots[slot] - 1
    return len(key_lengths), count
