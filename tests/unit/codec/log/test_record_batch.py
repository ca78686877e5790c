"""Record batches: written, read back; oracles: kafka-python's own reader and builder, and bytes cut by hand."""

import struct

import pytest

from pipeline.codec.log.compression import decompress
from pipeline.codec.log.record_batch import read_batch_header, read_entry_records, read_records
from pipeline.errors import InputError
from pipeline.model.log import Codec, Record, TimestampType
from tests.batches import START_MS, make_batch, make_marker, make_records
from tests.kafka_python import MemoryRecords, MemoryRecordsBuilder
from tests.record_writers import write_records, write_varint

HEADERS = (("trace-id", b"1"), ("empty", b""), ("nil", None), ("trace-id", b"2"))
ODD = [
    Record(offset=5, timestamp_ms=START_MS, key=None, value=b"v"),
    Record(offset=6, timestamp_ms=START_MS - 500, key=b"", value=b""),
    Record(offset=8, timestamp_ms=START_MS + 70_000, key=b"k" * 300, value=None, headers=HEADERS),
    Record(offset=9, timestamp_ms=START_MS, key=b"\xff\x00", value=b"x" * 9000),
]


def strip_sizes(records):
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records]


@pytest.mark.parametrize("codec", list(Codec))
def test_round_trip(codec):
    batch = make_batch(ODD, codec=codec, producer_id=1000, producer_epoch=3, base_sequence=7, leader_epoch=4)
    header = read_batch_header(b"??" + batch, 2, file_position=100)
    assert (header.position, header.size_bytes) == (102, len(batch))
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 9, 4)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (START_MS, START_MS + 70_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1000, 3, 7)
    assert (header.partition_leader_epoch, header.codec) == (4, codec)
    records = read_entry_records(batch)
    assert strip_sizes(records) == strip_sizes(ODD)
    assert sum(record.size_bytes for record in records) == len(decompress(codec, batch[61:]))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])  # the codecs it has without further packages
def test_kafka_python_reads_what_we_write(codec):
    batch = make_batch(ODD, codec=codec)
    (read,) = [list(b) for b in iter(MemoryRecords(batch).next_batch, None)]
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in read] == strip_sizes(ODD)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_we_read_what_kafka_python_writes(codec):
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
    for i in range(50):
        builder.append(timestamp=START_MS + i, key=None if i % 3 else b"k%d" % i, value=b"v%d" % i, headers=[])
    builder.close()
    records = read_entry_records(bytes(builder.buffer()))
    assert [(r.offset, r.timestamp_ms, r.key, r.value) for r in records] == [
        (i, START_MS + i, None if i % 3 else b"k%d" % i, b"v%d" % i) for i in range(50)
    ]


def test_log_append_time_is_every_records_time():
    batch = make_batch(make_records(3), attributes=0x08, max_timestamp_ms=START_MS + 999)
    assert read_batch_header(batch).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in read_entry_records(batch)} == {START_MS + 999}


def test_control_batch():
    batch = make_marker(12, commit=False)
    header = read_batch_header(batch)
    assert header.attributes & 0x20
    assert header.attributes & 0x10
    (record,) = read_entry_records(batch)
    assert struct.unpack(">hh", record.key) == (0, 0)


def test_compacted_batch_keeps_its_last_offset():
    batch = make_batch(make_records(1, base_offset=4), base_offset=2, last_offset=9)
    header = read_batch_header(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (2, 9, 1)
    assert [record.offset for record in read_entry_records(batch)] == [4]


def record_bytes(body):
    return write_varint(len(body)) + body


ONE = write_records(make_records(1), base_offset=0, base_timestamp_ms=START_MS)
BROKEN = [
    ("left over", ONE + b"\0", "1 bytes left after 1 records"),
    ("missing", b"", "data end inside"),
    ("cut", ONE[:-3], "a record longer than the 25 bytes that are left"),
    ("negative length", b"\x01" + ONE[1:], "that are left, or empty"),
    ("overlong varint", b"\x80\x80\x80\x80\x80\x01", "longer than 5 bytes"),
    ("key beyond", record_bytes(b"\0\0\0\x7e\x00\x00"), "a field longer than the 2 bytes"),
    ("value beyond", record_bytes(b"\0\0\0\x01\x7e\x00"), "a field longer than the 1 bytes"),
    ("headers beyond", record_bytes(b"\0\0\0\x01\x01\x7e"), "more record headers than 0 bytes"),
    ("negative headers", record_bytes(b"\0\0\0\x01\x01\x01"), "more record headers than 0 bytes"),
    ("null header name", record_bytes(b"\0\0\0\x01\x01\x02\x01\x01"), "null name"),
    ("body longer than fields", record_bytes(b"\0\0\0\x01\x01\x00\x00"), "a record with bytes left over"),
    ("offset outside", record_bytes(b"\0\0\x02\x01\x01\x00"), "an offset outside its batch"),
]


@pytest.mark.parametrize(("payload", "reason"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_records(payload, reason):
    header = read_batch_header(make_batch(make_records(1), payload=payload))
    with pytest.raises(InputError, match=reason):
        list(read_records(header, payload))


def test_header_of_another_magic_or_cut():
    batch = make_batch(make_records(1))
    with pytest.raises(InputError, match="want a batch header of 61"):
        read_batch_header(batch[:60])
    with pytest.raises(InputError, match="magic 1, want 2"):
        read_batch_header(batch[:16] + b"\1" + batch[17:])
