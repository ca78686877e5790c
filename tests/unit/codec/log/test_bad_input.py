"""Damaged segments: each gives a problem with its place and reason, and everything that can still be used is.

Oracle: the damage itself, done by hand to known bytes; rows and records are those of the plain reader.
"""

import re
import struct

import google_crc32c
import pytest
import zstandard

from pipeline.codec.log.batch_headers import Flaw
from pipeline.codec.log.segment import scan_headers
from pipeline.codec.records.record_reader import MOST_BATCH_RECORDS, MOST_OUTPUT_BYTES, MOST_RECORDS, iter_record_scans
from pipeline.model.log import Codec
from tests.batches import START_MS, make_batch, make_records, make_wrapper
from tests.record_writers import write_records, write_varint
from tests.scans import list_keys, scan_and_compare, scan_records

A = make_batch(make_records(3))
B = make_batch(make_records(3, base_offset=3), codec=Codec.ZSTD)
C = make_batch(make_records(3, base_offset=6))
ALL = A + B + C
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


def patch(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def seal(batch):
    """Makes the checksum right again, as a broken or hostile writer would."""
    return patch(batch, 17, struct.pack(">I", google_crc32c.value(batch[21:])))


def int32(value):
    return struct.pack(">i", value)


MIDDLE = len(A)
ZSTD_UNDER_NONE = make_batch(make_records(3, base_offset=3), payload=zstandard.compress(b"records" * 9))
BOMB = make_batch(make_records(3, base_offset=3), attributes=Codec.ZSTD, payload=zstandard.compress(bytes(300 << 20)))
OVERLONG = make_batch(make_records(3, base_offset=3), payload=b"\x80\x80\x80\x80\x80\x01" + b"\0" * 60)

# what: bytes, position of the problem, its reason, number of records still read
STOPS = {
    "torn tail": (ALL[:-1], MIDDLE + len(B), "torn: the batch wants", 6),
    "torn header": (A + B + C[:30], MIDDLE + len(B), "torn: the batch wants", 6),
    "torn before the length": (A + B + b"\0\0\0\1\0\0", MIDDLE + len(B), "torn: 6 bytes left", 6),
    "length beyond the file": (patch(ALL, MIDDLE + 8, int32(10**9)), MIDDLE, "wants 1000000012 bytes", 3),
    "largest length": (patch(ALL, MIDDLE + 8, int32(2**31 - 1)), MIDDLE, "batch length 2147483647", 3),
    "negative length": (patch(ALL, MIDDLE + 8, int32(-5)), MIDDLE, "batch length -5: negative", 3),
    "length too small": (patch(ALL, MIDDLE + 8, int32(48)), MIDDLE, "batch length 48: negative, or too small", 3),
    "unknown magic": (patch(ALL, MIDDLE + 16, b"\3"), MIDDLE, "magic 3, want 0, 1 or 2", 3),
    "zeros before data": (A + bytes(100) + B, MIDDLE, "batch length 0, and the .* not all zero", 3),
    "Git LFS pointer": (LFS, 0, "a Git LFS pointer, not the file itself", 0),
    "text file": (b"2024-01-01 12:00:00 INFO started\n" * 9, 0, "a text file, not a log$", 0),
    "noise": (b"\xff" * 500, 0, "batch length -1: negative", 0),
}
ABSURD = A + seal(patch(patch(C, 0, struct.pack(">q", 3)), 57, int32(2**31 - 1))) + C
ABSURD_COMPRESSED = A + seal(patch(patch(B, 23, int32(2**31 - 1)), 57, int32(2**31 - 1))) + C
FLAWS = {
    "flipped bit": (A + patch(B, len(B) - 1, bytes([B[-1] ^ 1])) + C, Flaw.CRC, "checksum mismatch"),
    "flipped bit of a count": (A + patch(B, 57, int32(2**30)) + C, Flaw.CRC, "checksum mismatch"),
    "absurd record count": (ABSURD, Flaw.RECORD_COUNT, "2147483647 records cannot be in a batch of"),
    "absurd count, compressed": (ABSURD_COMPRESSED, Flaw.RECORD_COUNT, "2147483647 records cannot be"),
    "negative record count": (A + seal(patch(B, 57, int32(-1))) + C, Flaw.RECORD_COUNT, "-1 records cannot be"),
    "more records than offsets": (A + seal(patch(B, 23, int32(1))) + C, Flaw.RECORD_COUNT, "3 records cannot be"),
    "negative offset delta": (A + seal(patch(B, 23, int32(-1))) + C, Flaw.OFFSETS, "base offset 3 with a last"),
    "negative base offset": (A + patch(B, 0, b"\xff" * 8) + C, Flaw.OFFSETS, "base offset -1"),
    "unknown codec": (A + seal(patch(B, 22, b"\7")) + C, Flaw.CODEC, "unknown compression codec 7"),
}
PAYLOADS = {
    "zstd bytes under codec 0": (A + ZSTD_UNDER_NONE + C, "records do not parse"),
    "codec 0 bytes under zstd": (A + seal(patch(B, 61, b"plain")) + C, "zstd data do not decompress"),
    "wrong codec": (A + seal(patch(B, 22, b"\1")) + C, "gzip data do not decompress"),
    "decompression bomb": (A + BOMB + C, "zstd data decompress to more than 16777216 bytes"),
    "overlong varint": (A + OVERLONG + C, "varint longer than 5 bytes"),
    "truncated zstd": (
        A + make_batch(make_records(3, base_offset=3), attributes=4, payload=B[61:-4]) + C,
        "records do not parse",
    ),
}


def write(tmp_path, data):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    return path


def headers_of(tmp_path, data):
    return scan_headers(write(tmp_path, data))


def records_of(tmp_path, data):
    return scan_and_compare(write(tmp_path, data))


@pytest.mark.parametrize("what", STOPS)
def test_scan_stops_and_says_where(tmp_path, what):
    data, position, reason, record_count = STOPS[what]
    scan = records_of(tmp_path, data)
    assert scan.offset.tolist() == list(range(record_count))
    (problem,) = scan.headers.problems
    assert problem.position == scan.headers.valid_bytes == position
    kept_bytes = 61 if reason.startswith(("torn: the batch", "wants")) else 0  # of what may be a record nothing
    assert problem.first_bytes == data[position : position + kept_bytes]
    assert problem.severity == "refused"
    assert problem.path == str(tmp_path / "00000000000000000000.log")
    assert re.search(reason, problem.reason), problem.reason


@pytest.mark.parametrize("what", FLAWS)
def test_bad_batch_keeps_its_row_and_the_rest_goes_on(tmp_path, what):
    data, flaw, reason = FLAWS[what]
    scan = headers_of(tmp_path, data)
    assert scan.rows["flaw"].tolist() == [0, flaw, 0]
    assert scan.crc_ok.tolist() == [True, flaw != Flaw.CRC, True]
    (problem,) = scan.problems
    assert problem.position == MIDDLE
    assert reason in problem.reason
    assert scan.valid_bytes == len(data)
    scan = records_of(tmp_path, data)
    assert scan.offset.tolist() == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("what", PAYLOADS)
def test_records_that_do_not_parse_cost_one_batch(tmp_path, what):
    data, reason = PAYLOADS[what]
    scan = headers_of(tmp_path, data)
    assert scan.problems == ()
    scan = records_of(tmp_path, data)
    assert scan.offset.tolist() == [0, 1, 2, 6, 7, 8]
    assert list_keys(scan) == [b"k0", b"k1", b"k2"] * 2
    assert scan.headers.rows["flaw"].tolist() == [0, Flaw.PAYLOAD, 0]
    (problem,) = scan.headers.problems
    assert problem.position == MIDDLE
    assert reason in problem.reason


@pytest.mark.parametrize("zeros", [1, 12, 17, 1000, 3 << 20])
def test_preallocated_tail_is_no_problem(tmp_path, zeros):
    scan = headers_of(tmp_path, ALL + bytes(zeros))
    assert len(scan) == 3
    assert scan.problems == ()
    assert (scan.valid_bytes, scan.file_bytes) == (len(ALL), len(ALL) + zeros)


def test_empty_file(tmp_path):
    scan = records_of(tmp_path, b"")
    assert len(scan) == len(scan.headers) == 0
    assert scan.headers.problems == ()


def test_offsets_that_step_back_are_suspect(tmp_path):
    """The base offset is outside the checksum, so damage to it shows only against its neighbours."""
    scan = headers_of(tmp_path, A + patch(B, 0, struct.pack(">q", 1)) + C)
    assert len(scan) == 3
    (problem,) = scan.problems
    assert (problem.position, problem.severity) == (MIDDLE, "suspect")


def test_noise_does_not_become_a_table_of_noise(tmp_path):
    bad = patch(A, len(A) - 1, b"\1")
    data = b"".join(struct.pack(">q", 3 * i) + bad[8:] for i in range(1500))
    scan = headers_of(tmp_path, data)
    assert len(scan) == 1500
    assert len(scan.problems) == 1000
    assert scan.problems[-1].reason == "501 more problems in this file"


def test_legacy_damage(tmp_path):
    wrapper = make_wrapper(make_records(3), magic=1)
    data = patch(wrapper, len(wrapper) - 1, b"\1") + make_wrapper(make_records(3, base_offset=3), magic=1)
    scan = records_of(tmp_path, data)
    assert scan.offset.tolist() == [3, 4, 5]
    assert scan.headers.rows["flaw"].tolist() == [Flaw.CRC, 0]


def test_timestamps_wrap_as_in_java(tmp_path):
    """Deltas are added in 64 bits without a check: a huge one must not stop the scan."""
    records = [make_records(1)[0]]
    payload = write_records(records, base_offset=0, base_timestamp_ms=START_MS - 2**62)
    data = make_batch(records, payload=payload, base_timestamp_ms=2**62 + 2**61)
    assert records_of(tmp_path, data).timestamp_ms.tolist() == [2**62 + 2**61 + 2**62 - 2**64]


TINY = b"\x0c\x00\x00\x00\x01\x01\x00"  # a record of 7 bytes: no key, no value, offset delta 0


def make_claim(count, payload, *, base_offset=3):
    """A batch of zstd that claims so many records."""
    claimed = {"record_count": count, "last_offset": base_offset + count - 1}
    first = make_records(1, base_offset=base_offset)
    return make_batch(first, codec=Codec.ZSTD, attributes=0, payload=payload, **claimed)


def test_a_batch_of_too_many_records_is_left_out(tmp_path):
    count = MOST_BATCH_RECORDS + 1
    bomb = zstandard.ZstdCompressor(level=3).compress(TINY * count)
    bomb += b"\x50\x2a\x4d\x18" + (30_000).to_bytes(4, "little") + bytes(30_000)  # a frame that readers skip
    data = A + make_claim(count, bomb) + make_batch(make_records(3, base_offset=3 + count))
    assert len(data) < 40_000
    assert headers_of(tmp_path, data).problems == ()
    scan = scan_records(tmp_path / "00000000000000000000.log")
    assert scan.offset.tolist() == [0, 1, 2, 3 + count, 4 + count, 5 + count]
    assert scan.headers.rows["flaw"].tolist() == [0, Flaw.BUDGET, 0]
    (problem,) = scan.headers.problems
    assert problem.position == MIDDLE
    assert "4194305 records left out" in problem.reason


def test_the_largest_of_too_many_records_together_are_left_out(tmp_path):
    claim, count = 2_300_000, 40  # as many as any small compressed batch may hold
    payload = zstandard.compress(TINY * 5)
    claims = [make_claim(claim, payload, base_offset=3 + n * claim) for n in range(count)]
    data = A + b"".join(claims) + make_batch(make_records(3, base_offset=3 + claim * count))
    assert headers_of(tmp_path, data).problems == ()
    scan = scan_records(tmp_path / "00000000000000000000.log")
    assert len(scan) == 6
    flaws = scan.headers.rows["flaw"].tolist()
    assert (flaws[0], flaws[-1]) == (0, 0)
    assert flaws.count(Flaw.BUDGET) == count - (MOST_RECORDS - 6) // claim
    assert len(scan.headers.problems) == count
    chunks = list(iter_record_scans(tmp_path / "00000000000000000000.log", headers_of(tmp_path, data)))
    assert max(int(chunk.headers.record_count[chunk.headers.usable].sum()) for chunk in chunks) <= MOST_BATCH_RECORDS


def test_batches_beyond_the_bytes_of_a_chunk_are_left_out(tmp_path):
    body = b"\x00\x00\x00\x01" + write_varint(240 << 20) + bytes(240 << 20) + b"\x00"  # one record of 240 MiB of zeros
    bomb = zstandard.compress(write_varint(len(body)) + body)
    bomb += b"\x50\x2a\x4d\x18" + (250_000).to_bytes(4, "little") + bytes(250_000)  # a frame that readers skip
    count = 20
    data = A + b"".join(make_claim(1, bomb, base_offset=3 + n) for n in range(count))
    assert headers_of(tmp_path, data).problems == ()
    scan = scan_records(tmp_path / "00000000000000000000.log")
    sound = MOST_OUTPUT_BYTES // (240 << 20) + 1
    assert scan.headers.rows["flaw"].tolist() == [0] + [0] * sound + [Flaw.BUDGET] * (count - sound)
    assert len(scan) == 3 + sound


SECRET = make_batch(make_records(1, key=b"k", value=b"SECRET-CARD-4111-1111-1111-1111-" * 40))


@pytest.mark.parametrize("shift", range(0, 64, 3))
@pytest.mark.parametrize("before", [b"", A], ids=["first", "second"])
def test_no_byte_of_a_record_is_told_where_a_length_is_wrong(tmp_path, before, shift):
    """A length that is cut lets the scan go on inside a value: as a length, magic or number its bytes would be told."""
    inside = SECRET.index(b"SECRET") + shift
    scan = headers_of(tmp_path, before + patch(SECRET, 8, int32(inside - 12)) + SECRET)
    wrong, *after = scan.problems
    assert wrong.reason.startswith("checksum mismatch")
    assert after
    for problem in after:
        assert problem.first_bytes == b""
        assert not re.search("SECRET|CARD", problem.reason)
        numbers = {int(number) for number in re.findall(r"\d+", problem.reason)}
        assert numbers <= {2 * len(SECRET) - inside, 0, 1, 2}


def test_a_header_forged_in_a_value_is_not_told_either(tmp_path):
    """What a producer wrote as a value looks like a batch whose checksum does not match."""
    forged = patch(make_batch(make_records(1, value=b"SECRET")), 17, b"CARD")
    outer = make_batch(make_records(1, key=b"k", value=forged))
    inside = outer.index(forged[:50])
    scan = headers_of(tmp_path, patch(outer, 8, int32(inside - 12)) + outer)
    _, problem, *_ = scan.problems
    assert (problem.position, problem.first_bytes) == (inside, b"")
    assert problem.reason.startswith("no sound batch here")
    assert not re.search(r"\d", problem.reason)
