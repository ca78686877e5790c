"""Records of one batch in plain Python: for few batches, and for what the kernels do not read (legacy message sets).

References:
    Kafka `DefaultRecordBatch`, `DefaultRecord`, `EndTransactionMarker`; KIP-98. Varints: `ByteUtils.readVarint`,
    `readVarlong`; Protocol Buffers' sint32 and sint64.
"""

import struct
from collections.abc import Iterator

from pipeline.codec.log.batch_format import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_AT
from pipeline.codec.log.compression import decompress
from pipeline.codec.log.legacy import read_message, unwrap
from pipeline.errors import InputError
from pipeline.model.log import BatchHeader, Record, TimestampType

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Reads a signed 32-bit zig-zag varint; returns it and the position after it.

    Raises:
        InputError: More than 5 bytes, a value beyond 32 bits, or the data end inside it.

    >>> read_varint(bytes([0x01]), 0), read_varint(bytes([0xAC, 0x02]), 0)
    ((-1, 1), (150, 2))
    """
    return _read_zig_zag(data, position, MAX_VARINT_BYTES, bits=32)


def read_varlong(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Reads a signed 64-bit zig-zag varlong of up to 10 bytes; else as `read_varint`."""
    return _read_zig_zag(data, position, MAX_VARLONG_BYTES, bits=64)


def _read_zig_zag(data: bytes | memoryview, position: int, max_bytes: int, *, bits: int) -> tuple[int, int]:
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


MAGIC = 2
_HEADER = struct.Struct(">qiibIhiqqqhii")


def read_entry_records(entry: bytes) -> list[Record]:
    """Reads the records of one whole batch of any magic (of its inner set, for a compressed legacy message).

    Raises:
        InputError: They do not decompress or parse.
    """
    if entry[MAGIC_AT] < MAGIC:
        message = read_message(entry, 0)
        return unwrap(message) if message.codec else [message.record]
    header = read_batch_header(entry)
    payload = memoryview(entry)[BATCH_HEADER_BYTES:]
    return list(read_records(header, decompress(header.codec, payload) if header.codec else payload))


def read_batch_header(data: bytes | memoryview, position: int = 0, *, file_position: int = 0) -> BatchHeader:
    """Reads the 61 bytes in front of a batch's records; `data` begins at `file_position` of the file.

    Raises:
        InputError: Fewer than 61 bytes, or another magic than 2.
    """
    where = file_position + position
    if len(data) - position < BATCH_HEADER_BYTES:
        raise InputError(
            f"{len(data) - position} bytes left, want a batch header of {BATCH_HEADER_BYTES}", position=where
        )
    if data[position + 16] != MAGIC:
        raise InputError(f"magic {data[position + 16]}, want {MAGIC}", position=where)
    fields = _HEADER.unpack_from(data, position)
    base_offset, length, epoch, magic, crc, attributes, last_offset_delta = fields[:7]
    base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, base_sequence, record_count = fields[7:]
    return BatchHeader(
        position=where,
        size_bytes=length + LOG_OVERHEAD_BYTES,
        base_offset=base_offset,
        last_offset=base_offset + last_offset_delta,
        partition_leader_epoch=epoch,
        magic=magic,
        crc=crc,
        attributes=attributes,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )


def read_records(header: BatchHeader, payload: bytes | memoryview) -> Iterator[Record]:
    """Yields the records of a batch from the bytes after its header, decompressed.

    Raises:
        InputError: A record that runs beyond its length or the payload, or bytes left after the last one; `position`
            is relative to the payload.
    """
    position = 0
    for _ in range(header.record_count):
        record, position = _read_record(header, payload, position)
        yield record
    if position != len(payload):
        raise InputError(f"{len(payload) - position} bytes left after {header.record_count} records", position=position)


def _read_record(header: BatchHeader, data: bytes | memoryview, start: int) -> tuple[Record, int]:
    body_bytes, position = read_varint(data, start)
    end = position + body_bytes
    if body_bytes < 1 or end > len(data):
        raise InputError(
            f"a record longer than the {len(data) - position} bytes that are left, or empty", position=start
        )
    data = data[:end]
    timestamp_delta_ms, position = read_varlong(data, position + 1)  # the record's attributes byte is unused
    offset_delta, position = read_varint(data, position)
    if not 0 <= offset_delta <= header.last_offset - header.base_offset:
        raise InputError("a record with an offset outside its batch", position=start)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    headers, position = _read_headers(data, position)
    if position != end:
        raise InputError("a record with bytes left over", position=start)
    log_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    record = Record(
        offset=header.base_offset + offset_delta,
        timestamp_ms=header.max_timestamp_ms
        if log_append
        else _add_int64(header.base_timestamp_ms, timestamp_delta_ms),
        key=key,
        value=value,
        headers=headers,
        size_bytes=end - start,
    )
    return record, end


def _add_int64(left: int, right: int) -> int:
    """Adds as Java's long does: a sum beyond 64 bits wraps."""
    return (left + right + 2**63) % 2**64 - 2**63


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
