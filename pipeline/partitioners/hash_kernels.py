"""The hash functions as Numba kernels over columns of keys; `hashes` has each in plain Python.

A kernel takes the bytes of all keys, the offsets between them (32 or 64 bits, one more than keys, from any start), a
mask of the keys to hash, and the array it writes unsigned 32-bit values to. Keys not to hash get 0.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.core import types

from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part
from pipeline.partitioners.hashes import FNV_BASIS, FNV_PRIME, MURMUR2_FACTOR, MURMUR2_SEED, XXH_PRIMES
from pipeline.partitioners.words import address_of, load_byte, load_word

Array = Any  # inside a kernel, an array's items are Numba's numbers
Word = Any  # inside a kernel, uint32
Place = Any  # inside a kernel, an address: uint64

_XXH_1, _XXH_2, _XXH_3, _XXH_4, _XXH_5 = XXH_PRIMES
_CRC32_POLYNOMIAL = 0xEDB88320


def _crc32_table() -> tuple[int, ...]:
    values = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32_POLYNOMIAL if value & 1 else 0)
        values.append(value)
    return tuple(values)


_MASK = types.Array(types.boolean, 1, "C")
_HASHES = types.Array(types.uint32, 1, "C")
_OFFSETS = [types.Array(width, 1, "C", readonly=True) for width in (types.int32, types.int64)]
_SIGNATURES = [types.void(READ_ONLY_BYTES, offsets, _MASK, _HASHES) for offsets in _OFFSETS]
_CRC32_TABLE = np.array(_crc32_table(), dtype=np.uint32)


@part
def _tail_at(at: Place, end: Place) -> Word:
    word = nb.uint32(0)
    shift = nb.uint32(0)
    while at < end:
        word |= load_byte(at) << shift
        shift += nb.uint32(8)
        at += nb.uint64(1)
    return word


@inlined
def _rotate(value: Word, bits: int) -> Word:
    return nb.uint32(nb.uint32(value << nb.uint32(bits)) | nb.uint32(value >> nb.uint32(32 - bits)))


@part
def murmur2_of(start: Place, end: Place) -> Word:
    """Kafka's murmur2 of the bytes from one address to another."""
    factor = nb.uint32(MURMUR2_FACTOR)
    state = nb.uint32(nb.uint32(MURMUR2_SEED) ^ nb.uint32(end - start))
    at = start
    while at + nb.uint64(4) <= end:
        word = nb.uint32(load_word(at) * factor)
        word = nb.uint32((word ^ word >> nb.uint32(24)) * factor)
        state = nb.uint32(nb.uint32(state * factor) ^ word)
        at += nb.uint64(4)
    if at < end:
        state = nb.uint32((state ^ _tail_at(at, end)) * factor)
    state = nb.uint32((state ^ state >> nb.uint32(13)) * factor)
    return nb.uint32(state ^ state >> nb.uint32(15))


@part
def _multiply_in_doubles(value: Word) -> Word:
    product = nb.float64(nb.int32(value)) * nb.float64(MURMUR2_FACTOR)
    return nb.uint32(nb.int64(product))


@part
def kafkajs_murmur2_of(start: Place, end: Place) -> Word:
    """KafkaJS's legacy murmur2 of the bytes from one address to another."""
    state = nb.uint32(nb.uint32(MURMUR2_SEED) ^ nb.uint32(end - start))
    at = start
    tail = nb.uint32(0)
    while at < end:
        tail = _tail_at(at, min(at + nb.uint64(4), end))
        word = _multiply_in_doubles(tail)
        word = nb.uint32(word ^ word >> nb.uint32(24))
        state = nb.uint32(_multiply_in_doubles(state) ^ _multiply_in_doubles(word))
        at += nb.uint64(4)
    if (end - start) & nb.uint64(3):
        state = _multiply_in_doubles(nb.uint32(state ^ tail))
    state = _multiply_in_doubles(nb.uint32(state ^ state >> nb.uint32(13)))
    return nb.uint32(state ^ state >> nb.uint32(15))


@part
def crc32_of(start: Place, end: Place) -> Word:
    """CRC-32 of the bytes from one address to another."""
    state = nb.uint32(0xFFFFFFFF)
    at = start
    while at < end:
        index = nb.uint64((state ^ load_byte(at)) & nb.uint32(0xFF))
        state = nb.uint32(_CRC32_TABLE[index] ^ state >> nb.uint32(8))
        at += nb.uint64(1)
    return nb.uint32(state ^ nb.uint32(0xFFFFFFFF))


@part
def fnv1a_of(start: Place, end: Place) -> Word:
    """FNV-1a of the bytes from one address to another."""
    state = nb.uint32(FNV_BASIS)
    at = start
    while at < end:
        state = nb.uint32((state ^ load_byte(at)) * nb.uint32(FNV_PRIME))
        at += nb.uint64(1)
    return state


@part
def _mix_murmur3(word: Word) -> Word:
    word = nb.uint32(word * nb.uint32(0xCC9E2D51))
    return nb.uint32(_rotate(word, 15) * nb.uint32(0x1B873593))


@part
def murmur3_of(start: Place, end: Place) -> Word:
    """MurmurHash3 (x86, 32 bits, seed 0) of the bytes from one address to another."""
    state = nb.uint32(0)
    at = start
    while at + nb.uint64(4) <= end:
        state = _rotate(nb.uint32(state ^ _mix_murmur3(load_word(at))), 13)
        state = nb.uint32(state * nb.uint32(5) + nb.uint32(0xE6546B64))
        at += nb.uint64(4)
    if at < end:
        state = nb.uint32(state ^ _mix_murmur3(_tail_at(at, end)))
    state = nb.uint32(state ^ nb.uint32(end - start))
    state = nb.uint32((state ^ state >> nb.uint32(16)) * nb.uint32(0x85EBCA6B))
    state = nb.uint32((state ^ state >> nb.uint32(13)) * nb.uint32(0xC2B2AE35))
    return nb.uint32(state ^ state >> nb.uint32(16))


@part
def java_array_hash_of(start: Place, end: Place) -> Word:
    """Java's `Arrays.hashCode(byte[])` of the bytes from one address to another."""
    state = nb.uint32(1)
    at = start
    while at < end:
        byte = load_byte(at)
        state = nb.uint32(state * nb.uint32(31) + byte - ((byte & nb.uint32(0x80)) << nb.uint32(1)))
        at += nb.uint64(1)
    return state


@inlined
def _mix_xxh32(lane: Word, word: Word) -> Word:
    lane = nb.uint32(lane + nb.uint32(word * nb.uint32(_XXH_2)))
    return nb.uint32(_rotate(lane, 13) * nb.uint32(_XXH_1))


@part
def _xxh32_blocks(start: Place, blocks: int) -> Word:
    first = nb.uint32(_XXH_1 + _XXH_2 & 0xFFFFFFFF)
    second = nb.uint32(_XXH_2)
    third = nb.uint32(0)
    fourth = nb.uint32(-_XXH_1 & 0xFFFFFFFF)
    at = start
    for _ in range(blocks):
        first = _mix_xxh32(first, load_word(at))
        second = _mix_xxh32(second, load_word(at + nb.uint64(4)))
        third = _mix_xxh32(third, load_word(at + nb.uint64(8)))
        fourth = _mix_xxh32(fourth, load_word(at + nb.uint64(12)))
        at += nb.uint64(16)
    return nb.uint32(_rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12) + _rotate(fourth, 18))


@part
def xxh32_of(start: Place, end: Place) -> Word:
    """XXH32 (seed 0) of the bytes from one address to another."""
    blocks = (end - start) >> nb.uint64(4)
    state = nb.uint32(_XXH_5) if blocks == 0 else _xxh32_blocks(start, nb.int64(blocks))
    at = start + (blocks << nb.uint64(4))
    state = nb.uint32(state + nb.uint32(end - start))
    while at + nb.uint64(4) <= end:
        state = nb.uint32(state + nb.uint32(load_word(at) * nb.uint32(_XXH_3)))
        state = nb.uint32(_rotate(state, 17) * nb.uint32(_XXH_4))
        at += nb.uint64(4)
    while at < end:
        state = nb.uint32(state + nb.uint32(load_byte(at) * nb.uint32(_XXH_5)))
        state = nb.uint32(_rotate(state, 11) * nb.uint32(_XXH_1))
        at += nb.uint64(1)
    state = nb.uint32((state ^ state >> nb.uint32(15)) * nb.uint32(_XXH_2))
    state = nb.uint32((state ^ state >> nb.uint32(13)) * nb.uint32(_XXH_3))
    return nb.uint32(state ^ state >> nb.uint32(16))


@kernel(_SIGNATURES)
def hash_murmur2(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """Kafka's murmur2 of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = murmur2_of(start, end) if is_hashed[row] else 0


@kernel(_SIGNATURES)
def hash_kafkajs_murmur2(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """KafkaJS's legacy murmur2 of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = kafkajs_murmur2_of(start, end) if is_hashed[row] else 0


@kernel(_SIGNATURES)
def hash_crc32(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """CRC-32 of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = crc32_of(start, end) if is_hashed[row] else 0


@kernel(_SIGNATURES)
def hash_fnv1a(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """FNV-1a of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = fnv1a_of(start, end) if is_hashed[row] else 0


@kernel(_SIGNATURES)
def hash_murmur3(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """MurmurHash3 of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = murmur3_of(start, end) if is_hashed[row] else 0


@kernel(_SIGNATURES)
def hash_java_array(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """Java's `Arrays.hashCode` of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = java_array_hash_of(start, end) if is_hashed[row] else 0


@kernel(_SIGNATURES)
def hash_xxh32(data: Array, offsets: Array, is_hashed: Array, hashes: Array) -> None:
    """XXH32 of every key."""
    memory = address_of(data)
    for row in range(len(hashes)):
        start, end = memory + nb.uint64(offsets[row]), memory + nb.uint64(offsets[row + 1])
        hashes[row] = xxh32_of(start, end) if is_hashed[row] else 0
