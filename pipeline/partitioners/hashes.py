"""The hash functions of Kafka's clients, those of them that neither a kernel nor a C library has, and what follows a hash.

A hash is an unsigned 32-bit value; Java prints it as a signed int (`to_signed`). A mask is what each client does about
the top bit; it gives a number that is not negative, whose remainder is the partition. Go's and C's "remainder of the
signed hash, then turned positive" is the remainder of the magnitude: the sign of a remainder is that of the dividend.

References: XXH32 as published; the JDK's `Arrays.hashCode(byte[])`.
"""

import struct
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_U32 = 0xFFFFFFFF
_XXH_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


class HashName(Enum):
    MURMUR2 = "murmur2"
    CRC32 = "crc32"
    FNV1A = "fnv1a"
    MURMUR3 = "murmur3"
    JAVA_STRING = "java string"
    JAVA_ARRAY = "java array"
    KAFKAJS_MURMUR2 = "kafkajs murmur2"
    XXH32 = "xxh32"


def java_array_hash(key: bytes) -> int:
    """Java's `Arrays.hashCode(byte[])`: bytes are signed, and it starts at 1."""
    state = 1
    for byte in key:
        state = (31 * state + byte - ((byte & 0x80) << 1)) & _U32
    return state


def xxh32(key: bytes) -> int:
    first, second, third, fourth, fifth = _XXH_PRIMES
    at = 0
    if len(key) >= 16:
        lanes = [first + second & _U32, second, 0, -first & _U32]
        while at + 16 <= len(key):
            words = struct.unpack_from("<4I", key, at)
            lanes = [
                _rotate(lane + word * second & _U32, 13) * first & _U32 for lane, word in zip(lanes, words, strict=True)
            ]
            at += 16
        state = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _U32
    else:
        state = fifth
    state = state + len(key) & _U32
    whole = at + (len(key) - at & ~3)
    for (word,) in struct.iter_unpack("<I", key[at:whole]):
        state = _rotate(state + word * third & _U32, 17) * fourth & _U32
    for byte in key[whole:]:
        state = _rotate(state + byte * fifth & _U32, 11) * first & _U32
    state = (state ^ state >> 15) * second & _U32
    state = (state ^ state >> 13) * third & _U32
    return state ^ state >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _U32


Hash = TypeVar("Hash", int, NDArray[np.int64])


def to_signed(value: Hash) -> Hash:
    """The value as Java's int, Go's int32 and C's int32_t show it."""
    return (value ^ 0x80000000) - 0x80000000


class Mask(Enum):
    SIGN_BIT = "sign bit"  # without it: Kafka's `toPositive`, which is not the magnitude
    NOTHING = "nothing"
    MAGNITUDE = "magnitude"  # without the sign; the smallest int gives 2^31
    MAGNITUDE_OR_ZERO = "magnitude or zero"  # the smallest int, without a positive twin in Java, gives 0: `Utils.abs`

    def apply(self, value: Hash) -> Hash:
        if self is Mask.NOTHING:
            return value
        magnitude = value if self is Mask.SIGN_BIT else abs(to_signed(value))
        return magnitude if self is Mask.MAGNITUDE else magnitude & 0x7FFFFFFF


def place_hashes(hashes: NDArray[np.uint32], mask: Mask, partition_count: int) -> NDArray[np.int32]:
    return (mask.apply(hashes.astype(np.int64)) % partition_count).astype(np.int32)
