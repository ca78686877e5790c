"""The record decoder as a Numba kernel; `record_batch.read_records` is the same in plain Python and its oracle."""

from __future__ import annotations

import numba as nb
from numba.core import types

from pipeline.codec.log.header_kernels import ROWS, Array, Row, Rows
from pipeline.codec.log.machine import address_of, load_byte, prefetch
from pipeline.codec.log.scans import RECORD_ROW, Flaw
from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part

_RECORDS = types.Array(nb.from_dtype(RECORD_ROW), 1, "C")
_SPANS = types.Array(types.int64, 2, "C")
_BYTES = types.Array(types.uint8, 1, "C")
_OFFSETS = types.Array(types.int64, 1, "C")
_COUNTS = nb.types.UniTuple(types.int64, 2)

_SOUND, _PAYLOAD = int(Flaw.NONE), int(Flaw.PAYLOAD)
_BROKEN = nb.uint64(0)  # in place of an address
_RECORDS_AHEAD = 12  # records are alike in size, so the place of the twelfth next is a good guess; a miss costs 100 ns


@part
def _long_varint(at: int, end: int, bits: int) -> tuple[int, int]:
    """Reads a varint of two bytes or more; `at` and `end` are addresses."""
    raw, shift = nb.uint64(0), nb.uint64(0)
    while at < end and shift < bits:
        byte = load_byte(at)
        part = byte & nb.uint64(0x7F)
        # The last byte of a full-length varint has room for a few bits only.
        if shift + nb.uint64(7) > bits and part >> (bits - shift):
            break
        raw |= part << shift
        at += nb.uint64(1)
        if byte < nb.uint64(0x80):
            return nb.int64(raw >> nb.uint64(1)) ^ -nb.int64(raw & nb.uint64(1)), at
        shift += nb.uint64(7)
    return nb.int64(0), _BROKEN


@inlined
def _varint(at: int, end: int, bits: int) -> tuple[int, int]:
    """Reads a zig-zag varint of at most 32 or 64 bits; gives (value, address after it or `_BROKEN`)."""
    if at < end and load_byte(at) < nb.uint64(0x80):
        byte = load_byte(at)
        value, after = nb.int64(byte >> nb.uint64(1)) ^ -nb.int64(byte & nb.uint64(1)), at + nb.uint64(1)
    else:
        value, after = _long_varint(at, end, nb.uint64(bits))
    return value, after


@inlined
def _skip_field(at: int, end: int) -> tuple[int, int]:
    """Steps over a length and so many bytes; gives (length, -1 for null, and the address after or `_BROKEN`)."""
    length, after = _varint(at, end, 32)
    if length < 0:
        length = nb.int64(-1)
    elif after == _BROKEN or nb.uint64(length) > end - after:
        after = _BROKEN
    else:
        after += nb.uint64(length)
    return length, after


@part
def _skip_headers(at: int, end: int, count: int) -> int:
    for _ in range(count):
        name_bytes, at = _skip_field(at, end)
        if at == _BROKEN or name_bytes < 0:
            return _BROKEN
        _, at = _skip_field(at, end)
        if at == _BROKEN:
            return _BROKEN
    return at


@inlined
def _read_record(start: int, payload_end: int, batch: Row, record: Row) -> tuple[int, int]:  # noqa: PLR0911
    """Fills one `RECORD_ROW` from the record at address `start`; gives the addresses after it (or `_BROKEN`) and its key."""
    body_bytes, at = _varint(start, payload_end, 32)
    if at == _BROKEN or body_bytes < 1 or nb.uint64(body_bytes) > payload_end - at:
        return _BROKEN, _BROKEN
    end = at + nb.uint64(body_bytes)
    prefetch(end + nb.uint64(_RECORDS_AHEAD) * (end - start))
    timestamp_delta_ms, at = _varint(at + nb.uint64(1), end, 64)
    if at == _BROKEN:
        return _BROKEN, _BROKEN
    offset_delta, at = _varint(at, end, 32)
    if at == _BROKEN or offset_delta < 0 or offset_delta > batch.last_offset - batch.base_offset:
        return _BROKEN, _BROKEN
    key_length, key_end = _skip_field(at, end)
    if key_end == _BROKEN:
        return _BROKEN, _BROKEN
    value_length, at = _skip_field(key_end, end)
    if at == _BROKEN:
        return _BROKEN, _BROKEN
    header_count, at = _varint(at, end, 32)
    if at == _BROKEN or header_count < 0 or nb.uint64(header_count) > (end - at) >> nb.uint64(1):
        return _BROKEN, _BROKEN
    if header_count > 0:
        at = _skip_headers(at, end, header_count)
    if at != end:
        return _BROKEN, _BROKEN
    record.offset = batch.base_offset + offset_delta
    if batch.attributes & 8:
        record.timestamp_ms = batch.max_timestamp_ms
    else:
        record.timestamp_ms = batch.base_timestamp_ms + timestamp_delta_ms
    record.key_length = key_length
    record.value_length = value_length
    record.size_bytes = nb.int64(end - start)
    record.header_count = header_count
    return end, key_end


@inlined
def _copy_key(key_end_address: int, key_length: int, keys: Array, key_end: int) -> int:
    for left in range(key_length, 0, -1):
        keys[key_end] = load_byte(key_end_address - nb.uint64(left))
        key_end += 1
    return key_end


@kernel(_COUNTS(READ_ONLY_BYTES, _SPANS, ROWS, types.int64, _RECORDS, types.int64, _OFFSETS, _BYTES, types.int64))
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
    """Decodes the records of v2 batches.

    Args:
        data: Bytes that hold the payloads, uint8.
        spans: (n, 2): start and end of each payload in `data`.
        batches: The n header rows; the flaw is set where a payload does not parse, and its records are left out.
        first: Index to store in `batch_index` for the first of them.
        records: `RECORD_ROW`s to fill, with room for all record counts after `count`.
        count: Rows filled already.
        key_offsets: Ends of the keys by record, shifted by one; of length 0 where keys are not wanted.
        keys: Bytes of the keys, with room for all.
        key_end: Bytes of `keys` filled already.

    Returns:
        Rows and key bytes filled.
    """
    memory = address_of(data)
    want_keys = len(key_offsets) > 0
    for index in range(len(batches)):
        batch = batches[index]
        if batch.flaw != _SOUND:
            continue
        at, payload_end = memory + nb.uint64(spans[index, 0]), memory + nb.uint64(spans[index, 1])
        count_before, key_end_before = count, key_end
        for _ in range(batch.record_count):
            record = records[count]
            record.batch_index = first + index
            at, key_at = _read_record(at, payload_end, batch, record)
            if at == _BROKEN:
                break
            count += 1
            if want_keys:
                key_end = _copy_key(key_at, record.key_length, keys, key_end)
                key_offsets[count] = key_end
        if at != payload_end:
            batch.flaw = _PAYLOAD
            count, key_end = count_before, key_end_before
    return count, key_end
