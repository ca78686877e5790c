"""Scans of a log segment: every batch header, or every record, with what was wrong listed beside.

Small files are read by plain Python, large ones by Numba kernels; both give equal scans. A bad batch is kept as a row
with a flaw and a problem; a length that cannot be followed ends the scan there, as it ends Kafka's own reading.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec import problems as wording
from pipeline.codec.header_walk import Stop, walk_batches
from pipeline.codec.legacy import read_message, unwrap
from pipeline.codec.scans import Flaw, HeaderScan
from pipeline.errors import InputError
from pipeline.model.log import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALL_FILE_BYTES = 8 << 20


def scan_headers(path: Path | str, *, start: int = 0, end: int | None = None, check_crc: bool = True) -> HeaderScan:
    """Reads the header of every batch.

    Args:
        path: A `.log` file (or any file that holds record sets one after another).
        start: Position of a batch to begin at.
        end: Batches that start at or after this position are left out; the whole file by default.
        check_crc: Verify every checksum, CRC-32C or, in magic 0 and 1, CRC-32.

    Raises:
        OSError: The file cannot be opened or read.
        ValueError: `start` or `end` lie outside the file.

    References:
        Kafka `FileLogInputStream`, `DefaultRecordBatch`, `DumpLogSegments`.
    """
    path = Path(path)
    with path.open("rb") as file:
        file_bytes = os.fstat(file.fileno()).st_size
        end = file_bytes if end is None else end
        if not 0 <= start <= file_bytes or not start <= end <= file_bytes:
            raise ValueError(f"{path}: range {start} to {end} outside the file's {file_bytes} bytes")
        data = file.read()[:file_bytes]
    return _finish(path, data, walk_batches(data, start, end, check_crc=check_crc), end)


def _finish(path: Path, data: bytes, walked: tuple[NDArray[np.void], int, Stop], end: int) -> HeaderScan:
    rows, position, stop = walked
    problems = _open_wrappers(str(path), data, rows)
    for index in np.flatnonzero(rows["flaw"]):
        if rows["flaw"][index] != Flaw.PAYLOAD:
            at = int(rows["position"][index])
            problems.append(wording.describe_flaw(str(path), rows[index], data[at : at + wording.FIRST_BYTES]))
    problems += [wording.describe_step_back(str(path), rows, index) for index in wording.find_steps_back(rows)]
    trailing_zero_bytes = 0
    if stop is Stop.ZERO_LENGTH and not any(data[position:]):
        trailing_zero_bytes = len(data) - position
    elif stop is not Stop.END:
        first_bytes = data[position : position + wording.FIRST_BYTES]
        problems.append(wording.describe_stop(str(path), position, stop, first_bytes, len(data)))
    return HeaderScan(
        rows=rows,
        problems=wording.limit_problems(str(path), problems),
        valid_bytes=position if stop is not Stop.END else max(position, min(end, len(data))),
        file_bytes=len(data),
        trailing_zero_bytes=trailing_zero_bytes,
    )


def _open_wrappers(path: str, data: bytes, rows: NDArray[np.void]) -> list[Problem]:
    """Completes the rows of compressed legacy wrappers from their inner sets, in place; returns what went wrong."""
    problems = []
    wrappers = (rows["magic"] < 2) & (rows["attributes"] & 7 != 0) & (rows["flaw"] == Flaw.NONE)
    for index in np.flatnonzero(wrappers):
        position = int(rows["position"][index])
        try:
            records = unwrap(read_message(data, position))
        except InputError as error:
            rows["flaw"][index] = Flaw.PAYLOAD
            problems.append(Problem(path=path, position=position, reason=error.reason, first_bytes=error.first_bytes))
            continue
        rows["base_offset"][index] = records[0].offset
        rows["record_count"][index] = len(records)
        rows["base_timestamp_ms"][index] = records[0].timestamp_ms
        rows["max_timestamp_ms"][index] = max(record.timestamp_ms for record in records)
    return problems
