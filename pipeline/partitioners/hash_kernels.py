"""Columns of keys in Arrow, hashed without a copy, whatever their offsets, slice or nulls: 5 ns a key by a kernel.

Plain Python takes some us. Only hashes that have no C library are in the kernel; CRC-32 and MurmurHash3 are taken key
by key.

References:
    Kafka `common/utils/Utils.java#murmur2`; librdkafka `rdmurmur2.c`, `rdfnv1a.c`; KafkaJS
    `producer/partitioners/legacy/murmur2.js`.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import mmh3
import numba as nb
import numpy as np
import pyarrow as pa
from numba.core import types
from numpy.typing import NDArray

from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part
from pipeline.errors import InputError
from pipeline.partitioners.hashes import HashName, java_array_hash, xxh32

Array = Any  # inside a kernel, an array's items are Numba's numbers
Word = Any  # inside a kernel, uint32

_MURMUR2_SEED, _MURMUR2_FACTOR = 0x9747B28C, 0x5BD1E995
_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193
MURMUR2, KAFKAJS_MURMUR2, FNV1A, JAVA_STRING = range(4)  # the hashes, as numbers

_NOT_TEXT = -1
_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
_MASK = types.Array(types.boolean, 1, "C")
_HASHES = types.Array(types.uint32, 1, "C")


@inlined
def _byte(data: Array, at: int) -> Word:
    return nb.uint32(data[nb.uint64(at)])  # an index with a sign would cost a test for negative ones


@part
def _little_endian(data: Array, at: int, end: int) -> Word:
    word = nb.uint32(0)
    for index in range(end - at):
        word |= _byte(data, at + index) << nb.uint32(8 * index)
    return word


@part
def _murmur2_of(data: Array, start: int, end: int) -> Word:
    factor = nb.uint32(_MURMUR2_FACTOR)
    state = nb.uint32(nb.uint32(_MURMUR2_SEED) ^ nb.uint32(end - start))
    at = start
    while at + 4 <= end:
        word = nb.uint32(
            (_byte(data, at))
            | (_byte(data, at + 1) << nb.uint32(8))
            | (_byte(data, at + 2) << nb.uint32(16))
            | (_byte(data, at + 3) << nb.uint32(24))
        )
        word = nb.uint32(word * factor)
        word = nb.uint32((word ^ word >> nb.uint32(24)) * factor)
        state = nb.uint32(nb.uint32(state * factor) ^ word)
        at += 4
    if at < end:
        state = nb.uint32((state ^ _little_endian(data, at, end)) * factor)
    state = nb.uint32((state ^ state >> nb.uint32(13)) * factor)
    return nb.uint32(state ^ state >> nb.uint32(15))


@part
def _multiply_in_doubles(value: Word) -> Word:
    product = nb.float64(nb.int32(value)) * nb.float64(_MURMUR2_FACTOR)
    return nb.uint32(nb.int64(product))


@part
def _kafkajs_murmur2_of(data: Array, start: int, end: int) -> Word:
    """KafkaJS's first murmur2, with both of its defects.

    JavaScript's numbers are doubles: a product beyond 2^53 has lost its low bits by the time the next bit operation
    cuts it to 32. The length divided by 4 is a fraction, so the loop takes up the last 1 to 3 bytes too, padded with
    zeros; after it they count once more.
    """
    state = nb.uint32(nb.uint32(_MURMUR2_SEED) ^ nb.uint32(end - start))
    tail = nb.uint32(0)
    for at in range(start, end, 4):
        tail = _little_endian(data, at, min(at + 4, end))
        word = _multiply_in_doubles(tail)
        word = nb.uint32(word ^ word >> nb.uint32(24))
        state = nb.uint32(_multiply_in_doubles(state) ^ _multiply_in_doubles(word))
    if (end - start) & 3:
        state = _multiply_in_doubles(nb.uint32(state ^ tail))
    state = _multiply_in_doubles(nb.uint32(state ^ state >> nb.uint32(13)))
    return nb.uint32(state ^ state >> nb.uint32(15))


@part
def _fnv1a_of(data: Array, start: int, end: int) -> Word:
    state = nb.uint32(_FNV_BASIS)
    for at in range(start, end):
        state = nb.uint32((state ^ _byte(data, at)) * nb.uint32(_FNV_PRIME))
    return state


@part
def _length_at(lead: int) -> int:
    """Bytes of the character that begins with this byte; 0 where none does."""
    if lead < 0x80:
        return 1
    if 0xC2 <= lead < 0xE0:
        return 2
    if 0xE0 <= lead < 0xF0:
        return 3
    return 4 if 0xF0 <= lead < 0xF5 else 0


@part
def _decode_at(data: Array, at: int, length: int) -> int:
    """The character of that length, or -1 where a byte does not continue it or it is one that UTF-8 forbids."""
    code = nb.int64(data[at]) & (0xFF >> (length + 1) if length > 1 else 0x7F)
    for index in range(at + 1, at + length):
        byte = nb.int64(data[index])
        if byte & 0xC0 != 0x80:
            return _NOT_TEXT
        code = code << 6 | (byte & 0x3F)
    if length == 3 and (code < 0x800 or 0xD800 <= code < 0xE000):
        return _NOT_TEXT
    return _NOT_TEXT if length == 4 and (code < 0x10000 or code > 0x10FFFF) else code


@part
def _java_string_hash_of(data: Array, start: int, end: int) -> int:
    """Java's string hash, or -1 where the bytes are not UTF-8: strict as in Python, no overlong forms, no surrogates."""
    state = nb.int64(0)
    at = start
    while at < end:
        length = _length_at(nb.int64(data[at]))
        if length == 0 or at + length > end:
            return _NOT_TEXT
        code = _decode_at(data, at, length)
        if code < 0:
            return _NOT_TEXT
        if code >= 0x10000:
            state = (31 * state + 0xD800 + ((code - 0x10000) >> 10)) & 0xFFFFFFFF
            code = 0xDC00 + (code & 0x3FF)
        state = (31 * state + code) & 0xFFFFFFFF
        at += length
    return state


@kernel(types.void(types.int64, READ_ONLY_BYTES, _OFFSETS, _MASK, _HASHES))
def hash_column(kind: int, data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """Hashes every key of a column, to 0 where there is none; what `JAVA_STRING` cannot read leaves `is_hashed`."""
    for row in range(len(hashes)):
        hashes[row] = 0
        if not is_hashed[row]:
            continue
        start, end = offsets[row], offsets[row + 1]
        if kind == MURMUR2:
            hashes[row] = _murmur2_of(data, start, end)
        elif kind == KAFKAJS_MURMUR2:
            hashes[row] = _kafkajs_murmur2_of(data, start, end)
        elif kind == FNV1A:
            hashes[row] = _fnv1a_of(data, start, end)
        else:
            value = _java_string_hash_of(data, start, end)
            is_hashed[row] = value >= 0
            hashes[row] = max(value, 0)


class HashedColumn(NamedTuple):
    values: NDArray[np.uint32]  # 0 where there is none
    is_hashed: NDArray[np.bool_]  # False for a null, and under Java's string hash for bytes that are not UTF-8


_KERNELS = {
    HashName.MURMUR2: MURMUR2,
    HashName.KAFKAJS_MURMUR2: KAFKAJS_MURMUR2,
    HashName.FNV1A: FNV1A,
    HashName.JAVA_STRING: JAVA_STRING,
}
"""Hashes that a kernel has."""
_ONE_BY_ONE: dict[HashName, Callable[[bytes], int]] = {
    HashName.CRC32: zlib.crc32,
    HashName.MURMUR3: lambda key: mmh3.hash(key, 0, signed=False),
    HashName.JAVA_ARRAY: java_array_hash,
    HashName.XXH32: xxh32,
}
"""Some 0.2 us a key from C libraries, some us from Python (what no stored column holds)."""


def hash_keys(keys: pa.Array, name: HashName) -> HashedColumn:
    """Hashes a column of binary or string, with offsets of 32 or 64 bits, perhaps a slice; `InputError` for others."""
    offsets = view_offsets(keys)
    is_hashed = find_keys(keys)
    values = np.zeros(len(keys), dtype=np.uint32)
    if name in _KERNELS:
        buffer = keys.buffers()[2]
        view = np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
        view.flags.writeable = False
        hash_column(_KERNELS[name], view, offsets, is_hashed, values)
    else:
        every = keys.cast(pa.large_binary()).to_pylist()
        values[is_hashed] = [_ONE_BY_ONE[name](key) for key in every if key is not None]
    return HashedColumn(values, is_hashed)


def find_keys(keys: pa.Array) -> NDArray[np.bool_]:
    if not keys.null_count:
        return np.ones(len(keys), dtype=np.bool_)
    return np.array(keys.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def view_offsets(keys: pa.Array) -> NDArray[np.int64]:
    """Offsets of the keys in the column's bytes, and the end of the last one; `InputError` as `hash_keys`."""
    if pa.types.is_binary(keys.type) or pa.types.is_string(keys.type):
        width: type[np.signedinteger] = np.int32
    elif pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type):
        width = np.int64
    else:
        raise InputError(f"keys of type {keys.type}; expected binary or string")
    if not len(keys):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(keys.buffers()[1], width, keys.offset + len(keys) + 1)[keys.offset :].astype(np.int64)
