"""Keyed BLAKE2b-128 of many short messages, as a Numba kernel; `hashlib.blake2b` is its oracle.

References:
    RFC 7693.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np
from numba.core import types

from pipeline.codec.log.machine import address_of, load_byte, load_word
from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part

if TYPE_CHECKING:
    from pipeline.codec.log.header_kernels import Array
    from pipeline.codec.records.key_kernels import Word

BLOCK_BYTES = 128
ID_DIGITS = 32

INITIAL = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    np.uint64,
)
_ORDER = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    np.uint64,
)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)

_OFFSETS = types.Array(types.int64, 1, "C", readonly=True)
_TEXT = types.Array(types.uint8, 2, "C")


@inlined
def _turn(word: Word, bits: int) -> Word:
    return (word >> nb.uint64(bits)) | (word << nb.uint64(64 - bits))


@inlined
def _mix(  # as the standard has it
    a: Word, b: Word, c: Word, d: Word, x: Word, y: Word
) -> tuple[Word, Word, Word, Word]:
    a = a + b + x
    d = _turn(d ^ a, 32)
    c += d
    b = _turn(b ^ c, 24)
    a = a + b + y
    d = _turn(d ^ a, 16)
    c += d
    b = _turn(b ^ c, 63)
    return a, b, c, d


@part
def _compress(state: Array, block: Array, byte_count: int, last: Word) -> None:
    """Takes a block of 16 words into the state of 8; `last` has all bits set for the last block."""
    v0, v1, v2, v3 = state[0], state[1], state[2], state[3]
    v4, v5, v6, v7 = state[4], state[5], state[6], state[7]
    v8, v9, v10, v11 = INITIAL[0], INITIAL[1], INITIAL[2], INITIAL[3]
    v12, v13 = INITIAL[4] ^ nb.uint64(byte_count), INITIAL[5]
    v14, v15 = INITIAL[6] ^ last, INITIAL[7]
    for turn in range(12):
        order = _ORDER[turn]
        v0, v4, v8, v12 = _mix(v0, v4, v8, v12, block[order[0]], block[order[1]])
        v1, v5, v9, v13 = _mix(v1, v5, v9, v13, block[order[2]], block[order[3]])
        v2, v6, v10, v14 = _mix(v2, v6, v10, v14, block[order[4]], block[order[5]])
        v3, v7, v11, v15 = _mix(v3, v7, v11, v15, block[order[6]], block[order[7]])
        v0, v5, v10, v15 = _mix(v0, v5, v10, v15, block[order[8]], block[order[9]])
        v1, v6, v11, v12 = _mix(v1, v6, v11, v12, block[order[10]], block[order[11]])
        v2, v7, v8, v13 = _mix(v2, v7, v8, v13, block[order[12]], block[order[13]])
        v3, v4, v9, v14 = _mix(v3, v4, v9, v14, block[order[14]], block[order[15]])
    state[0] ^= v0 ^ v8
    state[1] ^= v1 ^ v9
    state[2] ^= v2 ^ v10
    state[3] ^= v3 ^ v11
    state[4] ^= v4 ^ v12
    state[5] ^= v5 ^ v13
    state[6] ^= v6 ^ v14
    state[7] ^= v7 ^ v15


@part
def _fill_block(block: Array, address: Word, size: int) -> None:
    """Fills a block with up to 128 bytes from an address, and zeros behind them."""
    whole = size >> 3
    for index in range(whole):
        block[index] = load_word(address + nb.uint64(8 * index))
    for index in range(whole, 16):
        block[index] = nb.uint64(0)
    for index in range(8 * whole, size):
        block[index >> 3] |= load_byte(address + nb.uint64(index)) << nb.uint64(8 * (index & 7))


@kernel(types.void(READ_ONLY_BYTES, types.Array(types.uint64, 1, "C", readonly=True), _OFFSETS, READ_ONLY_BYTES, _TEXT))
def write_key_ids(secret_block: Array, parameters: Array, offsets: Array, data: Array, text: Array) -> None:
    """Writes the id of every message that has bytes; one of none is left alone.

    Args:
        secret_block: The secret, with zeros behind it, 128 bytes.
        parameters: The parameter block, 8 words.
        offsets: Where each message lies in `data`, one more than messages.
        data: Their bytes.
        text: Takes 32 hex digits each.
    """
    keyed, state, block = np.empty(8, np.uint64), np.empty(8, np.uint64), np.empty(16, np.uint64)
    for index in range(8):
        keyed[index] = INITIAL[index] ^ parameters[index]
    _fill_block(block, address_of(secret_block), BLOCK_BYTES)
    _compress(keyed, block, BLOCK_BYTES, nb.uint64(0))
    memory = address_of(data)
    for row in range(len(offsets) - 1):
        at, end = nb.int64(offsets[row]), nb.int64(offsets[row + 1])
        if at == end:
            continue
        state[:] = keyed
        done = BLOCK_BYTES
        while at < end:
            size = min(BLOCK_BYTES, end - at)
            _fill_block(block, memory + nb.uint64(at), size)
            at += size
            done += size
            _compress(state, block, done, ~nb.uint64(0) if at == end else nb.uint64(0))
        for index in range(16):
            byte = (state[index >> 3] >> nb.uint64(8 * (index & 7))) & nb.uint64(0xFF)
            text[row, 2 * index] = _DIGITS[byte >> nb.uint64(4)]
            text[row, 2 * index + 1] = _DIGITS[byte & nb.uint64(15)]
