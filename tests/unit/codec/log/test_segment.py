"""Scans of whole files: ranges, chunks, memory that does not grow; oracle: the plain reader of the tests."""

import itertools
import resource
import subprocess
import sys
import time

import numpy as np
import pytest

from pipeline.codec.log.segment import scan_headers
from pipeline.codec.records.record_reader import iter_record_scans
from pipeline.model.log import Codec
from tests.batches import START_MS, make_batch, make_marker, make_records
from tests.scans import list_keys, scan_and_compare, scan_records


def write_segment(path, *, batch_count=40, codecs=tuple(Codec), records_per_batch=5):
    """Batches of every codec in turn, a marker after every tenth."""
    offset, data = 0, b""
    for number in range(batch_count):
        records = make_records(records_per_batch, base_offset=offset, start_ms=START_MS + offset)
        data += make_batch(records, codec=codecs[number % len(codecs)], producer_id=1000, base_sequence=offset)
        offset += records_per_batch
        if number % 10 == 9:
            data += make_marker(offset, timestamp_ms=START_MS + offset)
            offset += 1
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    return write_segment(tmp_path_factory.mktemp("segment") / f"{0:020d}.log")


def test_headers(segment):
    scan = scan_headers(segment)
    assert len(scan) == 44
    assert scan.problems == ()
    assert scan.valid_bytes == scan.file_bytes == segment.stat().st_size
    assert scan.record_count.sum() == 204
    assert (scan.base_offset[1:] == scan.last_offset[:-1] + 1).all()
    assert scan.position.tolist() == [0, *np.cumsum(scan.size_bytes)[:-1].tolist()]
    assert scan.is_control.sum() == scan.is_transactional.sum() == 4
    assert scan.codec[:5].tolist() == [0, 1, 2, 3, 4]
    assert scan.crc_ok.all()
    assert scan.usable.all()
    assert scan.min_timestamp_ms[:2].tolist() == [START_MS, START_MS + 5]


def test_records(segment):
    scan = scan_and_compare(segment)
    assert scan.offset.tolist() == list(range(204))
    assert scan.timestamp_ms.tolist() == list(range(START_MS, START_MS + 204))
    data = ~scan.is_control
    assert data.sum() == 200
    keys = list_keys(scan)
    assert [keys[i] for i in np.flatnonzero(data)[:6]] == [b"k0", b"k1", b"k2", b"k3", b"k4", b"k0"]
    assert set(scan.value_length[data].tolist()) == {20}
    assert (scan.offset >= scan.headers.base_offset[scan.batch_index]).all()
    assert (scan.offset <= scan.headers.last_offset[scan.batch_index]).all()


@pytest.mark.parametrize("chunk_bytes", [1, 1000, 1 << 20])
def test_chunks_are_the_whole(segment, chunk_bytes):
    whole = scan_records(segment)
    headers = scan_headers(segment, chunk_bytes=chunk_bytes)
    assert headers.rows.tolist() == whole.headers.rows.tolist()
    chunks = list(iter_record_scans(segment, headers, chunk_bytes=chunk_bytes))
    assert len(chunks) == {1: 44, 1000: 7, 1 << 20: 1}[chunk_bytes]
    assert np.concatenate([chunk.offset for chunk in chunks]).tolist() == whole.offset.tolist()
    assert b"".join(chunk.key_data.tobytes() for chunk in chunks) == whole.key_data.tobytes()
    assert sum(len(chunk.headers) for chunk in chunks) == len(whole.headers)
    assert np.concatenate([chunk.headers.rows for chunk in chunks]).tolist() == headers.rows.tolist()
    some = np.concatenate([chunk.offset for chunk in iter_record_scans(segment, headers, first=3, end=30)])
    assert some.tolist() == whole.offset[(whole.batch_index >= 3) & (whole.batch_index < 30)].tolist()


def test_a_file_that_was_cut_since(tmp_path):
    path = write_segment(tmp_path / "a.log")
    headers = scan_headers(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(OSError, match="were there"):
        list(iter_record_scans(path, headers))


def test_ranges_partition_the_file(segment):
    """Spark reads parts of one file: each batch belongs to the part its first byte lies in."""
    whole = scan_headers(segment)
    cuts = [0, *whole.position[[7, 8, 30]].tolist(), whole.file_bytes]
    rows = [scan_headers(segment, start=a, end=b).rows for a, b in itertools.pairwise(cuts)]
    assert np.concatenate(rows).tolist() == whole.rows.tolist()
    inside = scan_headers(segment, start=0, end=1)
    assert len(inside) == 1
    assert inside.valid_bytes == whole.position[1]


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (5, 4), (0, 10**9)])
def test_ranges_outside(segment, start, end):
    with pytest.raises(ValueError, match="does not lie in"):
        scan_headers(segment, start=start, end=end)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        scan_headers(tmp_path / "no.log")


def test_timestamps_a_header_does_not_tell(tmp_path):
    """Base timestamp: the delete horizon hides it, an empty batch has none, log append time has only the maximum."""
    records = make_records(2)
    horizon = make_batch(records, attributes=0x40, base_timestamp_ms=START_MS - 5000)
    empty = make_batch(records, base_offset=2, last_offset=3, payload=b"", record_count=0, base_timestamp_ms=-1)
    append = make_batch(make_records(1, base_offset=4), attributes=0x08, max_timestamp_ms=START_MS + 77)
    path = tmp_path / "a.log"
    path.write_bytes(horizon + empty + append)
    scan = scan_headers(path)
    assert scan.problems == ()
    assert scan.min_timestamp_ms.tolist() == [-1, -1, START_MS + 77]
    assert scan.has_delete_horizon.tolist() == [True, False, False]
    assert scan_records(path).timestamp_ms.tolist() == [START_MS, START_MS + 1, START_MS + 77]


def test_check_can_be_left_out(tmp_path):
    batch = bytearray(make_batch(make_records(3)))
    batch[-2] ^= 1
    path = tmp_path / "a.log"
    path.write_bytes(batch)
    assert not scan_headers(path).crc_ok.any()
    assert scan_headers(path, check_crc=False).crc_ok.all()


def run_python(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


MEMORY = """
import resource, sys
from pipeline.codec.log.segment import scan_headers
from pipeline.codec.records.record_reader import iter_record_scans
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
small, large = sys.argv[1:]
def scan(path):
    return sum(len(chunk) for chunk in iter_record_scans(path, scan_headers(path)))
scan(small); before = peak(); count = scan(large); print(count, peak() - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    """A file ten times as large takes at most 40 MiB more: a chunk or two, not 190 MiB."""
    one = make_batch(make_records(8, value=b"v" * 16_000))
    for name, copies in (("small.log", 160), ("large.log", 1600)):
        with (tmp_path / name).open("wb") as file:
            for number in range(copies):
                file.write((8 * number).to_bytes(8, "big") + one[8:])
    count, grown_mib = run_python(MEMORY, tmp_path / "small.log", tmp_path / "large.log").split()
    assert int(count) == 12_800
    assert int(grown_mib) < 40


ROOM = 64 << 20  # of a preallocated file


@pytest.mark.parametrize(("damage", "problems"), [(None, 0), (0, 1), (1 << 20, 1), (ROOM // 2, 1), (ROOM - 501, 1)])
def test_a_preallocated_tail_is_zeros_to_its_end(tmp_path, damage, problems):
    """Oracle: the byte that was put there. Holes are passed over, and what is no hole is compared."""
    path, batch = tmp_path / f"{0:020d}.log", make_batch(make_records(2))
    with path.open("wb") as file:
        file.write(batch)
        file.truncate(ROOM)
        if damage is not None:
            file.seek(500 + damage)
            file.write(b"\1")
            file.seek(500 + damage + (3 << 20))
    scan = scan_headers(path)
    assert (len(scan), scan.valid_bytes, len(scan.problems)) == (1, len(batch), problems)


@pytest.mark.parametrize("is_hole", [True, False])
def test_a_tail_of_zeros_takes_no_time_of_its_length(tmp_path, is_hole):
    """A file on 4 KiB of disk may claim 2 GiB of them, and a broker preallocates its segments."""
    path = tmp_path / f"{0:020d}.log"
    with path.open("wb") as file:
        file.write(make_batch(make_records(2)))
        if is_hole:
            file.truncate(2**31 - 1)
        else:
            for _ in range(128):
                file.write(bytes(1 << 20))
    began_s = time.process_time()
    assert scan_headers(path).problems == ()
    assert time.process_time() - began_s < 1


def test_a_batch_beyond_any_limit_of_brokers_is_not_taken_into_memory(tmp_path):
    """A sparse file of 4 KiB of disk has room for a batch of 2 GiB, of which two copies were made."""
    path, batch = tmp_path / f"{0:020d}.log", make_batch(make_records(2))
    path.write_bytes(batch[:8] + ((1 << 30) - 12).to_bytes(4, "big") + batch[12:])
    with path.open("ab") as file:
        file.truncate(1 << 30)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scan = scan_headers(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 200 << 10
    assert len(scan) == 0
    assert [problem.reason for problem in scan.problems] == [
        f"batch length {(1 << 30) - 12}: negative, or too small or large to be a batch"
    ]


def test_a_batch_of_100_mebibytes_is_read(tmp_path):
    """`max.message.bytes` may be set so high."""
    path, record = tmp_path / f"{0:020d}.log", make_records(1, value=bytes(100 << 20))
    path.write_bytes(make_batch(record) + make_batch(make_records(1, base_offset=1)))
    scan = scan_headers(path)
    assert (scan.record_count.tolist(), scan.problems) == ([1, 1], ())
