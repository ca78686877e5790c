"""Scans of record batches, in a segment file or in a Fetch reply: every header, or every record, and what is wrong.

A file is read chunk by chunk, so memory does not grow with it. A bad batch is kept as a row with a flaw and a problem;
a length that cannot be followed ends the scan there, as it ends Kafka's own reading. A broker cuts a Fetch reply at the
byte limit, in the middle of a batch: that is no problem, `valid_bytes` is where the cut batch begins.

References: Kafka `FileLogInputStream`, `DefaultRecordBatch`, `DumpLogSegments --deep-iteration`.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log import problems as wording
from pipeline.codec.log.batch_format import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAX_MAGIC, Stop
from pipeline.codec.log.header_walk import walk_batches
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.scans import Flaw, HeaderScan
from pipeline.errors import InputError
from pipeline.files import open_regular
from pipeline.model.log import BatchHeader, Problem

CHUNK_BYTES = 16 << 20
_FEW_BYTES = 64 << 10  # what a search reads at once: an index has an entry every 4 KiB
_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """Bytes that begin with a batch, and the whole batches in them; positions are those in the file."""

    data: bytes
    start: int  # position of the first byte
    rows: NDArray[np.void]
    end: int  # position of the first entry not read
    stop: Stop  # why it was not
    stop_bytes: bytes  # the first bytes from `end` on, where that is the end of the scan
    file_bytes: int
    is_zero_tail: bool  # whether all bytes from `end` on are zero, as in a preallocated file

    def entry(self, row: np.void) -> bytes:
        first = int(row["position"]) - self.start
        return self.data[first : first + int(row["size_bytes"])]


def scan_headers(
    path: Path | str, *, start: int = 0, end: int | None = None, check_crc: bool = True, chunk_bytes: int = CHUNK_BYTES
) -> HeaderScan:
    """Reads the header of every batch of a `.log` file from position `start` on, of those that start before `end`.

    `ValueError` for a range outside the file. Checksums are CRC-32C or, in magic 0 and 1, CRC-32; no batch is cut.
    """
    rows, problems, others, last_offset, is_placed = [], [], 0, None, True
    for chunk in _iter_chunks(Path(path), start, end, chunk_bytes, check_crc=check_crc):
        chunk_problems, more = _find_problems(str(path), chunk, last_offset, is_placed=is_placed)
        rows.append(chunk.rows)
        problems += chunk_problems
        others += more
        sound = chunk.rows["last_offset"][chunk.rows["flaw"] == Flaw.NONE]
        last_offset = int(sound[-1]) if len(sound) else last_offset
        is_placed = bool(_list_placed(chunk.rows, first=is_placed)[-1])
    limited = wording.limit_problems(str(path), problems, others=others)
    return HeaderScan(rows=np.concatenate(rows), problems=limited, valid_bytes=chunk.end, file_bytes=chunk.file_bytes)


def iter_batches(path: Path | str, start: int) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yields headers and bytes of batches one by one, from that at `start` on; ends where one is torn or has no length.

    Checksums are not looked at; a compressed legacy message has its inner set's offsets and times.
    `InputError` for a negative `start`.
    """
    if start < 0:
        raise InputError(f"an index points at position {start}", path=path)
    start = min(start, Path(path).stat().st_size)
    for chunk in _iter_chunks(Path(path), start, None, _FEW_BYTES, check_crc=False):
        for row in chunk.rows:
            yield BatchHeader(**{field: row[field].item() for field in BatchHeader.__slots__}), chunk.entry(row)


def scan_reply(data: bytes, *, name: str) -> HeaderScan:
    """Reads the headers of the whole batches in a Fetch reply, checksums verified; `name` stands for it in problems."""
    rows, end, stop = walk_batches(data, len(data), len(data), check_crc=True)
    stop = Stop.END if stop is Stop.BEYOND_FILE else stop
    chunk = _Chunk(
        data=data,
        start=0,
        rows=rows,
        end=end,
        stop=stop,
        stop_bytes=data[end : end + wording.FIRST_BYTES],
        file_bytes=len(data),
        is_zero_tail=stop is Stop.ZERO_LENGTH and data[end:] == bytes(len(data) - end),
    )
    _open_wrappers(chunk)
    problems, others = _find_problems(name, chunk, None, is_placed=True)
    limited = wording.limit_problems(name, problems, others=others)
    return HeaderScan(rows=rows, problems=limited, valid_bytes=end, file_bytes=len(data))


def _iter_chunks(path: Path, start: int, end: int | None, chunk_bytes: int, *, check_crc: bool) -> Iterator[_Chunk]:
    """Reads a file, at least one chunk of it, each as large as wanted, or as its first batch."""
    with open_regular(path) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        end = file_bytes if end is None else end
        if not 0 <= start <= end <= file_bytes:
            raise ValueError(f"{path}: range {start} to {end} does not lie in the file's {file_bytes} bytes")
        while True:
            chunk = _read_chunk(file, start, end, file_bytes, max(chunk_bytes, BATCH_HEADER_BYTES), check_crc=check_crc)
            _open_wrappers(chunk)
            yield chunk
            start = chunk.end
            if start >= end or chunk.stop not in {Stop.END, Stop.BEYOND_CHUNK}:
                return


def _read_chunk(file: FileIO, start: int, end: int, file_bytes: int, wanted_bytes: int, *, check_crc: bool) -> _Chunk:
    data = os.pread(file.fileno(), min(wanted_bytes, file_bytes - start), start)
    is_cut = len(data) < min(wanted_bytes, file_bytes - start)  # truncated since it was opened
    file_left = len(data) if is_cut else file_bytes - start
    rows, after, stop = walk_batches(data, end - start, file_left, check_crc=check_crc)
    if stop is Stop.BEYOND_CHUNK and not len(rows):
        batch_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(data[8:LOG_OVERHEAD_BYTES], "big")
        return _read_chunk(file, start, end, file_bytes, batch_bytes, check_crc=check_crc)
    rows["position"] += start
    return _Chunk(
        data=data,
        start=start,
        rows=rows,
        end=start + after,
        stop=stop,
        stop_bytes=os.pread(file.fileno(), wording.FIRST_BYTES, start + after),
        file_bytes=file_bytes,
        is_zero_tail=stop is Stop.ZERO_LENGTH and _ends_in_zeros(file, start + after),
    )


def _ends_in_zeros(file: FileIO, position: int) -> bool:
    """Whether all bytes of a file from a position on are zero; the holes of a preallocated one are passed over."""
    while True:
        try:
            position = os.lseek(file.fileno(), position, os.SEEK_DATA)
        except OSError as error:  # no data from there on, or a file system without holes
            if error.errno == errno.ENXIO:
                return True
        block = os.pread(file.fileno(), len(_ZEROS), position)
        if block != _ZEROS[: len(block)]:
            return False
        if not block:
            return True
        position += len(block)


def _open_wrappers(chunk: _Chunk) -> None:
    """Completes the rows of compressed legacy wrappers from their inner sets, in place; a broken one gets a flaw."""
    rows = chunk.rows
    is_wrapper = (rows["magic"] < MAX_MAGIC) & (rows["attributes"] & 7 != 0) & (rows["flaw"] == Flaw.NONE)
    for row in map(rows.__getitem__, np.flatnonzero(is_wrapper)):
        try:
            records = read_entry_records(chunk.entry(row))
        except InputError:
            row["flaw"] = Flaw.PAYLOAD
            continue
        row["base_offset"], row["record_count"] = records[0].offset, len(records)
        row["base_timestamp_ms"] = records[0].timestamp_ms
        row["max_timestamp_ms"] = max(record.timestamp_ms for record in records)


def _list_placed(rows: NDArray[np.void], *, first: bool) -> NDArray[np.bool_]:
    """Whether batches begin where the rows, and what comes next, were read: behind an unsure length may be records."""
    return np.concatenate([[first], ~np.isin(rows["flaw"], (Flaw.CRC, Flaw.OFFSETS))])


def _find_problems(name: str, chunk: _Chunk, last_offset: int | None, *, is_placed: bool) -> tuple[list[Problem], int]:
    """Returns what is wrong in a chunk, in words up to a limit, and the number of problems beyond it."""
    rows, most = chunk.rows, wording.MAX_PROBLEMS
    flawed = np.flatnonzero(rows["flaw"])
    steps_back = wording.find_steps_back(rows, last_offset)
    placed = _list_placed(rows, first=is_placed).tolist()
    problems = [wording.describe_flaw(name, rows[i], chunk.entry(rows[i]), is_placed=placed[i]) for i in flawed[:most]]
    problems += [wording.describe_step_back(name, rows[i]) for i in steps_back[:most]]
    others = len(flawed) + len(steps_back) - len(problems)
    if chunk.stop not in {Stop.END, Stop.BEYOND_CHUNK} and not chunk.is_zero_tail:
        end, left = chunk.end, chunk.file_bytes - chunk.end
        problems.append(wording.describe_stop(name, end, chunk.stop, chunk.stop_bytes, left, is_placed=placed[-1]))
    return problems, others
