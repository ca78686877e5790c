"""Before keys are placed: reading their ids, cutting them into buckets, finding their hashes, putting rows in order."""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import READ_ONLY_BYTES, kernel, part

Array = Any  # inside a kernel, an array's items are Numba's numbers
Number = Any

_WORDS = types.Array(types.uint64, 1, "C")
_READ_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_INT32 = types.Array(types.int32, 1, "C", readonly=True)
_OUT32 = types.Array(types.int32, 1, "C")
_OUT64 = types.Array(types.int64, 1, "C")


@part
def _hex_digit(byte: Number) -> Number:
    return nb.uint64((byte & 15) + 9 * (byte >> 6))


@kernel(types.void(READ_ONLY_BYTES, types.int64, _WORDS, _WORDS))
def parse_key_ids(text: Array, count: int, high: Array, low: Array) -> None:
    """Reads ids of 32 hex digits, laid end to end, as two words each.

    Args:
        text: 32 bytes per id, at least.
        count: Ids.
        high: Takes the first 16 digits of each.
        low: Takes the others.
    """
    for row in range(count):
        first = nb.uint64(0)
        second = nb.uint64(0)
        for place in range(row * 32, row * 32 + 16):
            first = (first << nb.uint64(4)) | _hex_digit(text[place])
            second = (second << nb.uint64(4)) | _hex_digit(text[place + 16])
        high[row] = first
        low[row] = second


@kernel(types.void(_READ_WORDS, types.int64, types.int64, _OUT64, _OUT64))
def group_by_bucket(high: Array, count: int, bucket_count: int, starts: Array, order: Array) -> None:
    """Puts rows in order of their buckets, and keeps the order within: a counting sort.

    Args:
        high: First word of each id: its upper 32 bits choose the bucket.
        count: Rows.
        bucket_count: Buckets.
        starts: Takes where each bucket begins, one more than buckets; zeros before.
        order: Takes the rows' numbers.
    """
    buckets = nb.uint64(bucket_count)
    for row in range(count):
        starts[nb.int64(((high[row] >> nb.uint64(32)) * buckets) >> nb.uint64(32)) + 1] += 1
    for bucket in range(bucket_count):
        starts[bucket + 1] += starts[bucket]
    for row in range(count):
        bucket = nb.int64(((high[row] >> nb.uint64(32)) * buckets) >> nb.uint64(32))
        order[starts[bucket]] = row
        starts[bucket] += 1
    for bucket in range(bucket_count, 0, -1):
        starts[bucket] = starts[bucket - 1]
    starts[0] = 0


@part
def _slot_of(high: Number, low: Number, slots: Array, keys_high: Array, keys_low: Array) -> Number:
    """The slot that holds the key, or the free one where it belongs."""
    last = nb.int64(len(slots) - 1)
    slot = nb.int64((high ^ (low >> nb.uint64(7))) & nb.uint64(last))
    while slots[slot] >= 0 and (keys_high[slots[slot]] != high or keys_low[slots[slot]] != low):
        slot = (slot + 1) & last
    return slot


@kernel(types.int64(_READ_WORDS, _READ_WORDS, _OUT32))
def index_keys(high: Array, low: Array, slots: Array) -> int:
    """Builds a table of distinct keys.

    Args:
        high: First word of each id; an id may come several times.
        low: Second word.
        slots: Of a power of two, more than ids; -1 before; takes rows.

    Returns:
        Distinct keys.
    """
    count = 0
    for row in range(len(high)):
        slot = _slot_of(high[row], low[row], slots, high, low)
        if slots[slot] < 0:
            slots[slot] = row
            count += 1
    return count


@kernel(types.void(_READ_WORDS, _READ_WORDS, _INT32, _READ_WORDS, _READ_WORDS, _OUT32))
def find_keys(
    high: Array,
    low: Array,
    slots: Array,
    keys_high: Array,
    keys_low: Array,
    found: Array,
) -> None:
    """Finds keys in a table from `index_keys`.

    Args:
        high: First words of the ids sought.
        low: Second words.
        slots: The table.
        keys_high: First words of the ids in the table.
        keys_low: Second words.
        found: Takes the row of each, or -1.
    """
    for row in range(len(high)):
        found[row] = slots[_slot_of(high[row], low[row], slots, keys_high, keys_low)]


@kernel(types.void(_INT32, _INT32, types.int64, _OUT32))
def sort_stably(values: Array, order: Array, value_count: int, sorted_order: Array) -> None:
    """One pass of a radix sort: rows in order of small values, equal ones as they were.

    Args:
        values: By row, 0 to `value_count` - 1.
        order: Some of the rows, as they were.
        value_count: How many values there are.
        sorted_order: Takes those rows.
    """
    starts = [nb.int64(0) for _ in range(value_count + 1)]
    for row in order:
        starts[values[row] + 1] += 1
    for value in range(value_count):
        starts[value + 1] += starts[value]
    for row in order:
        sorted_order[starts[values[row]]] = row
        starts[values[row]] += 1
