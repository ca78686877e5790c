"""Every file is read as plain Python reads it, damaged ones included; oracles: the plain reader, and what was written."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.codec.log.compression import decompress
from pipeline.codec.log.record_batch import read_entry_records, read_varint
from pipeline.codec.log.segment import scan_headers
from pipeline.model.log import Codec, Record, TimestampType
from tests.batches import compress, make_batch, make_wrapper
from tests.record_writers import write_message, write_varint
from tests.scans import list_keys, scan_and_compare

INT64 = st.integers(-(2**63), 2**63 - 1)
FIELD = st.none() | st.binary(max_size=80)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
TIMES = st.integers(0, 2**42)


@st.composite
def record_lists(draw, base_offset):
    """One to six records with gaps in their offsets, as compaction leaves them."""
    gaps = draw(st.lists(st.integers(1, 9000), min_size=1, max_size=6))
    offsets = base_offset - 1 + np.cumsum(gaps)
    return [
        Record(offset=int(o), timestamp_ms=draw(TIMES), key=draw(FIELD), value=draw(FIELD), headers=draw(HEADERS))
        for o in offsets
    ]


@st.composite
def segments(draw):
    """Record sets of all formats and codecs, and the records in them as (offset, timestamp, key, value, headers)."""
    data, expected, offset = b"", [], draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 5))):
        records = draw(record_lists(offset))
        kind = draw(st.sampled_from(["v2", "v2", "v2", "v1", "v0", "wrapped v1", "wrapped v0"]))
        if kind == "v2":
            data += make_batch(records, codec=draw(st.sampled_from(Codec)), producer_id=draw(INT64))
        else:
            magic = int(kind[-1])
            records = [
                Record(offset=r.offset, timestamp_ms=r.timestamp_ms if magic else -1, key=r.key, value=r.value)
                for r in records
            ]
            if kind.startswith("wrapped"):
                codec = draw(st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
                append = draw(st.sampled_from(TimestampType)) if magic else TimestampType.CREATE_TIME
                data += make_wrapper(records, magic=magic, codec=codec, timestamp_type=append)
                if append is TimestampType.LOG_APPEND_TIME:
                    latest = max(r.timestamp_ms for r in records)
                    records = [Record(offset=r.offset, timestamp_ms=latest, key=r.key, value=r.value) for r in records]
            else:
                data += b"".join(write_message(r, magic=magic) for r in records)
        expected += [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records]
        offset = records[-1].offset + 1
    return data, expected


SETTINGS = settings(max_examples=150)


@SETTINGS
@given(segment=segments())
def test_what_was_written_is_read(tmp_path, segment):
    data, expected = segment
    path = tmp_path / "segment.log"
    path.write_bytes(data)
    scan = scan_and_compare(path)
    assert scan.headers.problems == ()
    assert scan.headers.valid_bytes == len(data)
    assert scan.headers.record_count.sum() == len(expected)
    found = zip(scan.offset, scan.timestamp_ms, scan.value_length, scan.header_count, strict=True)
    assert [tuple(map(int, row)) for row in found] == [
        (offset, timestamp_ms, -1 if value is None else len(value), len(headers))
        for offset, timestamp_ms, _, value, headers in expected
    ]
    assert list_keys(scan) == [row[2] for row in expected]


@SETTINGS
@given(
    segment=segments(),
    damage=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 100),
    tail=st.sampled_from([b"", bytes(5), bytes(40), b"\1" * 9, b"text"]),
    check_crc=st.booleans(),
    chunk_bytes=st.sampled_from([1, 100, 1 << 20]),
)
def test_damaged_files_are_read_alike_whatever_the_chunks(tmp_path, segment, damage, cut, tail, check_crc, chunk_bytes):  # noqa: PLR0917
    data = bytearray(segment[0])
    for at, value in damage if data else []:
        data[at % len(data)] = value
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(data[: len(data) - cut * (cut > 60)]) + tail)
    whole = scan_and_compare(path, check_crc=check_crc)
    chunks = scan_and_compare(path, check_crc=check_crc, chunk_bytes=chunk_bytes)
    assert chunks.headers.problems == whole.headers.problems
    assert chunks.headers.valid_bytes == whole.headers.valid_bytes
    headers = scan_headers(path, check_crc=check_crc)
    assert headers.position.tolist() == whole.headers.position.tolist()
    assert headers.valid_bytes == whole.headers.valid_bytes


@SETTINGS
@given(payload=st.binary(max_size=60), record_count=st.integers(0, 4), header=st.booleans(), more=st.integers(0, 2))
def test_any_payload_is_read_alike(tmp_path, payload, record_count, header, more):
    """Bytes of no meaning behind a sound checksum: kernels and plain Python parse or refuse them alike."""
    body = b"\0\0\0\1\1\0" if header else b""
    batch = make_batch(
        [Record(offset=0, timestamp_ms=0, key=None, value=None)],
        last_offset=5,
        record_count=record_count,
        payload=write_varint(len(body) + more) + body + payload if header else payload,
    )
    path = tmp_path / "segment.log"
    path.write_bytes(batch)
    scan_and_compare(path)


@given(value=INT64)
def test_varlongs_survive(value):
    assert read_varint(write_varint(value), 0, bits=64)[0] == value


@given(data=st.binary(max_size=3000), codec=st.sampled_from(Codec))
def test_codecs_survive(data, codec):
    assert decompress(codec, compress(codec, data)) == data


@settings(max_examples=100)
@given(records=record_lists(7), codec=st.sampled_from(Codec))
def test_batches_survive(records, codec):
    found = read_entry_records(make_batch(records, codec=codec))
    assert [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in found] == [
        (r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records
    ]
