"""Changes to specimens that break parsers: numbers at their limits, lengths that lie, pieces moved, words of other formats."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

SECRET = b"s3cr3t"
"""Put into texts: no error may repeat it."""
_WORDS = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\x80",
        b"\x7f",
        b"\n",
        b"\r\n",
        b"\t",
        b" ",
        b"-",
        b"-1",
        b"0",
        b":",
        b",",
        b"=",
        b'"',
        b"\\",
        b"{",
    ),
    *(
        b"}",
        b"[",
        b"NaN",
        b"+Inf",
        b"1e999",
        b"null",
        b"#",
        b"\xe2\x80\xa8",
        b"\xed\xa0\x80",
        SECRET,
        b"\n" + SECRET + b"\n",
    ),
    *(b"9" * 5000, b"[" * 2000, b"a:" * 40 + b" ! !", b"9223372036854775808"),
)
_NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    127,
    128,
    255,
    2**15 - 1,
    2**16,
    2**31 - 1,
    -(2**31),
    2**31 - 13,
    2**62,
    2**63 - 1,
    -(2**63),
)
_FORMATS = (">b", ">h", ">i", ">q", "<i", "<q")
_MOST_BYTES = 16 << 10


def mutate(specimen: bytes, rng: random.Random) -> bytes:
    """One to four changes."""
    data = bytearray(specimen)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(_CHANGES)(data, rng)
    return bytes(data[:_MOST_BYTES])


def _place(data: bytearray, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_number(data: bytearray, rng: random.Random) -> None:
    kind = rng.choice(_FORMATS)
    size = struct.calcsize(kind)
    value = rng.choice(_NUMBERS) % (1 << 8 * size)
    at = _place(data, rng)
    data[at : at + size] = value.to_bytes(size, "big" if kind[0] == ">" else "little")


def _insert(data: bytearray, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at : at + rng.choice((0, 0, 1, 8))] = rng.choice(_WORDS)


def _cut(data: bytearray, rng: random.Random) -> None:
    at = _place(data, rng)
    del data[at : at + rng.choice((1, 4, 61, len(data)))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at:at] = data[at : at + rng.randrange(1, 100)] * rng.choice((1, 2, 30))


def _move(data: bytearray, rng: random.Random) -> None:
    start, size, at = _place(data, rng), rng.randrange(1, 64), _place(data, rng)
    data[at : at + size] = data[start : start + size]


_CHANGES = (_flip, _flip, _set_number, _set_number, _insert, _cut, _repeat, _move)
