"""Columns of keys in Arrow: hashed without a copy, whatever the offsets' width, the slice or the nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.errors import InputError
from pipeline.partitioners import hash_kernels, text_kernels
from pipeline.partitioners.hashes import HashName

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class KeyHashes(NamedTuple):
    """The hashes of a column of keys, by row."""

    values: NDArray[np.uint32]
    """0 where there is none."""
    is_hashed: NDArray[np.bool_]
    """False for a null, and under Java's string hash for bytes that are not UTF-8."""


_KERNELS: dict[HashName, Callable[..., None]] = {
    HashName.MURMUR2: hash_kernels.hash_murmur2,
    HashName.CRC32: hash_kernels.hash_crc32,
    HashName.FNV1A: hash_kernels.hash_fnv1a,
    HashName.MURMUR3: hash_kernels.hash_murmur3,
    HashName.JAVA_STRING: text_kernels.hash_java_string,
    HashName.JAVA_ARRAY: hash_kernels.hash_java_array,
    HashName.KAFKAJS_MURMUR2: hash_kernels.hash_kafkajs_murmur2,
    HashName.XXH32: hash_kernels.hash_xxh32,
}


def hash_keys(keys: pa.Array, name: HashName) -> KeyHashes:
    """Hashes a column of keys.

    Args:
        keys: Array of binary or string, with offsets of 32 or 64 bits; may be a slice.
        name: The hash.

    Returns:
        As many hashes as keys.

    Raises:
        InputError: The column has another type.

    >>> hash_keys(pa.array([b"kafka", None]), HashName.CRC32).values.tolist()
    [1539077399, 0]
    """
    offsets = view_offsets(keys)
    is_hashed = find_keys(keys)
    values = np.zeros(len(keys), dtype=np.uint32)
    if len(keys):
        _KERNELS[name](_view_bytes(keys), offsets, is_hashed, values)
    return KeyHashes(values, is_hashed)


def find_keys(keys: pa.Array) -> NDArray[np.bool_]:
    """By row: not null. A fresh array."""
    if not keys.null_count:
        return np.ones(len(keys), dtype=np.bool_)
    return np.array(keys.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_)


def view_offsets(keys: pa.Array) -> NDArray[np.signedinteger]:
    """Where each key begins in the column's bytes, and where the last one ends; read-only.

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
        return np.zeros(1, dtype=width)
    view = np.frombuffer(keys.buffers()[1], dtype=width, count=keys.offset + len(keys) + 1)[keys.offset :]
    view.flags.writeable = False
    return view


def _view_bytes(keys: pa.Array) -> NDArray[np.uint8]:
    buffer = keys.buffers()[2]
    view = np.zeros(0, dtype=np.uint8) if buffer is None else np.frombuffer(buffer, dtype=np.uint8)
    view.flags.writeable = False
    return view
