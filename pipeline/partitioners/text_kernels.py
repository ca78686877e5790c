"""Java's `String.hashCode` over columns of UTF-8 keys, as a Numba kernel; `hashes.java_string_hash` is the reference.

Decoding is strict, as in Python: no overlong forms, no surrogates, nothing beyond U+10FFFF.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import READ_ONLY_BYTES, kernel, part

Array = Any  # inside a kernel, an array's items are Numba's numbers

_NOT_TEXT = -1
_OFFSETS = [types.Array(width, 1, "C", readonly=True) for width in (types.int32, types.int64)]
_MASK = types.Array(types.boolean, 1, "C")
_HASHES = types.Array(types.uint32, 1, "C")
_SIGNATURES = [types.void(READ_ONLY_BYTES, offsets, _MASK, _HASHES) for offsets in _OFFSETS]


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
def java_string_hash_of(data: Array, start: int, end: int) -> int:
    """Java's string hash of the text in `data[start:end]`, or -1 where that is not UTF-8."""
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


@kernel(_SIGNATURES)
def hash_java_string(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """Java's string hash of every key; a key that is not UTF-8 is taken out of the mask and gets 0."""
    for row in range(len(hashes)):
        hashes[row] = 0
        if is_hashed[row]:
            value = java_string_hash_of(data, nb.int64(offsets[row]), nb.int64(offsets[row + 1]))
            if value < 0:
                is_hashed[row] = False
            else:
                hashes[row] = value
