"""Message sets of magic 0 and 1; oracles: kafka-python's legacy reader and builder, and the rules of KIP-31 and KIP-32."""

import gzip

import pytest

from pipeline.codec.log.record_batch import read_message, read_message_set, unwrap
from pipeline.codec.log.segment import scan_headers
from pipeline.errors import InputError
from pipeline.model.log import Codec, Record, TimestampType
from tests.batches import START_MS, frame_lz4, make_records, make_wrapper
from tests.kafka_python import MemoryRecords, MemoryRecordsBuilder
from tests.record_writers import write_message
from tests.scans import list_keys, scan_and_compare

LEGACY_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
RECORDS = [
    *make_records(3, base_offset=100, key=None),
    Record(offset=103, timestamp_ms=START_MS, key=b"", value=None),
    Record(offset=104, timestamp_ms=START_MS + 9, key=b"k", value=b""),
]


def facts(records, *, magic):
    return [(r.offset, r.timestamp_ms if magic else -1, r.key, r.value) for r in records]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages(magic):
    data = b"".join(write_message(record, magic=magic) for record in RECORDS)
    ours = [message.record for message in read_message_set(data)]
    assert facts(ours, magic=magic) == facts(RECORDS, magic=magic)
    theirs = [r for batch in iter(MemoryRecords(data).next_batch, None) for r in batch]
    assert [(r.offset, r.key, r.value) for r in theirs] == [(r.offset, r.key, r.value) for r in RECORDS]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_wrappers_give_absolute_offsets(magic, codec):
    wrapper = read_message(make_wrapper(RECORDS, magic=magic, codec=codec), 0)
    assert wrapper.codec == codec
    assert facts(unwrap(wrapper), magic=magic) == facts(RECORDS, magic=magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_we_read_what_kafka_python_wraps(magic):
    builder = MemoryRecordsBuilder(magic=magic, compression_type=Codec.GZIP, batch_size=1 << 20)
    for i in range(20):
        builder.append(timestamp=START_MS + i, key=b"k%d" % i, value=b"v")
    builder.close()
    records = unwrap(read_message(bytes(builder.buffer()), 0))
    assert [(r.offset, r.key) for r in records] == [(i, b"k%d" % i) for i in range(20)]


@pytest.mark.parametrize("header_checksum", [b"\x82", b"\x1a", b"\0"], ids=["right", "of magic 0", "any"])
def test_lz4_header_checksum_is_not_asked(header_checksum):
    def compressor(_, data):
        return frame_lz4(data, header_checksum=header_checksum)

    wrapper = make_wrapper(RECORDS, magic=0, codec=Codec.LZ4, compressor=compressor)
    assert len(unwrap(read_message(wrapper, 0))) == len(RECORDS)


def test_log_append_time_of_the_wrapper_holds_inside():
    data = make_wrapper(RECORDS, magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert {record.timestamp_ms for record in unwrap(read_message(data, 0))} == {START_MS + 9}


def test_rows_of_a_segment_that_mixes_formats(tmp_path):
    wrapper = make_wrapper(RECORDS[:3], magic=1)
    single = write_message(RECORDS[3], magic=1)
    path = tmp_path / "00000000000000000100.log"
    path.write_bytes(wrapper + single)
    scan = scan_headers(path)
    assert scan.problems == ()
    assert scan.base_offset.tolist() == [100, 103]
    assert scan.last_offset.tolist() == [102, 103]
    assert scan.record_count.tolist() == [3, 1]
    assert scan.min_timestamp_ms.tolist() == [START_MS, START_MS]
    assert scan.max_timestamp_ms.tolist() == [START_MS + 2, START_MS]
    assert scan.codec.tolist() == [1, 0]
    assert scan.rows["producer_id"].tolist() == [-1, -1]
    records = scan_and_compare(path)
    assert records.offset.tolist() == [100, 101, 102, 103]
    assert list_keys(records) == [None, None, None, b""]
    assert records.value_length.tolist() == [20, 20, 20, -1]


def nested(_, data):
    return gzip.compress(make_wrapper(RECORDS, magic=1))


BROKEN = [
    ("wrapper in wrapper", make_wrapper(RECORDS, magic=1, compressor=nested), "inner message that is compressed"),
    ("empty", make_wrapper(RECORDS, magic=1, compressor=lambda *_: gzip.compress(b"")), "without inner messages"),
    ("torn", make_wrapper(RECORDS, magic=1, compressor=lambda _, d: gzip.compress(d[:-1])), "no message of magic"),
    ("noise", make_wrapper(RECORDS, magic=1, compressor=lambda *_: b"noise"), "gzip data do not decompress"),
    (
        "null value",
        write_message(Record(offset=0, timestamp_ms=0, key=None, value=None), magic=1, codec=1),
        "without a value",
    ),
]


@pytest.mark.parametrize(("data", "reason"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_wrapper_keeps_its_row_and_the_rest(tmp_path, data, reason):
    with pytest.raises(InputError, match=reason):
        unwrap(read_message(data, 0))
    path = tmp_path / "segment.log"
    path.write_bytes(data + write_message(Record(offset=200, timestamp_ms=1, key=None, value=b"v"), magic=1))
    scan = scan_and_compare(path)
    assert scan.offset.tolist() == [200]
    assert scan.headers.usable.tolist() == [False, True]
    (problem,) = scan.headers.problems
    assert reason in problem.reason


@pytest.mark.parametrize(
    ("magic", "offsets", "own"),
    [
        (0, (-(2**63), 4), 4),
        (0, (0, 4), 2**62),  # a sum over two such batches goes beyond 64 bits
        (0, (2**62, 4), 4),
        (1, (0, -(2**63)), 4),
        (1, (-5, 0), 4),
    ],
)
def test_inner_offsets_that_no_broker_gives_break_the_wrapper_alone(tmp_path, magic, offsets, own):
    inner = [write_message(Record(offset=n, timestamp_ms=0, key=None, value=b"v"), magic=magic) for n in offsets]
    wrapper = Record(offset=own, timestamp_ms=0, key=None, value=gzip.compress(b"".join(inner)))
    path = tmp_path / "segment.log"
    path.write_bytes(write_message(wrapper, magic=magic, codec=1))
    scan = scan_headers(path)
    assert [(problem.position, problem.reason) for problem in scan.problems] == [
        (0, "records do not parse: inner messages with negative offsets, or far from the wrapper's")
    ]
    assert scan.last_offset.tolist() == scan.base_offset.tolist() == [own]
