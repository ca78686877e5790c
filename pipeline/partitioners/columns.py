"""Columns of keys in Arrow: hashed without a copy, whatever the offsets' width, the slice or the nulls."""

import zlib
from collections.abc import Callable
from typing import NamedTuple

import mmh3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.partitioners import hash_kernels
from pipeline.partitioners.hashes import HashName, java_array_hash, xxh32


class HashedColumn(NamedTuple):
    """The hashes of a column of keys, by row."""

    values: NDArray[np.uint32]  # 0 where there is none
    is_hashed: NDArray[np.bool_]  # False for a null, and under Java's string hash for bytes that are not UTF-8


_KERNELS = {
    HashName.MURMUR2: hash_kernels.MURMUR2,
    HashName.KAFKAJS_MURMUR2: hash_kernels.KAFKAJS_MURMUR2,
    HashName.FNV1A: hash_kernels.FNV1A,
    HashName.JAVA_STRING: hash_kernels.JAVA_STRING,
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
    """Hashes a column of binary or string, with offsets of 32 or 64 bits; may be a slice.

    Raises:
        InputError: The column has another type.

    >>> hash_keys(pa.array([b"kafka", None]), HashName.CRC32).values.tolist()
    [1539077399, 0]
    """
    offsets = view_offsets(keys)
    is_hashed = find_keys(keys)
    values = np.zeros(len(keys), dtype=np.uint32)
    if name in _KERNELS:
        buffer = keys.buffers()[2]
        view = np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
        view.flags.writeable = False
        hash_kernels.hash_column(_KERNELS[name], view, offsets, is_hashed, values)
    else:
        every = keys.cast(pa.large_binary()).to_pylist()
        values[is_hashed] = [_ONE_BY_ONE[name](key) for key in every if key is not None]
    return HashedColumn(values, is_hashed)


def find_keys(keys: pa.Array) -> NDArray[np.bool_]:
    """By row: not null. A fresh array."""
    if not keys.null_count:
        return np.ones(len(keys), dtype=np.bool_)
    return np.array(keys.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def view_offsets(keys: pa.Array) -> NDArray[np.int64]:
    """Offsets of the keys in the column's bytes, and the end of the last one, shape (keys + 1,).

    Raises:
        InputError: The column is not of binary or string.
    """
    if pa.types.is_binary(keys.type) or pa.types.is_string(keys.type):
        width: type[np.signedinteger] = np.int32
    elif pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type):
        width = np.int64
    else:
        raise InputError(f"keys of type {keys.type}; expected binary or string")
    if not len(keys):
        return np.zeros(1, dtype=np.int64)
    return np.frombuffer(keys.buffers()[1], width, keys.offset + len(keys) + 1)[keys.offset :].astype(np.int64)
