"""Makes valid record sets for tests: batches of any codec, control batches, legacy message sets.

Compressors are others than the readers under test use (Python's gzip, zstandard's one-shot API, own frames around
Snappy and LZ4 blocks), so that a round trip proves something.
"""

import gzip
import struct

import cramjam
import zstandard

from pipeline.model.log import BatchHeader, Codec, Record, TimestampType
from tests.record_writers import write_batch, write_message, write_records

START_MS = 1_700_000_000_000


def make_records(count, *, base_offset=0, start_ms=START_MS, key=b"k%d", value=b"v" * 20, headers=()):
    """`count` records with rising offsets and timestamps; a `%d` in the key is the record's number."""
    return [
        Record(
            offset=base_offset + i,
            timestamp_ms=start_ms + i,
            key=key % i if key and b"%" in key else key,
            value=value,
            headers=headers,
        )
        for i in range(count)
    ]


def make_batch(
    records,
    *,
    codec=Codec.NONE,
    attributes=0,
    base_offset=None,
    last_offset=None,
    record_count=None,
    base_timestamp_ms=None,
    max_timestamp_ms=None,
    payload=None,
    producer_id=-1,
    producer_epoch=-1,
    base_sequence=-1,
    leader_epoch=0,
):
    """One v2 batch; what is not given follows from the records."""
    base_offset = records[0].offset if base_offset is None else base_offset
    base_timestamp_ms = records[0].timestamp_ms if base_timestamp_ms is None else base_timestamp_ms
    if payload is None:
        raw = write_records(records, base_offset=base_offset, base_timestamp_ms=base_timestamp_ms)
        payload = compress(codec, raw)
    header = BatchHeader(
        position=0,
        size_bytes=0,
        base_offset=base_offset,
        last_offset=records[-1].offset if last_offset is None else last_offset,
        partition_leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes | codec,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(r.timestamp_ms for r in records) if max_timestamp_ms is None else max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records) if record_count is None else record_count,
    )
    return write_batch(header, payload)


def make_marker(offset, *, commit=True, producer_id=1000, timestamp_ms=START_MS):
    """A control batch that ends a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    marker = Record(offset=offset, timestamp_ms=timestamp_ms, key=key, value=struct.pack(">hi", 0, 7))
    return make_batch([marker], attributes=0x30, producer_id=producer_id, producer_epoch=0)


def make_wrapper(records, *, magic, codec=Codec.GZIP, timestamp_type=TimestampType.CREATE_TIME, compressor=None):
    """A compressed legacy message around a message set."""
    base = 0 if magic == 0 else records[0].offset
    inner = b"".join(
        write_message(
            Record(offset=r.offset - base, timestamp_ms=r.timestamp_ms, key=r.key, value=r.value), magic=magic
        )
        for r in records
    )
    value = (compressor or compress)(codec, inner)
    timestamp_ms = max(r.timestamp_ms for r in records)
    outer = Record(offset=records[-1].offset, timestamp_ms=timestamp_ms, key=None, value=value)
    return write_message(outer, magic=magic, codec=codec, timestamp_type=timestamp_type)


def compress(codec, data):
    """As Kafka's Java client frames it."""
    return {
        Codec.NONE: bytes,
        Codec.GZIP: gzip.compress,
        Codec.SNAPPY: frame_xerial,
        Codec.LZ4: frame_lz4,
        Codec.ZSTD: zstandard.compress,
    }[codec](data)


def frame_xerial(data, *, block_bytes=32 << 10):
    """xerial's stream: header, then length-prefixed raw Snappy blocks."""
    out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_bytes]))
        out += struct.pack(">i", len(block)) + block
    return out


def frame_lz4(data, *, header_checksum=b"\x82", flags=0x60, stored=False):
    """An LZ4 frame of independent 64 KiB blocks, as `Lz4BlockOutputStream` writes it."""
    out = b"\x04\x22\x4d\x18" + bytes([flags, 0x40]) + header_checksum
    for start in range(0, len(data), 64 << 10):
        part = data[start : start + (64 << 10)]
        block = part if stored else bytes(cramjam.lz4.compress_block(part, store_size=False))
        out += struct.pack("<I", len(block) | (0x80000000 if stored else 0)) + block
        out += b"\0\0\0\0" if flags & 0x10 else b""
    return out + b"\0\0\0\0" + (b"\0\0\0\0" if flags & 0x04 else b"")
