"""Numba kernels: the record decoder, 50 ns a record (its oracle is `record_batch`), and the hash table behind `key_table`.

Keys are distinguished by a 64-bit hash: among ten million two are taken for one with a chance of 3 in a million. Whoever
writes to a topic chooses its keys, so the hash has a secret: nobody can make keys whose hashes, or low bits, are equal.
References: Wang, wyhash (final version 4): `_wymum`; Carter, Wegman, Universal classes of hash functions, 1979.
"""

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pipeline.codec.log.batch_headers import HEADER_ROW, Flaw
from pipeline.codec.records.record_scan import RECORD_ROW
from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part

Row = Any  # a NumPy record: its fields are attributes, inside a kernel only
Rows = Any
Array = Any
Word = Any  # inside a kernel, uint64
_ROWS = types.Array(nb.from_dtype(HEADER_ROW), 1, "C")
_RECORDS = types.Array(nb.from_dtype(RECORD_ROW), 1, "C")
_SPANS = types.Array(types.int64, 2, "C")
_BYTES = types.Array(types.uint8, 1, "C")
_OFFSETS = types.Array(types.int64, 1, "C")
_COUNTS = nb.types.UniTuple(types.int64, 2)
_SOUND, _PAYLOAD = int(Flaw.NONE), int(Flaw.PAYLOAD)
_BROKEN = -1  # in place of an index
_LENGTHS, _READ_OFFSETS = (types.Array(kind, 1, "C", readonly=True) for kind in (types.int32, types.int64))
_SECRET = types.Array(types.uint64, 1, "C", readonly=True)
_INT64, _INT32, _HASHES = (types.Array(kind, 1, "C") for kind in (types.int64, types.int32, types.uint64))


@inlined
def load_byte(data: Array, at: int) -> int:
    """Returns a byte as int64; an index with a sign would cost a test for negative ones."""
    return nb.int64(data[nb.uint64(at)])


@part
def _long_varint(data: Array, at: int, end: int, bits: int) -> tuple[int, int]:
    raw, shift = nb.uint64(0), 0
    while at < end and shift < bits:
        byte = load_byte(data, at)
        septet = byte & 0x7F
        # The last byte of a full-length varint has room for a few bits only.
        if shift + 7 > bits and septet >> (bits - shift):
            break
        raw |= nb.uint64(septet) << nb.uint64(shift)
        at += 1
        if byte < 0x80:
            return nb.int64(raw >> nb.uint64(1)) ^ -nb.int64(raw & nb.uint64(1)), at
        shift += 7
    return nb.int64(0), _BROKEN


@inlined
def _varint(data: Array, at: int, end: int, bits: int) -> tuple[int, int]:
    """Reads a zig-zag varint of at most 32 or 64 bits; gives (value, index after it or `_BROKEN`)."""
    if at < end and load_byte(data, at) < 0x80:
        byte = load_byte(data, at)
        value, after = (byte >> 1) ^ -(byte & 1), at + 1
    else:
        value, after = _long_varint(data, at, end, bits)
    return value, after


@inlined
def _skip_field(data: Array, at: int, end: int) -> tuple[int, int]:
    """Steps over a length and so many bytes; gives (length, -1 for null, and the index after or `_BROKEN`)."""
    length, after = _varint(data, at, end, 32)
    if length < 0:
        length = nb.int64(-1)
    elif after == _BROKEN or length > end - after:
        after = _BROKEN
    else:
        after += length
    return length, after


@part
def _skip_headers(data: Array, at: int, end: int, count: int) -> int:
    for _ in range(count):
        name_bytes, at = _skip_field(data, at, end)
        if at == _BROKEN or name_bytes < 0:
            return _BROKEN
        _, at = _skip_field(data, at, end)
        if at == _BROKEN:
            return _BROKEN
    return at


@inlined
def _read_record(  # noqa: PLR0911 - a field that does not parse ends it
    data: Array, start: int, payload_end: int, batch: Row, record: Row
) -> tuple[int, int]:
    """Fills one `RECORD_ROW` from the record at `start`; gives the index after it (or `_BROKEN`) and that after its key."""
    body_bytes, at = _varint(data, start, payload_end, 32)
    if at == _BROKEN or body_bytes < 1 or body_bytes > payload_end - at:
        return _BROKEN, _BROKEN
    end = at + body_bytes
    timestamp_delta_ms, at = _varint(data, at + 1, end, 64)
    if at == _BROKEN:
        return _BROKEN, _BROKEN
    offset_delta, at = _varint(data, at, end, 32)
    if at == _BROKEN or offset_delta < 0 or offset_delta > batch.last_offset - batch.base_offset:
        return _BROKEN, _BROKEN
    key_length, key_end = _skip_field(data, at, end)
    if key_end == _BROKEN:
        return _BROKEN, _BROKEN
    value_length, at = _skip_field(data, key_end, end)
    if at == _BROKEN:
        return _BROKEN, _BROKEN
    header_count, at = _varint(data, at, end, 32)
    if at == _BROKEN or header_count < 0 or header_count > (end - at) >> 1:
        return _BROKEN, _BROKEN
    if header_count > 0:
        at = _skip_headers(data, at, end, header_count)
    if at != end:
        return _BROKEN, _BROKEN
    record.offset = batch.base_offset + offset_delta
    if batch.attributes & 8:
        record.timestamp_ms = batch.max_timestamp_ms
    else:
        record.timestamp_ms = batch.base_timestamp_ms + timestamp_delta_ms
    record.key_length = key_length
    record.value_length = value_length
    record.size_bytes = end - start
    record.header_count = header_count
    return end, key_end


@kernel(_COUNTS(READ_ONLY_BYTES, _SPANS, _ROWS, types.int64, _RECORDS, types.int64, _OFFSETS, _BYTES, types.int64))
def decode_batches(
    data: Array,
    spans: Array,
    batches: Rows,
    first: int,
    records: Rows,
    count: int,
    key_offsets: Array,
    keys: Array,
    key_end: int,
) -> tuple[int, int]:
    """Decodes the records of v2 batches (`HEADER_ROW`s), whose payloads are `spans` (start and end) of `data`.

    Where a payload does not parse the flaw is set, and its records are left out. `first` is the `batch_index` of the
    first of them. `records`, `key_offsets` (ends, shifted by one) and `keys` have room for all after the `count` rows
    and `key_end` bytes that are filled. Returns how many are filled then.
    """
    for index in range(len(batches)):
        batch = batches[index]
        if batch.flaw != _SOUND:
            continue
        at, payload_end = spans[index, 0], spans[index, 1]
        count_before, key_end_before = count, key_end
        for _ in range(batch.record_count):
            record = records[count]
            record.batch_index = first + index
            at, key_at = _read_record(data, at, payload_end, batch, record)
            if at == _BROKEN:
                break
            count += 1
            for key_byte_at in range(key_at - max(nb.int64(record.key_length), 0), key_at):
                keys[nb.uint64(key_end)] = data[nb.uint64(key_byte_at)]
                key_end += 1
            key_offsets[count] = key_end
        if at != payload_end:
            batch.flaw = _PAYLOAD
            count, key_end = count_before, key_end_before
    return count, key_end


@intrinsic  # type: ignore[untyped-decorator]
def _fold(_: object, one: Word, other: Word) -> tuple[Any, Any]:
    """Multiplies to 128 bits and combines the halves by exclusive or."""

    def generate(_: object, builder: Any, __: object, words: Any) -> Any:  # noqa: ANN401 - LLVM's values
        wide, word = ir.IntType(128), ir.IntType(64)
        product = builder.mul(*(builder.zext(value, wide) for value in words))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(builder.trunc(product, word), high)

    return types.uint64(types.uint64, types.uint64), generate


@inlined
def _little_endian(data: Array, at: int, size: int) -> Word:
    word = nb.uint64(0)
    for index in range(size):
        word |= nb.uint64(load_byte(data, at + index)) << nb.uint64(8 * index)
    return word


@part
def _hash_bytes(data: Array, at: int, size: int, secret: Array) -> Word:
    """Hashes `size` bytes to 64 bits; the last words of keys of 8 bytes or more overlap those before."""
    state, end = secret[0], at + size
    while end - at > 16:
        state = _fold(_little_endian(data, at, 8) ^ secret[1], _little_endian(data, at + 8, 8) ^ state)
        at += 16
    if size >= 16:
        first, second = _little_endian(data, end - 16, 8), _little_endian(data, end - 8, 8)
    elif size >= 8:
        first, second = _little_endian(data, at, 8), _little_endian(data, end - 8, 8)
    else:
        first, second = _little_endian(data, at, size), nb.uint64(0)
    return _fold(_fold(first ^ secret[1], second ^ state) ^ secret[2], nb.uint64(size) ^ secret[3])


@part
def _find_slot(slots: Array, hashes: Array, key_hash: Word) -> Word:
    last = nb.uint64(len(slots) - 1)
    slot = key_hash & last
    while slots[slot] and hashes[slots[slot] - 1] != key_hash:
        slot = (slot + nb.uint64(1)) & last
    return slot


@kernel(types.void(_HASHES, types.int64, _INT32))
def fill_slots(hashes: Array, count: int, slots: Array) -> None:
    """Enters the first `count` hashes (uint64) into empty slots (int32: index of a key plus one, or 0)."""
    for index in range(count):
        slots[_find_slot(slots, hashes, hashes[index])] = index + 1


@kernel(
    nb.types.UniTuple(types.int64, 2)(
        *(_LENGTHS, _READ_OFFSETS, READ_ONLY_BYTES, types.int64, _SECRET),
        *(_INT32, _HASHES, types.int64, types.int64, _INT64, _INT32),
    )
)
def number_keys(
    key_lengths: Array,
    key_offsets: Array,
    keys: Array,
    start: int,
    secret: Array,
    slots: Array,
    hashes: Array,
    count: int,
    limit: int,
    first_rows: Array,
    numbers: Array,
) -> tuple[int, int]:
    """Numbers the keys of records by the order they are met in, until one is met for which there is no room.

    `key_lengths` are below 0 where there is no key; `key_offsets`, one more, say where each begins in `keys`. `slots`,
    more than `limit`, hold the index of a key plus one, or 0; `hashes` have room for `limit`; `count` keys are known.
    `first_rows` takes the record where each new key was met, `numbers` each record's, or -1. Returns the first record
    that was not looked at, or how many there are, and the keys known now.
    """
    known = count
    for row in range(start, len(key_lengths)):
        length = nb.int64(key_lengths[row])
        if length < 0:
            numbers[row] = -1
            continue
        key_hash: Word = _hash_bytes(keys, key_offsets[row], length, secret)
        slot = _find_slot(slots, hashes, key_hash)
        if not slots[slot]:
            if count == limit:
                return row, count
            hashes[count], first_rows[count - known] = key_hash, row
            count += 1
            slots[slot] = count
        numbers[row] = slots[slot] - 1
    return len(key_lengths), count
