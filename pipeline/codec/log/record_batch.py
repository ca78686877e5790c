"""Records of one batch in plain Python: for few batches, and for what the kernels do not read: message sets v0 and v1.

A wrapper is a message whose value is a compressed message set; inner offsets are absolute in magic 0, in magic 1 relative to
the last, which has the wrapper's. References: Kafka `DefaultRecord`, `ByteUtils.readVarint`,
`AbstractLegacyRecordBatch.DeepRecordsIterator`, KIP-31, KIP-32, KIP-98.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.codec.log import batch_headers
from pipeline.codec.log.batch_headers import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_AT, MIN_LENGTH
from pipeline.codec.log.compression import decompress
from pipeline.errors import InputError
from pipeline.model.log import BatchHeader, Record, TimestampType

MAGIC = 2
_HEADER = struct.Struct(f">{batch_headers.HEADER_CODES}")
_ENTRY = struct.Struct(">qiIbb")
_INT64 = struct.Struct(">q")
_KEY_START = (18, 26)  # by magic


def read_varint(data: bytes | memoryview, position: int, *, bits: int = 32) -> tuple[int, int]:
    """A signed zig-zag varint and the position after it; `InputError` for one too long, too large or cut."""
    max_bytes = -(-bits // 7)
    raw, reason = 0, f"varint longer than {max_bytes} bytes"
    for index, byte in enumerate(data[position : position + max_bytes]):
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and not raw >> bits:
            return (raw >> 1) ^ -(raw & 1), position + index + 1
        if byte < 0x80:
            reason = f"varint does not fit in {bits} bits"
            break
    else:
        if len(data) < position + max_bytes:
            reason = "data end inside a varint"
    raise InputError(reason, position=position, first_bytes=bytes(data[position : position + max_bytes]))


def read_entry_records(entry: bytes) -> list[Record]:
    if entry[MAGIC_AT] < MAGIC:
        message = read_message(entry, 0)
        return unwrap(message) if message.codec else [message.record]
    header = read_batch_header(entry)
    payload = memoryview(entry)[BATCH_HEADER_BYTES:]
    return list(read_records(header, decompress(header.codec, payload) if header.codec else payload))


def read_batch_header(data: bytes | memoryview, position: int = 0, *, file_position: int = 0) -> BatchHeader:
    where, left = file_position + position, len(data) - position
    if left < BATCH_HEADER_BYTES:
        raise InputError(f"{left} bytes left, want a batch header of {BATCH_HEADER_BYTES}", position=where)
    if data[position + MAGIC_AT] != MAGIC:
        raise InputError(f"magic {data[position + MAGIC_AT]}, want {MAGIC}", position=where)
    fields = dict(zip(batch_headers.HEADER_FIELDS, _HEADER.unpack_from(data, position), strict=True))
    size_bytes = fields.pop("length") + LOG_OVERHEAD_BYTES
    last_offset = fields["base_offset"] + fields.pop("last_offset_delta")
    return BatchHeader(position=where, size_bytes=size_bytes, last_offset=last_offset, **fields)


def read_records(header: BatchHeader, payload: bytes | memoryview) -> Iterator[Record]:
    position = 0
    for _ in range(header.record_count):
        record, position = _read_record(header, payload, position)
        yield record
    if position != len(payload):
        raise InputError(f"{len(payload) - position} bytes left after {header.record_count} records", position=position)


def _read_record(header: BatchHeader, data: bytes | memoryview, start: int) -> tuple[Record, int]:
    body_bytes, position = read_varint(data, start)
    end, left = position + body_bytes, len(data) - position
    if body_bytes < 1 or end > len(data):
        raise InputError(f"a record longer than the {left} bytes that are left, or empty", position=start)
    data = data[:end]
    timestamp_delta_ms, position = read_varint(data, position + 1, bits=64)  # its attributes byte is unused
    offset_delta, position = read_varint(data, position)
    if not 0 <= offset_delta <= header.last_offset - header.base_offset:
        raise InputError("a record with an offset outside its batch", position=start)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    headers, position = _read_headers(data, position)
    if position != end:
        raise InputError("a record with bytes left over", position=start)
    timestamp_ms = (header.base_timestamp_ms + timestamp_delta_ms + 2**63) % 2**64 - 2**63  # Java's long wraps
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp_ms = header.max_timestamp_ms
    said = {"offset": header.base_offset + offset_delta, "timestamp_ms": timestamp_ms, "size_bytes": end - start}
    return Record(**said, key=key, value=value, headers=headers), end


def _read_bytes(data: bytes | memoryview, position: int) -> tuple[bytes | None, int]:
    length, after = read_varint(data, position)
    if length < 0:
        return None, after
    if length > len(data) - after:
        raise InputError(f"a field longer than the {len(data) - after} bytes that are left", position=position)
    return bytes(data[after : after + length]), after + length


def _read_headers(data: bytes | memoryview, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, after = read_varint(data, position)
    if not 0 <= count <= (len(data) - after) // 2:
        raise InputError(f"more record headers than {len(data) - after} bytes can hold", position=position)
    headers = []
    for _ in range(count):
        name, named = _read_bytes(data, after)
        if name is None:
            raise InputError("null name of a record header", position=after)
        value, after = _read_bytes(data, named)
        headers.append((name.decode("utf-8", errors="replace"), value))
    return tuple(headers), after


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    record: Record
    magic: int
    codec: int
    timestamp_type: TimestampType


def read_message(data: bytes, position: int) -> Message:
    """Reads one entry, checksum aside; `InputError` if it is not of magic 0 or 1, or its key or value run beyond it."""
    left = len(data) - position - LOG_OVERHEAD_BYTES
    length = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD_BYTES], "big", signed=True)
    magic = data[position + MAGIC_AT] if left >= MIN_LENGTH[0] else -1
    if not 0 <= magic <= 1 or not MIN_LENGTH[magic] <= length <= left:
        first_bytes = data[position:][:64]
        raise InputError(f"no message of magic 0 or 1, {left} bytes left", position=position, first_bytes=first_bytes)
    offset, _, _, _, attributes = _ENTRY.unpack_from(data, position)
    timestamp_ms = _INT64.unpack_from(data, position + 18)[0] if magic == 1 else -1
    size_bytes = length + LOG_OVERHEAD_BYTES
    end = position + size_bytes
    key, after = _read_field(data, position + _KEY_START[magic], end)
    value, after = _read_field(data, after, end)
    if after != end:
        raise InputError(f"message has {end - after} bytes left over", position=position)
    timestamp_type = TimestampType((attributes >> 3) & 1 if magic == 1 else 0)
    record = Record(offset=offset, timestamp_ms=timestamp_ms, key=key, value=value, size_bytes=size_bytes)
    return Message(record=record, magic=magic, codec=attributes & 7, timestamp_type=timestamp_type)


def _read_field(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    if end - position < 4:
        raise InputError("message ends inside a length", position=position)
    length = int.from_bytes(data[position : position + 4], "big", signed=True)
    position += 4
    if length < 0:
        return None, position
    if length > end - position:
        raise InputError(f"a field longer than the {end - position} bytes that are left", position=position - 4)
    return data[position : position + length], position + length


def read_message_set(data: bytes) -> Iterator[Message]:
    position = 0
    while position < len(data):
        message = read_message(data, position)
        yield message
        position += message.record.size_bytes


def unwrap(wrapper: Message) -> list[Record]:
    """Inner messages of a wrapper, with absolute offsets and final timestamps; `InputError`: broken or nested ones."""
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
    offsets = [record.offset for record in records]
    low, high, own = min(offsets), max(offsets), wrapper.record.offset
    if low < 0 or high > batch_headers.MAX_BASE_OFFSET or max(high, own) - min(low, own) >= 2**31:
        raise InputError("inner messages with negative offsets, or far from the wrapper's")
    if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME:
        records = [replace(record, timestamp_ms=wrapper.record.timestamp_ms) for record in records]
    return records
