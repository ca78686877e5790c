"""The records of one segment file that lie in the windows wanted: what scans for keys and for arrivals begin with.

The batches that count, and their windows, are those of `kafka_record_batches`: one copy, below the high watermark, headers
that make sense, a batch with all its records in the window of its event time. Control batches are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.segment import SMALL_FILE_BYTES, SMALL_RECORD_COUNT, iter_record_scans
from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.sources.records.segment_scan import ScannedSegment, scan_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan
    from pipeline.model.window import TimeWindow
    from pipeline.sources.files.segment_plan import SegmentRead


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordScanSettings:
    """What a scan of records is told.

    Attributes:
        as_of_ms: The run's now.
        span: Windows wanted.
        window_ms: Their length.
    """

    as_of_ms: int
    span: TimeWindow
    window_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WantedRecords:
    """Where the wanted records of a segment lie.

    Attributes:
        path: The file.
        scanned: All its batches.
        window_starts: From `choose_windows`, for all its batches.
        first: The first batch that counts ...
        end: ... and the one after the last.
        is_small: The records are few: importing Numba would take longer than reading them.
    """

    path: Path
    scanned: ScannedSegment
    window_starts: NDArray[np.int64]
    first: int
    end: int
    is_small: bool

    def iter_scans(self) -> Iterator[RecordScan]:
        """Decodes the records of the batches from `first` to `end`, keys included, chunk after chunk.

        Raises:
            InputError: The file is not what it was.
            OSError: It is gone.
        """
        position, size_bytes = self.scanned.headers.position, self.scanned.headers.rows["size_bytes"]
        end = int(position[self.end - 1]) + int(size_bytes[self.end - 1])
        return iter_record_scans(self.path, start=int(position[self.first]), end=end)


def find_records(read: SegmentRead, settings: RecordScanSettings) -> WantedRecords | None:
    """Scans the headers of a segment; None where no batch counts, or the file cannot be read.

    Args:
        read: Which file.
        settings: Which windows.
    """
    scanned = scan_segment(read, settings.as_of_ms, check_crc=False)
    if not isinstance(scanned, ScannedSegment):
        return None
    starts = choose_windows(scanned, settings)
    wanted = np.flatnonzero(starts != NO_WINDOW)
    if not wanted.size:
        return None
    record_count = int(np.maximum(scanned.headers.record_count, 0).sum(dtype=np.int64))
    return WantedRecords(
        path=Path(read.path),
        scanned=scanned,
        window_starts=starts,
        first=int(wanted[0]),
        end=int(wanted[-1]) + 1,
        is_small=read.size_bytes < SMALL_FILE_BYTES and record_count <= SMALL_RECORD_COUNT,
    )


def choose_windows(scanned: ScannedSegment, settings: RecordScanSettings) -> NDArray[np.int64]:
    """Start of the window of each batch that counts, UTC milliseconds, else `NO_WINDOW`."""
    event_time_ms = scanned.times.event_time_ms
    counts = scanned.is_committed & ~scanned.headers.is_control & (event_time_ms >= 0)
    counts &= (event_time_ms >= settings.span.start_ms) & (event_time_ms < settings.span.end_ms)
    return np.where(counts, event_time_ms - event_time_ms % settings.window_ms, NO_WINDOW)
