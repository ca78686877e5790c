"""Indexes and snapshots from bytes packed by hand here: preallocated tails, odd sizes, wrong versions."""

import struct

import google_crc32c
import pytest

from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.codec.log.log_directory import check_producer_snapshot
from pipeline.errors import InputError


def offset_entries(*entries):
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_entries(*entries):
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


@pytest.mark.parametrize("tail", [0, 8, 8 * 100_000])
def test_offset_index_stops_at_the_zero_tail(tmp_path, tail):
    path = tmp_path / "a.index"
    path.write_bytes(offset_entries((9, 4100), (19, 8200)) + bytes(tail))
    index = read_offset_index(path, 1000)
    assert index.offset.tolist() == [1009, 1019]
    assert index.position.tolist() == [4100, 8200]
    assert (index.file_bytes, index.file_bytes % index.entry_bytes) == (16 + tail, 0)


def test_index_across_reading_blocks(tmp_path):
    path = tmp_path / "a.index"
    path.write_bytes(offset_entries(*((i, i * 5) for i in range(1, 20_001))) + bytes(4096))
    index = read_offset_index(path, 0)
    assert len(index.offset) == 20_000
    assert index.position[-1] == 100_000


@pytest.mark.parametrize(
    ("data", "entries", "remainder"), [(b"", 0, 0), (bytes(8 * 9), 0, 0), (offset_entries((9, 41)) + b"\0\0\0", 1, 3)]
)
def test_offset_index_edges(tmp_path, data, entries, remainder):
    path = tmp_path / "a.index"
    path.write_bytes(data)
    index = read_offset_index(path, 0)
    assert (len(index.offset), index.file_bytes % index.entry_bytes) == (entries, remainder)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (bytes(12 * 50), []),
        (time_entries((0, 0)), [(0, 70)]),
        (time_entries((500, 0)), [(500, 70)]),
        (time_entries((500, 0), (600, 4)) + bytes(1200), [(500, 70), (600, 74)]),
        (time_entries((500, 3)) + bytes(12), [(500, 73)]),
    ],
)
def test_time_index(tmp_path, data, expected):
    path = tmp_path / "a.timeindex"
    path.write_bytes(data)
    index = read_time_index(path, 70)
    assert list(zip(index.timestamp_ms.tolist(), index.offset.tolist(), strict=True)) == expected


def test_transaction_index(tmp_path):
    path = tmp_path / "a.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 1000, 18, 27, 28) * 2 + b"rest")
    index = read_transaction_index(path)
    assert index.producer_id.tolist() == [1000, 1000]
    assert (index.first_offset[0], index.last_offset[0], index.rows["last_stable_offset"][0]) == (18, 27, 28)
    assert index.file_bytes % index.entry_bytes == 4
    path.write_bytes(struct.pack(">hqqqq", 0, 1, 1, 1, 1) + struct.pack(">hqqqq", 7, 1, 1, 1, 1))
    with pytest.raises(InputError, match="version 7, expected 0") as caught:
        read_transaction_index(path)
    assert caught.value.position == 34


def snapshot(version=1, count=1, crc=None):
    body = struct.pack(">i", count) + struct.pack(">qhiqiqiq", 2000, 13, 4, 90, 9, 1700000000000, -1, -1)
    return struct.pack(">hI", version, google_crc32c.value(body) if crc is None else crc) + body


def test_snapshot():
    check_producer_snapshot(snapshot())


@pytest.mark.parametrize(
    ("data", "position", "reason"),
    [
        (b"\0\1", 0, "2 bytes"),
        (snapshot(version=0), 0, "version 0, expected 1"),
        (snapshot(crc=1), 2, "expected 1"),
        (snapshot(count=2), 6, "2 producers do not fit"),
        (snapshot(count=-1), 6, "-1 producers do not fit"),
    ],
)
def test_broken_snapshot(data, position, reason):
    with pytest.raises(InputError, match=reason) as caught:
        check_producer_snapshot(data)
    assert caught.value.position == position
