"""The hashes of keys in plain Python, after the clients' sources: what the kernels of `partitioners.hash_kernels` are compared with.

References:
    Kafka `common/utils/Utils.java#murmur2`; librdkafka `rdmurmur2.c`, `rdfnv1a.c`; KafkaJS
    `producer/partitioners/legacy/murmur2.js`; MurmurHash3 (x86, 32 bits) and XXH32 as published.
"""

import struct
import zlib

import mmh3

from pipeline.partitioners.hashes import HashName, java_array_hash, xxh32

_U32 = 0xFFFFFFFF
MURMUR2_SEED = 0x9747B28C
MURMUR2_FACTOR = 0x5BD1E995
FNV_BASIS = 0x811C9DC5
FNV_PRIME = 0x01000193


def hash_key(name: HashName, key: bytes) -> int:
    """Hashes one key, by the reference, to an unsigned 32-bit value; Java's string hash takes the UTF-8 of the text.

    Raises:
        UnicodeDecodeError: The hash is of a text, and the key is not UTF-8.
    """
    if name is HashName.JAVA_STRING:
        return java_string_hash(key.decode("utf-8"))
    return _OF_BYTES[name](key)


def murmur2(key: bytes) -> int:
    """MurmurHash2 with Kafka's seed.

    >>> hex(murmur2(b""))
    '0x106e08d9'
    """
    state = MURMUR2_SEED ^ len(key)
    whole = len(key) & ~3
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        mixed = word * MURMUR2_FACTOR & _U32
        mixed ^= mixed >> 24
        state = (state * MURMUR2_FACTOR ^ mixed * MURMUR2_FACTOR) & _U32
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * MURMUR2_FACTOR & _U32
    state = (state ^ state >> 13) * MURMUR2_FACTOR & _U32
    return state ^ state >> 15


def fnv1a(key: bytes) -> int:
    """FNV-1a, 32 bits.

    >>> hex(fnv1a(b""))
    '0x811c9dc5'
    """
    state = FNV_BASIS
    for byte in key:
        state = (state ^ byte) * FNV_PRIME & _U32
    return state


def java_string_hash(text: str) -> int:
    """Java's `String.hashCode()`: over UTF-16 units, so a character beyond U+FFFF counts as two.

    >>> java_string_hash("abc")
    96354
    """
    state = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        state = (31 * state + unit) & _U32
    return state


def kafkajs_murmur2(key: bytes) -> int:
    """KafkaJS's first murmur2, with both of its defects.

    1. JavaScript's numbers are doubles: a product beyond 2^53 has lost its low bits by the time the next bit operation
       cuts it to 32.
    2. The length divided by 4 is a fraction, so the loop takes up the last 1 to 3 bytes too, as a word padded with
       zeros; after it they count once more.
    """
    state = MURMUR2_SEED ^ len(key)
    for start in range(0, len(key), 4):
        word = int.from_bytes(key[start : start + 4], "little")
        mixed = _multiply_in_doubles(word)
        mixed ^= mixed >> 24
        state = _multiply_in_doubles(state) ^ _multiply_in_doubles(mixed)
    whole = len(key) & ~3
    if whole < len(key):
        state = _multiply_in_doubles(state ^ int.from_bytes(key[whole:], "little"))
    state = _multiply_in_doubles(state ^ state >> 13)
    return state ^ state >> 15


def _multiply_in_doubles(value: int) -> int:
    signed = value - ((value & 0x80000000) << 1)  # what JavaScript's bit operations leave is signed
    return int(float(signed) * MURMUR2_FACTOR) & _U32


_OF_BYTES = {
    HashName.MURMUR2: murmur2,
    HashName.CRC32: zlib.crc32,
    HashName.FNV1A: fnv1a,
    HashName.MURMUR3: lambda key: mmh3.hash(key, 0, signed=False),
    HashName.JAVA_ARRAY: java_array_hash,
    HashName.KAFKAJS_MURMUR2: kafkajs_murmur2,
    HashName.XXH32: xxh32,
}
