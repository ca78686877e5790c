"""Kernels for scrape pages: find each line's series among those met before, and read its value.

Series texts lie one after the other in an arena; an open-addressing table holds, by hash, where each begins and ends and
its place. A hash is compared first, then the bytes.

References:
    W. D. Clinger, *How to Read Floating Point Numbers Accurately*, 1990: up to 2^53 and 10^22 one operation rounds right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from pipeline.compilation import READ_ONLY_BYTES, kernel, part

NOT_WANTED = -1
NOT_MET = -2
HARD_NUMBER = -3
"""The series is known, its value is not one that the kernel reads exactly: Python's `float` has to."""

EMPTY = -1
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_LARGEST_POWER = 22
_POWERS = np.array([10.0**exponent for exponent in range(_LARGEST_POWER + 1)])
_MANY = 10**17
_NO_EXPONENT = 9999
_LARGEST_EXACT = 1 << 53
_NEWLINE, _BLANK, _MINUS, _PLUS, _POINT, _ZERO, _NINE = 10, 32, 45, 43, 46, 48, 57
_COLON, _UNDERSCORE, _OPEN, _CLOSE, _A_UPPER, _Z_UPPER, _A_LOWER, _Z_LOWER = 58, 95, 123, 125, 65, 90, 97, 122
_TO_LOWER = 32
_E_UPPER, _E_LOWER = 69, 101

Array = Any  # inside a kernel, an array's items are Numba's numbers
_BYTES = types.Array(types.uint8, 1, "C")
_LONGS = types.Array(types.int64, 1, "C")
_HASHES = types.Array(types.uint64, 1, "C")
_DOUBLES = types.Array(types.float64, 1, "C")


@part
def _hash_bytes(data: Array, start: int, end: int) -> np.uint64:
    found = _FNV_OFFSET
    for at in range(start, end):
        found = (found ^ np.uint64(data[at])) * _FNV_PRIME
    return found ^ (found >> np.uint64(29))


@part
def _equal(data: Array, start: int, arena: Array, other: int, length: int) -> bool:
    at = 0
    while at < length and data[start + at] == arena[other + at]:
        at += 1
    return at == length


@part
def _find(data: Array, start: int, end: int, arena: Array, hashes: Array, slots: Array) -> int:
    """The slot of a text, or the empty one where it belongs; `slots` holds start, end and place of each."""
    mask = len(hashes) - 1
    wanted = _hash_bytes(data, start, end)
    slot = np.int64(wanted & np.uint64(mask))
    while slots[3 * slot] != EMPTY:
        begin, length = slots[3 * slot], slots[3 * slot + 1] - slots[3 * slot]
        if hashes[slot] == wanted and length == end - start and _equal(data, start, arena, begin, length):
            return int(slot)
        slot = (slot + 1) & mask
    return int(slot)


@part
def _read_digits(data: Array, at: int, end: int) -> tuple[int, int, int]:
    """Digits with at most one point: the mantissa, its exponent, and where they end; a negative end for too many digits."""
    mantissa, exponent, begin, seen_point = 0, 0, at, False
    while at < end:
        byte = data[at]
        if byte == _POINT and not seen_point:
            seen_point = True
        elif _ZERO <= byte <= _NINE:
            if mantissa > _MANY:
                return mantissa, exponent, -1
            mantissa = mantissa * 10 + (byte - _ZERO)
            exponent -= seen_point
        else:
            break
        at += 1
    if at - begin == seen_point:  # no digit
        return mantissa, exponent, -1
    return mantissa, exponent, at


@part
def _read_exponent(data: Array, at: int, end: int) -> int:
    """What follows the digits: nothing, or an exponent of at most three digits; `_NO_EXPONENT` for anything else."""
    if at == end:
        return 0
    if (data[at] != _E_UPPER and data[at] != _E_LOWER) or at + 1 == end:
        return _NO_EXPONENT
    sign = -1 if data[at + 1] == _MINUS else 1
    at += 2 if data[at + 1] == _MINUS or data[at + 1] == _PLUS else 1
    if at >= end or end - at > 3:
        return _NO_EXPONENT
    power = 0
    while at < end:
        if data[at] < _ZERO or data[at] > _NINE:
            return _NO_EXPONENT
        power = power * 10 + (data[at] - _ZERO)
        at += 1
    return sign * power


@part
def _read_number(data: Array, start: int, end: int, values: Array, row: int) -> bool:
    """Reads a decimal number that one operation gives exactly; False for any other."""
    is_negative = start < end and data[start] == _MINUS
    at = start + 1 if start < end and (is_negative or data[start] == _PLUS) else start
    mantissa, exponent, at = _read_digits(data, at, end)
    if at < 0:
        return False
    exponent += _read_exponent(data, at, end)
    if mantissa > _LARGEST_EXACT or exponent > _LARGEST_POWER or exponent < -_LARGEST_POWER:
        return False
    value = np.float64(mantissa)
    value = value * _POWERS[exponent] if exponent >= 0 else value / _POWERS[-exponent]
    values[row] = -value if is_negative else value
    return True


@part
def _lowered(byte: int) -> int:
    return byte + _TO_LOWER if _A_UPPER <= byte <= _Z_UPPER else byte


@part
def _begins_name(byte: int) -> bool:
    lowered = _lowered(byte)
    return _A_LOWER <= lowered <= _Z_LOWER or byte == _UNDERSCORE or byte == _COLON  # noqa: PLR1714 - no sets here


@part
def _end_of_name(data: Array, start: int, end: int) -> int:
    """Where a plain metric name ends; its start where there is none."""
    if start == end or not _begins_name(data[start]):
        return start
    at = start + 1
    while at < end and (_begins_name(data[at]) or _ZERO <= data[at] <= _NINE):
        at += 1
    return at


@part
def _begins_with(data: Array, start: int, end: int, prefixes: Array) -> bool:
    """Whether a name, in lower case, begins with one of the prefixes, each of which ends in a line end."""
    at, is_alike = start, True
    for byte in prefixes:
        if byte == _NEWLINE:
            if is_alike:
                return True
            at, is_alike = start, True
        elif is_alike:
            is_alike = at < end and _lowered(data[at]) == byte
            at += 1
    return False


@part
def _has_plain_labels(data: Array, name_end: int, end: int) -> bool:
    """Whether nothing, or something in braces, follows a name up to the value's blank."""
    return name_end == end or (data[name_end] == _OPEN and data[end - 1] == _CLOSE)


@part
def _has_name(data: Array, start: int, end: int, other: int, length: int) -> bool:
    """Whether the name at `start` is the one at `other`, which has a length above 0."""
    if start + length > end or not _equal(data, start, data, other, length):
        return False
    return start + length == end or data[start + length] == _OPEN


@part
def _look_up(
    data: Array,
    start: int,
    blank: int,
    end: int,
    arena: Array,
    hashes: Array,
    slots: Array,
    values: Array,
    row: int,
) -> int:
    """The place of a line's series, `NOT_MET`, or `HARD_NUMBER - place`; fills in its value."""
    slot = _find(data, start, blank, arena, hashes, slots)
    if slots[3 * slot] == EMPTY:
        return NOT_MET
    place = int(slots[3 * slot + 2])
    if place >= 0 and not _read_number(data, blank + 1, end, values, row):
        return HARD_NUMBER - place
    return place


@kernel(types.int64(READ_ONLY_BYTES, READ_ONLY_BYTES, _BYTES, _HASHES, _LONGS, _LONGS, _LONGS, _DOUBLES))
def match_lines(
    data: Array, prefixes: Array, arena: Array, hashes: Array, slots: Array, bounds: Array, places: Array, values: Array
) -> int:
    """Finds each line's series; the outputs have room for as many lines as there are line ends.

    Args:
        data: A page; what follows its last line end is left out.
        prefixes: What wanted names begin with, in lower case, a line each; nothing where any name may be wanted.
        arena: Texts of series.
        hashes: Hash of the text in each slot; a power of two of them.
        slots: Start and end in the arena and place of each slot, three numbers a slot.
        bounds: Start and end of each line, two numbers a line; filled in.
        places: Place of each line's series, `NOT_WANTED`, `NOT_MET` or `HARD_NUMBER - place`; filled in.
        values: Value of each line whose place is 0 or more; filled in.

    Returns:
        How many lines there are.
    """
    row, start = 0, 0
    name_start, name_length, is_other = 0, 0, False  # of the line before: an exporter writes a metric's series in a row
    for end in range(len(data)):
        if data[end] != _NEWLINE:
            continue
        blank = end - 1
        while blank > start and data[blank] != _BLANK:
            blank -= 1
        bounds[2 * row], bounds[2 * row + 1] = start, end
        places[row] = NOT_MET
        if blank > start:
            if name_length == 0 or not _has_name(data, start, blank, name_start, name_length):
                name_start, name_length = start, _end_of_name(data, start, blank) - start
                is_other = (
                    name_length > 0
                    and len(prefixes) > 0
                    and not _begins_with(data, start, start + name_length, prefixes)
                )
            is_plain = is_other and _has_plain_labels(data, start + name_length, blank)
            if is_plain and _read_number(data, blank + 1, end, values, row):
                places[row] = NOT_WANTED
            else:
                places[row] = _look_up(data, start, blank, end, arena, hashes, slots, values, row)
        row += 1
        start = end + 1
    return row


@kernel(types.int64(_BYTES, _LONGS, _HASHES, _LONGS))
def enter_texts(arena: Array, texts: Array, hashes: Array, slots: Array) -> int:
    """Enters texts of the arena into the table, which must have room for them.

    Args:
        arena: Texts of series.
        texts: Start and end in the arena and place of each, three numbers a text; those that begin at `EMPTY` are none.
        hashes: As of `match_lines`; filled in.
        slots: As of `match_lines`; filled in.

    Returns:
        How many were entered.
    """
    count = 0
    for row in range(len(texts) // 3):
        start, end, place = texts[3 * row], texts[3 * row + 1], texts[3 * row + 2]
        if start == EMPTY:
            continue
        slot = _find(arena, start, end, arena, hashes, slots)
        hashes[slot] = _hash_bytes(arena, start, end)
        slots[3 * slot], slots[3 * slot + 1], slots[3 * slot + 2] = start, end, place
        count += 1
    return count
