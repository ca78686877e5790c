"""Writes record sets byte by byte, as Kafka's clients do: magic 2 batches and the messages of before.

References:
    Kafka `DefaultRecordBatch.writeHeader`, `DefaultRecord.writeTo`, `LegacyRecord.write`, `ByteUtils.writeVarlong`.
"""

import struct
import zlib

import google_crc32c

from pipeline.model.log import TimestampType

_AFTER_CRC = struct.Struct(">hiqqqhii")


def write_varint(value: int) -> bytes:
    """A signed 32- or 64-bit integer in zig-zag form, as short as it can be."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def write_records(records, *, base_offset, base_timestamp_ms) -> bytes:
    """Records one after another, deltas relative to the given bases; `size_bytes` is not looked at."""
    out = bytearray()
    for record in records:
        body = bytearray(b"\x00")
        body += write_varint(record.timestamp_ms - base_timestamp_ms)
        body += write_varint(record.offset - base_offset)
        body += _write_bytes(record.key)
        body += _write_bytes(record.value)
        body += write_varint(len(record.headers))
        for name, value in record.headers:
            body += _write_bytes(name.encode())
            body += _write_bytes(value)
        out += write_varint(len(body)) + body
    return bytes(out)


def _write_bytes(field) -> bytes:
    return write_varint(-1) if field is None else write_varint(len(field)) + field


def write_batch(header, payload: bytes) -> bytes:
    """A batch around a record set, compressed already if the attributes say so; length and checksum follow from the rest."""
    after_crc = _AFTER_CRC.pack(
        header.attributes,
        header.last_offset - header.base_offset,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    covered = after_crc + payload
    before_crc = struct.pack(">qiib", header.base_offset, 9 + len(covered), header.partition_leader_epoch, 2)
    return before_crc + struct.pack(">I", google_crc32c.value(covered)) + covered


def write_message(record, *, magic, codec=0, timestamp_type=TimestampType.CREATE_TIME) -> bytes:
    """One entry of magic 0 or 1; for a wrapper, `record.value` is the compressed inner set."""
    body = struct.pack(">bb", magic, codec | timestamp_type << 3)
    if magic == 1:
        body += struct.pack(">q", record.timestamp_ms)
    for field in (record.key, record.value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    return struct.pack(">qiI", record.offset, len(body) + 4, zlib.crc32(body)) + body
