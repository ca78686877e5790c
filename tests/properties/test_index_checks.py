"""Indexes made as Kafka makes them pass; an entry moved off its place is found.

The model of `LogSegment.append` here is the oracle: batches come in appends of one or several, and every append that
follows more than `interval` bytes writes an entry with its last offset, its position, and the largest timestamp so far.
"""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.codec.log.batch_headers import HEADER_ROW, HeaderScan
from pipeline.codec.log.index_files import (
    MAX_PROBLEMS,
    IndexFile,
    check_offset_index,
    check_time_index,
    check_transaction_index,
)

BATCH = st.tuples(st.integers(1, 5), st.integers(61, 400), st.integers(0, 1000), st.integers(0, 3))
APPENDS = st.lists(st.lists(BATCH, min_size=1, max_size=3), min_size=1, max_size=25)
INTERVAL_BYTES = 300


def append_all(appends):
    """Header rows, offset index entries and time index entries of a segment, as a broker would write them."""
    rows, entries, times = [], [], []
    offset = position = since_entry = 0
    largest = (-1, 0)
    for append in appends:
        start, size = position, 0
        for count, size_bytes, timestamp_ms, gap in append:
            last = offset + count - 1
            rows.append((position, size_bytes, offset, last, timestamp_ms))
            if timestamp_ms > largest[0]:
                largest = (timestamp_ms, last)
            offset, position, size = last + 1 + gap, position + size_bytes, size + size_bytes
        if since_entry > INTERVAL_BYTES:
            entries.append((last, start))
            if not times or largest[0] > times[-1][0]:
                times.append(largest)
            since_entry = 0
        since_entry += size
    header_rows = np.zeros(len(rows), HEADER_ROW)
    for i, name in enumerate(("position", "size_bytes", "base_offset", "last_offset", "max_timestamp_ms")):
        header_rows[name] = [row[i] for row in rows]
    header_rows["magic"] = 2
    header_rows["crc_ok"] = True
    scan = HeaderScan(rows=header_rows, problems=(), valid_bytes=position, file_bytes=position)
    return scan, np.array(entries, np.int64).reshape(-1, 2), np.array(times, np.int64).reshape(-1, 2)


def offset_index(entries, remainder=0) -> IndexFile:
    rows = {"offset": entries[:, 0], "position": entries[:, 1]}
    return IndexFile(rows=rows, file_bytes=8 * len(entries) + remainder, entry_bytes=8)


def time_index(entries) -> IndexFile:
    rows = {"timestamp_ms": entries[:, 0], "offset": entries[:, 1]}
    return IndexFile(rows=rows, file_bytes=12 * len(entries), entry_bytes=12)


@given(appends=APPENDS)
def test_what_kafka_writes_is_right(appends):
    scan, entries, times = append_all(appends)
    assert check_offset_index("i", offset_index(entries), scan) == ()
    assert check_time_index("t", time_index(times), scan) == ()


@given(appends=APPENDS, data=st.data())
def test_a_moved_position_or_offset_is_found(appends, data):
    scan, entries, _ = append_all(appends)
    assume(len(entries))
    row = data.draw(st.integers(0, len(entries) - 1))
    kind = data.draw(st.sampled_from(["off by some bytes", "offset of no batch", "before its batch", "a later batch"]))
    spoilt = entries.copy()
    later = scan.position[scan.base_offset > entries[row, 0]]
    if kind == "off by some bytes":
        spoilt[row, 1] += data.draw(st.integers(1, 60))
    elif kind == "offset of no batch":
        free = sorted(set(range(int(scan.last_offset[-1]) + 9)) - set(scan.last_offset.tolist()))
        spoilt[row, 0] = data.draw(st.sampled_from(free))
    elif kind == "before its batch":
        before = scan.last_offset[scan.position < entries[row, 1]]
        spoilt[row, 0] = data.draw(st.sampled_from(before.tolist()))
    else:
        assume(len(later))
        spoilt[row, 1] = data.draw(st.sampled_from(later.tolist()))
    problems = check_offset_index("i", offset_index(spoilt), scan)
    assert {problem.position for problem in problems} & {8 * row, 8 * (row + 1)}


@given(appends=APPENDS, data=st.data())
def test_a_wrong_timestamp_is_found(appends, data):
    scan, _, times = append_all(appends)
    assume(len(times))
    row = data.draw(st.integers(0, len(times) - 1))
    spoilt = times.copy()
    spoilt[row, 0] += data.draw(st.sampled_from([-5000, -1, 1, 5000]))
    assert 12 * row in {problem.position for problem in check_time_index("t", time_index(spoilt), scan)}


def test_entries_of_the_first_brokers_have_the_first_offset():
    scan, _, _ = append_all([[(5, 100, 1, 0)], [(5, 100, 1, 0)]])
    entry = offset_index(np.array([[5, 100]]))
    assert len(check_offset_index("i", entry, scan)) == 1
    scan.rows["magic"] = 1
    assert check_offset_index("i", entry, scan) == ()


def test_entries_beyond_a_log_without_batches():
    scan, _, _ = append_all([])
    assert len(check_offset_index("i", offset_index(np.array([[5, 100]])), scan)) == 1
    assert len(check_time_index("t", time_index(np.array([[5, 100]])), scan)) == 1


def test_problems_are_limited_and_bytes_left_over_named():
    scan, _, _ = append_all([[(1, 61, 1, 0)]])
    entries = np.stack([np.arange(500), np.arange(500) + 7], axis=1)
    problems = check_offset_index("i", offset_index(entries, remainder=3), scan)
    assert len(problems) == MAX_PROBLEMS
    assert problems[-1].reason == "more entries are wrong from here on"
    (rest,) = check_offset_index("i", offset_index(entries[:0], remainder=3), scan)
    assert (rest.position, rest.reason) == (0, "3 bytes beyond a whole number of entries")


def test_aborted_transactions():
    scan, _, _ = append_all([[(1, 61, 1, 0)] * 3] * 2)
    scan.rows["attributes"][3] = 0x20
    scan.rows["producer_id"] = 9

    def check(producer_id, first_offset, last_offset):
        columns = [np.array([value]) for value in (producer_id, first_offset, last_offset, last_offset + 1)]
        names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        index = IndexFile(rows=dict(zip(names, columns, strict=True)), file_bytes=34, entry_bytes=34)
        return [problem.reason for problem in check_transaction_index("x", index, scan)]

    assert check(9, 1, 3) == []
    assert check(9, 1, 2) == ["offset 2 is not a marker of producer 9"]
    assert check(8, 1, 3) == ["offset 3 is not a marker of producer 8"]
    assert check(9, 5, 3) == ["first offset 5 after the last, 3"]
    assert check(9, 1, 700) == []  # in another segment, or compacted away
