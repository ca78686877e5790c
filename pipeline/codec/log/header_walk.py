"""Walks the batches of a segment in plain Python: the readable reference, and the way for small files.

Kafka's own walk (`FileLogInputStream.nextBatch`) reads 17 bytes, offset, length, ..., magic, and steps on by the
length; it ends at a batch that runs past the end of the file and throws on a length too small to be one. So do we, and
we also stop at an unknown magic, where Kafka would take the bytes for magic 2.
"""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.compression import MAX_OUTPUT_BYTES, MAX_OUTPUT_RATIO, UNBOUNDED_RATIO_BYTES
from pipeline.codec.log.crc import crc32, crc32c
from pipeline.codec.log.scans import HEADER_ROW, Flaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOG_OVERHEAD_BYTES = 12  # offset and length
MAGIC_AT = 16
HEADER_UP_TO_MAGIC_BYTES = 17
BATCH_HEADER_BYTES = 61
MAX_MAGIC = 2
MIN_LENGTH = (14, 22, BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES)  # value of the length field, by magic
MIN_RECORD_BYTES = 7  # length, attributes, two deltas, key length, value length, header count
MAX_LENGTH = 2**31 - 1 - LOG_OVERHEAD_BYTES
MAX_BASE_OFFSET = 2**63 - 2**31 - 1
MAX_CODEC = (3, 3, 4)  # by magic; zstd came with magic 2

_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY_HEADER = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")

Bytes = bytes | mmap.mmap
HeaderTuple = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, bool, int]


class Stop(IntEnum):
    """Why a walk ended."""

    END = 0
    BEYOND_FILE = 1  # the entry runs past the end of the file: torn tail, or a wrong length
    BAD_LENGTH = 2  # negative, or too small for its magic
    BAD_MAGIC = 3
    ZERO_LENGTH = 4  # a preallocated tail, or damage
    ROWS_FULL = 5  # kernel only: come again with more room


def walk_batches(data: Bytes, start: int, end: int, *, check_crc: bool = True) -> tuple[NDArray[np.void], int, Stop]:
    """Reads every batch header from `start` on.

    Args:
        data: The whole file; slices of it must be bytes.
        start: Position of a batch.
        end: Batches that start at or after this position are left out.
        check_crc: Verify checksums; else `crc_ok` is True.

    Returns:
        `HEADER_ROW`s (a compressed legacy wrapper with record count -1: its inner set was not looked at), the position
        where the walk stopped, and why.
    """
    rows: list[HeaderTuple] = []
    position = start
    stop = Stop.END
    while position < end:
        stop, size_bytes, magic = measure_entry(data, position)
        if stop != Stop.END:
            break
        read = _read_batch_row if magic == 2 else _read_legacy_row
        rows.append(read(data, position, size_bytes, check_crc=check_crc))
        position += size_bytes
    return np.array(rows, HEADER_ROW), position, stop


def measure_entry(data: Bytes, position: int) -> tuple[Stop, int, int]:
    """Looks at an entry's length and magic; returns why it cannot be read (or `END`), its size in bytes, its magic."""
    left = len(data) - position
    if left < HEADER_UP_TO_MAGIC_BYTES:
        return Stop.BEYOND_FILE if any(data[position:]) else Stop.ZERO_LENGTH, 0, 0
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    magic = data[position + MAGIC_AT]
    stop = Stop.END
    if length == 0:
        stop = Stop.ZERO_LENGTH
    elif not MIN_LENGTH[0] <= length <= MAX_LENGTH:
        stop = Stop.BAD_LENGTH
    elif length > left - LOG_OVERHEAD_BYTES:
        stop = Stop.BEYOND_FILE
    elif magic > MAX_MAGIC:
        stop = Stop.BAD_MAGIC
    elif length < MIN_LENGTH[magic]:
        stop = Stop.BAD_LENGTH
    return stop, length + LOG_OVERHEAD_BYTES, magic


def _read_batch_row(data: Bytes, position: int, size_bytes: int, *, check_crc: bool) -> HeaderTuple:
    fields = _BATCH_HEADER.unpack_from(data, position)
    base_offset, _, epoch, magic, crc, attributes, last_offset_delta, base_timestamp_ms, max_timestamp_ms = fields[:9]
    producer_id, producer_epoch, base_sequence, record_count = fields[9:]
    crc_ok = not check_crc or crc32c(data[position + 21 : position + size_bytes]) == crc
    offsets_ok = 0 <= base_offset <= MAX_BASE_OFFSET and last_offset_delta >= 0
    flaw = _judge_counts(attributes & 7, size_bytes, last_offset_delta, record_count) if offsets_ok else Flaw.OFFSETS
    flaw = flaw if crc_ok else Flaw.CRC
    last_offset = base_offset + last_offset_delta if offsets_ok else base_offset
    return (
        position, base_offset, last_offset, base_timestamp_ms, max_timestamp_ms, producer_id, size_bytes, epoch, crc,
        base_sequence, record_count, attributes, producer_epoch, magic, crc_ok, flaw,
    )  # fmt: skip


def _judge_counts(codec: int, size_bytes: int, last_offset_delta: int, record_count: int) -> Flaw:
    # Offsets are unique, so there are at most as many records as offsets; compaction only takes records away.
    room = size_bytes - BATCH_HEADER_BYTES
    if codec != 0:
        room = min(MAX_OUTPUT_BYTES, max(UNBOUNDED_RATIO_BYTES, room * MAX_OUTPUT_RATIO))
    if not 0 <= record_count <= min(last_offset_delta + 1, room // MIN_RECORD_BYTES):
        return Flaw.RECORD_COUNT
    return Flaw.NONE if codec <= MAX_CODEC[2] else Flaw.CODEC


def _read_legacy_row(data: Bytes, position: int, size_bytes: int, *, check_crc: bool) -> HeaderTuple:
    offset, _, crc, magic, attributes = _LEGACY_HEADER.unpack_from(data, position)
    timestamp_ms = _TIMESTAMP.unpack_from(data, position + 18)[0] if magic == 1 else -1
    crc_ok = not check_crc or crc32(data[position + 16 : position + size_bytes]) == crc
    codec = attributes & 7
    flaw = Flaw.NONE if crc_ok else Flaw.CRC
    if crc_ok and (offset < 0 or codec > MAX_CODEC[magic]):
        flaw = Flaw.OFFSETS if offset < 0 else Flaw.CODEC
    return (
        position, offset, offset, timestamp_ms, timestamp_ms, -1, size_bytes, -1, crc,
        -1, -1 if codec else 1, attributes, -1, magic, crc_ok, flaw,
    )  # fmt: skip
