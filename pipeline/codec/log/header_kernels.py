"""The header walk as Numba kernels, for large files; `header_walk` is the same in plain Python and its oracle."""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.codec.log import compression as bounds
from pipeline.codec.log import header_walk as layout
from pipeline.codec.log.crc_kernels import crc32_by_tables, crc32c_kernel
from pipeline.codec.log.machine import address_of, load_big_word, load_byte, prefetch
from pipeline.codec.log.scans import HEADER_ROW, Flaw
from pipeline.compilation import READ_ONLY_BYTES, inlined, kernel, part

_BATCHES_AHEAD = 8  # full batches are alike in size, so the place of a later header is a good guess

ROWS = types.Array(nb.from_dtype(HEADER_ROW), 1, "C")
_STOP = nb.types.UniTuple(types.int64, 3)

Row = Any  # a NumPy record: its fields are attributes, inside a kernel only
Rows = Any
Array = Any

# Enum members as plain numbers, which the compiler folds.
_END, _BEYOND_FILE, _BAD_LENGTH = int(layout.Stop.END), int(layout.Stop.BEYOND_FILE), int(layout.Stop.BAD_LENGTH)
_BAD_MAGIC, _ZERO_LENGTH = int(layout.Stop.BAD_MAGIC), int(layout.Stop.ZERO_LENGTH)
_ROWS_FULL = int(layout.Stop.ROWS_FULL)
_SOUND, _CRC, _RECORD_COUNT = int(Flaw.NONE), int(Flaw.CRC), int(Flaw.RECORD_COUNT)
_OFFSETS, _CODEC = int(Flaw.OFFSETS), int(Flaw.CODEC)
_LOG_OVERHEAD, _UP_TO_MAGIC = layout.LOG_OVERHEAD_BYTES, layout.HEADER_UP_TO_MAGIC_BYTES
_HEADER_BYTES, _MIN_RECORD = layout.BATCH_HEADER_BYTES, layout.MIN_RECORD_BYTES
_MIN_LENGTH, _MAX_LENGTH, _MAX_MAGIC = layout.MIN_LENGTH, layout.MAX_LENGTH, layout.MAX_MAGIC
_MAX_BASE_OFFSET, _MAX_CODEC = layout.MAX_BASE_OFFSET, layout.MAX_CODEC
_MAX_OUTPUT, _MAX_RATIO, _UNBOUNDED = bounds.MAX_OUTPUT_BYTES, bounds.MAX_OUTPUT_RATIO, bounds.UNBOUNDED_RATIO_BYTES


@inlined
def _int64(address: int) -> int:
    return nb.int64(load_big_word(address))


@inlined
def _int32(address: int) -> int:
    return nb.int32(load_big_word(address) >> nb.uint64(32))


@inlined
def _int16(address: int) -> int:
    return nb.int16(load_big_word(address) >> nb.uint64(48))


@part
def _measure(address: int, left: int) -> tuple[int, int, int]:
    """Gives (stop, size, magic) of the entry at the address; mirrors `header_walk.measure_entry`."""
    if left < _UP_TO_MAGIC:
        for at in range(left):
            if load_byte(address + nb.uint64(at)) != 0:
                return _BEYOND_FILE, 0, 0
        return _ZERO_LENGTH, 0, 0
    length = nb.int64(_int32(address + nb.uint64(8)))
    magic = nb.int64((load_big_word(address + nb.uint64(9))) & nb.uint64(0xFF))
    stop = _END
    if length == 0:
        stop = _ZERO_LENGTH
    elif length < _MIN_LENGTH[0] or length > _MAX_LENGTH:
        stop = _BAD_LENGTH
    elif length > left - _LOG_OVERHEAD:
        stop = _BEYOND_FILE
    elif magic > _MAX_MAGIC:
        stop = _BAD_MAGIC
    elif length < _MIN_LENGTH[magic]:
        stop = _BAD_LENGTH
    return stop, length + _LOG_OVERHEAD, magic


@part
def _fill_batch(row: Row, address: int) -> int:
    """Reads the fields of a v2 header; the flaw is what the header alone tells."""
    base_offset = _int64(address)
    last_offset_delta = _int32(address + nb.uint64(23))
    row.base_offset = base_offset
    row.partition_leader_epoch = _int32(address + nb.uint64(12))
    row.crc = nb.uint32(_int32(address + nb.uint64(17)))
    row.attributes = _int16(address + nb.uint64(21))
    row.base_timestamp_ms = _int64(address + nb.uint64(27))
    row.max_timestamp_ms = _int64(address + nb.uint64(35))
    row.producer_id = _int64(address + nb.uint64(43))
    row.producer_epoch = _int16(address + nb.uint64(51))
    # The last two fields end the header: one word at 53 holds both.
    tail = load_big_word(address + nb.uint64(53))
    row.base_sequence = nb.int32(tail >> nb.uint64(32))
    row.record_count = nb.int32(tail & nb.uint64(0xFFFFFFFF))
    if base_offset < 0 or base_offset > _MAX_BASE_OFFSET or last_offset_delta < 0:
        row.last_offset = base_offset
        return _OFFSETS
    row.last_offset = base_offset + last_offset_delta
    codec = row.attributes & 7
    room = nb.int64(row.size_bytes) - _HEADER_BYTES
    if codec != 0:
        room = min(_MAX_OUTPUT, max(_UNBOUNDED, room * _MAX_RATIO))
    if row.record_count < 0 or row.record_count > min(nb.int64(last_offset_delta) + 1, room // _MIN_RECORD):
        return _RECORD_COUNT
    return _CODEC if codec > _MAX_CODEC[2] else _SOUND


@part
def _fill_message(row: Row, address: int, magic: int) -> int:
    """Reads the fields of a magic 0 or 1 message."""
    offset = _int64(address)
    attributes = nb.int8(load_big_word(address + nb.uint64(10)) & nb.uint64(0xFF))
    timestamp_ms = _int64(address + nb.uint64(18)) if magic == 1 else nb.int64(-1)
    codec = attributes & 7
    row.base_offset = row.last_offset = offset
    row.base_timestamp_ms = row.max_timestamp_ms = timestamp_ms
    row.producer_id = -1
    row.partition_leader_epoch = -1
    row.crc = nb.uint32(_int32(address + nb.uint64(12)))
    row.base_sequence = -1
    row.record_count = 1 if codec == 0 else -1
    row.attributes = attributes
    row.producer_epoch = -1
    if offset < 0:
        return _OFFSETS
    return _CODEC if codec > _MAX_CODEC[magic] else _SOUND


@kernel(_STOP(READ_ONLY_BYTES, types.int64, types.int64, ROWS))
def walk_rows(data: Array, start: int, end: int, rows: Rows) -> tuple[int, int, int]:
    """Reads headers into `rows`, checksums left for `check_rows`.

    Args:
        data: The whole file, uint8.
        start: Position of the first batch to read.
        end: Batches at or after this position are left out.
        rows: `HEADER_ROW`s to fill.

    Returns:
        Rows filled, position of the first entry not read, and a `header_walk.Stop`.
    """
    memory = address_of(data)
    position, count = start, 0
    while position < end:
        if count == len(rows):
            return count, position, _ROWS_FULL
        address = memory + nb.uint64(position)
        stop, size_bytes, magic = _measure(address, len(data) - position)
        if stop != _END:
            return count, position, stop
        row = rows[count]
        row.position = position
        row.size_bytes = size_bytes
        row.magic = magic
        row.crc_ok = True
        row.flaw = _fill_batch(row, address) if magic == 2 else _fill_message(row, address, magic)
        count += 1
        position += size_bytes
        prefetch(address + nb.uint64(_BATCHES_AHEAD * size_bytes))
    return count, position, _END


@kernel(types.void(READ_ONLY_BYTES, ROWS))
def check_rows(data: Array, rows: Rows) -> None:
    """Verifies the checksums of the rows' batches in `data`, the whole file; sets `crc_ok` and the flaw."""
    for row in rows:
        end = row.position + row.size_bytes
        if row.magic == 2:
            crc = crc32c_kernel(data, row.position + 21, end)
        else:
            crc = crc32_by_tables(data, row.position + 16, end)
        if crc != row.crc:
            row.crc_ok = False
            row.flaw = _CRC
