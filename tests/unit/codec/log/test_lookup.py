"""Offset and timestamp lookups; oracle: reading the whole file from its start, without any index."""

import numpy as np
import pytest

from pipeline.codec.log.index_files import IndexFile, IndexLookup, find_offset, find_timestamp, search_index
from pipeline.codec.log.segment import iter_batches, scan_headers
from pipeline.errors import InputError
from tests.batches import START_MS, make_batch, make_records, make_wrapper
from tests.record_writers import write_message
from tests.scans import scan_records

# Batches of 2 to 4 records; offsets 8 and 9 were compacted away, 10 to 12 lost two of three.
BATCHES = [
    make_records(3, base_offset=0, start_ms=START_MS),
    make_records(4, base_offset=3, start_ms=START_MS + 10),
    make_records(1, base_offset=7, start_ms=START_MS + 20),
    make_records(1, base_offset=11, start_ms=START_MS + 5),
    make_records(2, base_offset=13, start_ms=START_MS + 30),
]
INDEX_OFFSETS = np.array([6, 12])
TIME_OFFSETS = np.array([6, 7])
TIMES_MS = np.array([START_MS + 13, START_MS + 20])


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    path = tmp_path_factory.mktemp("lookup") / f"{0:020d}.log"
    data = [make_batch(records) for records in BATCHES]
    data[3] = make_batch(BATCHES[3], base_offset=10, last_offset=12, base_timestamp_ms=START_MS + 5)
    path.write_bytes(b"".join(data))
    return path


def make_index(offsets, positions):
    return IndexFile(rows={"offset": offsets, "position": positions}, file_bytes=0, entry_bytes=8)


@pytest.fixture(scope="module")
def positions(segment):
    """Positions of the second and the fourth batch, where the index entries point."""
    return scan_headers(segment).position[[1, 3]]


@pytest.mark.parametrize("offset", range(16))
def test_offset(segment, positions, offset):
    scan = scan_headers(segment)
    want = np.flatnonzero(scan.last_offset >= offset)
    for offsets, places in ((INDEX_OFFSETS, positions), (INDEX_OFFSETS[:0], positions[:0])):
        found = find_offset(segment, offset, make_index(offsets, places))
        assert (found.batch.position if found.batch else None) == (int(scan.position[want[0]]) if len(want) else None)
        assert found.start_position in {0, *places.tolist()}


@pytest.mark.parametrize(
    ("offset", "start", "passed"), [(0, 0, 0), (5, 0, 1), (6, 1, 0), (7, 1, 1), (9, 1, 2), (12, 3, 0), (14, 3, 1)]
)
def test_index_shortens_the_way(segment, positions, offset, start, passed):
    starts = {0: 0, 1: int(positions[0]), 3: int(positions[1])}
    found = find_offset(segment, offset, make_index(INDEX_OFFSETS, positions))
    assert (found.start_position, found.batches_passed) == (starts[start], passed)


@pytest.mark.parametrize("late_ms", [-5, 0, 2, 4, 12, 13, 14, 20, 21, 30, 31, 32])
@pytest.mark.parametrize("start_offset", [0, 7])
def test_timestamp(segment, positions, late_ms, start_offset):
    """The first record in file order at or after the instant; timestamps need not rise."""
    scan = scan_records(segment)
    want = np.flatnonzero((scan.timestamp_ms >= START_MS + late_ms) & (scan.offset >= start_offset))
    times = IndexFile(rows={"timestamp_ms": TIMES_MS, "offset": TIME_OFFSETS}, file_bytes=0, entry_bytes=12)
    index = make_index(INDEX_OFFSETS, positions)
    found = find_timestamp(segment, START_MS + late_ms, times, index, start_offset)
    assert found.offset == (int(scan.offset[want[0]]) if len(want) else None)
    assert found.timestamp_ms == (int(scan.timestamp_ms[want[0]]) if len(want) else None)
    assert found.batch is None or found.batch.base_offset <= found.offset <= found.batch.last_offset


@pytest.mark.parametrize("length", [0, 1, 2, 7, 1000, 1025, 1026, 5000])
@pytest.mark.parametrize("entry_bytes", [8, 12])
def test_search_is_the_last_entry_at_or_below(length, entry_bytes):
    """Oracle: NumPy's searchsorted; the warm end of the index holds 1,024 entries of 8 bytes."""
    values = np.arange(length) * 3 + 10
    for target in {0, 9, 10, 11, 12, 10 + 3 * (length // 2), 10 + 3 * max(0, length - 1030), 10 + 3 * length, 10**9}:
        found = search_index(values, target, entry_bytes=entry_bytes)
        below = int(np.searchsorted(values, target, side="right")) - 1
        assert found.slot == (below if below >= 0 else None)
        assert len(found.probes) <= 16


def test_warm_end_is_searched_first():
    values = np.arange(5000)
    assert search_index(values, 4999, entry_bytes=8).probes[0] == 4999 - 1024
    assert search_index(values, 3, entry_bytes=8).probes[:2] == (3975, 0)
    assert search_index(values[:0], 3, entry_bytes=8) == IndexLookup(probes=(), slot=None)
    assert search_index(np.array([4, 9, 12]), 10, entry_bytes=8) == IndexLookup(probes=(0, 1, 2), slot=1)


def test_batches_one_by_one(tmp_path):
    """Reading ends quietly at a torn tail."""
    records = make_records(3)
    single = write_message(make_records(1, base_offset=3)[0], magic=0)
    path = tmp_path / "a.log"
    path.write_bytes(make_wrapper(records, magic=1) + single + make_batch(make_records(2, base_offset=4)) + b"\0" * 30)
    headers, entries = zip(*iter_batches(path, 0), strict=True)
    scan = scan_headers(path)
    assert [header.position for header in headers] == scan.position.tolist()
    assert [header.last_offset for header in headers] == scan.last_offset.tolist() == [2, 3, 5]
    assert [header.crc for header in headers] == scan.rows["crc"].tolist()
    assert [header.size_bytes for header in headers] == scan.size_bytes.tolist() == [len(entry) for entry in entries]
    assert [header.base_offset for header in headers] == scan.base_offset.tolist() == [0, 3, 4]
    assert b"".join(entries) == path.read_bytes()[: scan.valid_bytes]


def test_an_index_that_points_beyond_the_file(segment):
    assert list(iter_batches(segment, 10**9)) == []


def test_an_index_that_points_below_the_file(segment):
    with pytest.raises(InputError, match="an index points at position -4"):
        next(iter_batches(segment, -4))
