"""Scans of a log segment: every batch header, or every record, with what was wrong listed beside.

Small files are read by plain Python, large ones by Numba kernels over a memory map; both give equal scans. A bad batch
is kept as a row with a flaw and a problem; a length that cannot be followed ends the scan there, as it ends Kafka's own
reading.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log import problems as wording
from pipeline.codec.log.header_walk import Bytes, Stop
from pipeline.codec.log.plain_segment import PlainSegment, cut_entry, read_entry_records
from pipeline.codec.log.scans import Flaw, HeaderScan, RecordScan
from pipeline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.codec.log.mapped_segment import MappedSegment

SMALL_FILE_BYTES = 8 << 20  # below it, plain Python takes less time than importing Numba
SMALL_RECORD_COUNT = 100_000  # the same, for records
CHUNK_BYTES = 16 << 20
_ZERO_BLOCK_BYTES = 1 << 20


def scan_headers(
    path: Path | str,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    small_file_bytes: int = SMALL_FILE_BYTES,
) -> HeaderScan:
    """Reads the header of every batch.

    Args:
        path: A `.log` file (or any file that holds record sets one after another).
        start: Position of a batch to begin at.
        end: Batches that start at or after this position are left out; the whole file by default.
        check_crc: Verify every checksum, CRC-32C or, in magic 0 and 1, CRC-32.
        small_file_bytes: Files below this size are read by plain Python.

    Raises:
        OSError: The file cannot be opened or read.
        ValueError: `start` or `end` lie outside the file.

    References:
        Kafka `FileLogInputStream`, `DefaultRecordBatch`, `DumpLogSegments`.
    """
    path = Path(path)
    with _open_segment(path, start, end, small_file_bytes) as (segment, end_position):
        rows, position, stop = segment.walk(start, end_position, check_crc=check_crc)
        open_wrappers(segment.data, rows)
        return describe_walk(str(path), segment.data, rows, position, stop)


def scan_records(
    path: Path | str,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    want_keys: bool = True,
    small_file_bytes: int = SMALL_FILE_BYTES,
) -> RecordScan:
    """Reads every record at once; memory grows with the file, see `iter_record_scans` for the other way."""
    scans = list(
        iter_record_scans(
            path, start=start, end=end, check_crc=check_crc, want_keys=want_keys, small_file_bytes=small_file_bytes
        )
    )
    return scans[0] if len(scans) == 1 else _join(str(path), scans)


def iter_record_scans(
    path: Path | str,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    want_keys: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
    small_file_bytes: int = SMALL_FILE_BYTES,
) -> Iterator[RecordScan]:
    """Reads every record, a chunk of the file at a time.

    Args:
        path: As in `scan_headers`, as are `start`, `end` and `check_crc`.
        start: Position of a batch.
        end: Where to stop.
        check_crc: Verify checksums; records of batches that fail are left out.
        want_keys: Copy the keys' bytes.
        chunk_bytes: About how much of the file to take at once; a batch is never cut.
        small_file_bytes: Files below this size, with at most `SMALL_RECORD_COUNT` records, are read by plain Python.

    Yields:
        At least one scan. Each describes its own chunk: header rows, problems, `valid_bytes`.

    Raises:
        OSError: The file cannot be opened or read.
        ValueError: `start` or `end` lie outside the file.

    References:
        Kafka `DefaultRecordBatch`, `DumpLogSegments --deep-iteration`.
    """
    path = Path(path)
    with (
        _open_segment(path, start, end, small_file_bytes, max_records=SMALL_RECORD_COUNT) as (segment, end_position),
        ThreadPoolExecutor(1) as ahead,  # walks, and checks, the next chunk while this one is decoded
    ):

        def walk(position: int) -> tuple[NDArray[np.void], int, Stop]:
            chunk_end = min(end_position, position + chunk_bytes)
            return segment.walk(position, chunk_end, check_crc=check_crc, keep_pages=True)

        position, last_offset, walked = start, None, walk(start)
        while True:
            rows, after, stop = walked
            is_last = stop is not Stop.END or after >= end_position
            walking = None if is_last else ahead.submit(walk, after)
            open_wrappers(segment.data, rows)
            decoded = segment.decode(rows, want_keys=want_keys)
            headers = describe_walk(str(path), segment.data, rows, after, stop, last_offset=last_offset)
            segment.release(position, after)
            yield RecordScan(
                headers=headers, rows=decoded.rows, key_offsets=decoded.key_offsets, key_data=decoded.key_data
            )
            if walking is None:
                return
            position, last_offset, walked = after, int(rows["last_offset"][-1]), walking.result()


@contextmanager
def _open_segment(
    path: Path, start: int, end: int | None, small_file_bytes: int, *, max_records: int | None = None
) -> Iterator[tuple[PlainSegment | MappedSegment, int]]:
    with path.open("rb") as file:
        file_bytes = os.fstat(file.fileno()).st_size
        end = file_bytes if end is None else end
        if not 0 <= start <= end <= file_bytes:
            raise ValueError(f"{path}: range {start} to {end} does not lie in the file's {file_bytes} bytes")
        if file_bytes < max(1, small_file_bytes):
            segment = PlainSegment(file.read(file_bytes))
            if max_records is None or _count_records(segment, start, end) <= max_records:
                yield segment, min(end, len(segment.data))
                return
        from pipeline.codec.log.mapped_segment import MappedSegment  # noqa: PLC0415 - Numba takes longer than a small file

        yield MappedSegment.map(file.fileno(), file_bytes), end


def _count_records(segment: PlainSegment, start: int, end: int) -> int:
    rows, _, _ = segment.walk(start, end, check_crc=False)
    return int(rows["record_count"][rows["flaw"] == Flaw.NONE].sum())


def describe_walk(
    name: str, data: Bytes, rows: NDArray[np.void], position: int, stop: Stop, *, last_offset: int | None = None
) -> HeaderScan:
    """Makes a scan of what a walk found, its flaws put in words.

    Args:
        name: The file, for problems.
        data: The whole of it.
        rows: What was walked.
        position: Where the walk ended.
        stop: Why.
        last_offset: Last offset of the batch before the first row, if there is one.
    """
    flawed = np.flatnonzero(rows["flaw"])
    steps_back = wording.find_steps_back(rows, last_offset)
    problems = [wording.describe_flaw(name, rows[index], data) for index in flawed[: wording.MAX_PROBLEMS]]
    problems += [wording.describe_step_back(name, rows[index]) for index in steps_back[: wording.MAX_PROBLEMS]]
    others = len(flawed) + len(steps_back) - len(problems)
    trailing_zero_bytes = _count_zero_tail(data, position) if stop is Stop.ZERO_LENGTH else 0
    if stop is not Stop.END and not trailing_zero_bytes:
        first_bytes = data[position : position + wording.FIRST_BYTES]
        problems.append(wording.describe_stop(name, position, stop, first_bytes, len(data)))
    return HeaderScan(
        rows=rows,
        problems=wording.limit_problems(name, problems, others=others),
        valid_bytes=position,
        file_bytes=len(data),
        trailing_zero_bytes=trailing_zero_bytes,
    )


def _count_zero_tail(data: Bytes, position: int) -> int:
    """Returns how many bytes there are from `position` on if all are zero, else 0."""
    for start in range(position, len(data), _ZERO_BLOCK_BYTES):
        if any(data[start : start + _ZERO_BLOCK_BYTES]):
            return 0
    return len(data) - position


def open_wrappers(data: Bytes, rows: NDArray[np.void]) -> None:
    """Completes the rows of compressed legacy wrappers from their inner sets, in place; a broken one gets a flaw."""
    if not len(rows) or rows["magic"].min() > 1:
        return
    wrappers = (rows["magic"] < 2) & (rows["attributes"] & 7 != 0) & (rows["flaw"] == Flaw.NONE)
    for index in np.flatnonzero(wrappers):
        row = rows[index]
        try:
            records = read_entry_records(cut_entry(data, row))
        except InputError:
            row["flaw"] = Flaw.PAYLOAD
            continue
        row["base_offset"] = records[0].offset
        row["record_count"] = len(records)
        row["base_timestamp_ms"] = records[0].timestamp_ms
        row["max_timestamp_ms"] = max(record.timestamp_ms for record in records)


def _join(path: str, scans: list[RecordScan]) -> RecordScan:
    headers = [scan.headers for scan in scans]
    rows = np.concatenate([scan.rows for scan in scans])
    batch_counts = np.cumsum([0] + [len(scan.headers) for scan in scans[:-1]])
    rows["batch_index"] += np.repeat(batch_counts, [len(scan) for scan in scans])
    problems = [problem for header in headers for problem in header.problems]
    joined = HeaderScan(
        rows=np.concatenate([header.rows for header in headers]),
        problems=wording.limit_problems(path, problems),
        valid_bytes=headers[-1].valid_bytes,
        file_bytes=headers[-1].file_bytes,
        trailing_zero_bytes=headers[-1].trailing_zero_bytes,
    )
    if any(scan.key_offsets is None for scan in scans):
        return RecordScan(headers=joined, rows=rows)
    keys = [scan.key_data for scan in scans if scan.key_data is not None]
    lengths = [np.diff(scan.key_offsets) for scan in scans if scan.key_offsets is not None]
    key_offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    return RecordScan(headers=joined, rows=rows, key_offsets=key_offsets, key_data=np.concatenate(keys))
