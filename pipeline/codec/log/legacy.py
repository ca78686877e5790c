"""Message sets v0 and v1 (magic 0 and 1): single messages and compressed wrappers around inner message sets.

A wrapper is a message whose value is a compressed message set. In magic 0 the inner messages carry absolute offsets;
in magic 1 relative ones, counted so that the last one's absolute offset is the wrapper's. With log append time the
wrapper's timestamp holds for all inner messages.

References:
    Kafka `LegacyRecord`, `AbstractLegacyRecordBatch.DeepRecordsIterator`; KIP-31, KIP-32.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.codec.log.batch_format import LOG_OVERHEAD_BYTES, MAGIC_AT, MIN_LENGTH
from pipeline.codec.log.compression import decompress
from pipeline.errors import InputError
from pipeline.model.log import Record, TimestampType

_ENTRY = struct.Struct(">qiIbb")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_KEY_START = (18, 26)  # by magic


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry of a message set as stored: a message, or a wrapper (`codec` not 0)."""

    record: Record
    magic: int
    codec: int
    timestamp_type: TimestampType


def read_message(data: bytes, position: int) -> Message:
    """Reads one entry; the checksum is the business of the walk.

    Raises:
        InputError: The entry is not one of magic 0 or 1, or its key or value run beyond it.
    """
    left = len(data) - position - LOG_OVERHEAD_BYTES
    length = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD_BYTES], "big", signed=True)
    magic = data[position + MAGIC_AT] if left >= MIN_LENGTH[0] else -1
    if not 0 <= magic <= 1 or not MIN_LENGTH[magic] <= length <= left:
        reason = f"no message of magic 0 or 1, {left} bytes left"
        raise InputError(reason, position=position, first_bytes=data[position:][:64])
    offset, _, _, _, attributes = _ENTRY.unpack_from(data, position)
    timestamp_ms = _INT64.unpack_from(data, position + 18)[0] if magic == 1 else -1
    size_bytes = length + LOG_OVERHEAD_BYTES
    end = position + size_bytes
    key, after = _read_bytes(data, position + _KEY_START[magic], end)
    value, after = _read_bytes(data, after, end)
    if after != end:
        raise InputError(f"message has {end - after} bytes left over", position=position)
    timestamp_type = TimestampType((attributes >> 3) & 1 if magic == 1 else 0)
    record = Record(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value, size_bytes=size_bytes)
    return Message(record=record, magic=magic, codec=attributes & 7, timestamp_type=timestamp_type)


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise InputError("message ends inside a length", position=position)
    length = _INT32.unpack_from(data, position)[0]
    position += 4
    if length < 0:
        return None, position
    if length > end - position:
        raise InputError(f"a field longer than the {end - position} bytes that are left", position=position - 4)
    return data[position : position + length], position + length


def read_message_set(data: bytes) -> Iterator[Message]:
    """Yields the entries of a complete message set, wrappers not opened.

    Raises:
        InputError: An entry that cannot be read, a torn one at the end included.
    """
    position = 0
    while position < len(data):
        message = read_message(data, position)
        yield message
        position += message.record.size_bytes


def unwrap(wrapper: Message) -> list[Record]:
    """Decompresses a wrapper and returns its inner messages with absolute offsets and final timestamps.

    Raises:
        InputError: Broken or too much data, no inner message, another magic inside, or a wrapper in a wrapper.
    """
    if wrapper.record.value is None:
        raise InputError("compressed message without a value")
    inner = list(read_message_set(decompress(wrapper.codec, wrapper.record.value)))
    if not inner:
        raise InputError("compressed message without inner messages")
    if any(message.codec or message.magic != wrapper.magic for message in inner):
        raise InputError(f"inner message that is compressed or not of the wrapper's magic {wrapper.magic}")
    # A producer's own set, not yet stored, has a wrapper offset below its inner ones; Kafka then takes those as they are.
    base_offset = 0 if wrapper.magic == 0 else max(0, wrapper.record.offset - inner[-1].record.offset)
    records = [replace(message.record, offset=base_offset + message.record.offset) for message in inner]
    if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME:
        records = [replace(record, timestamp_ms=wrapper.record.timestamp_ms) for record in records]
    return records
