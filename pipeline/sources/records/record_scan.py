"""One log read once: everything the tables need of a segment file, or of a fetched range, from one scan of its bytes.

Headers are scanned first, checksums verified; the records of the batches that lie in the windows wanted are decoded once,
for keys and arrivals together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.arrivals import BatchTimes
from pipeline.codec.records.record_reader import iter_record_scans
from pipeline.codec.records.record_scan import RecordScan
from pipeline.errors import InputError
from pipeline.model.log import Problem
from pipeline.sources.files.segment_plan import SegmentRead, pack
from pipeline.sources.records.aborted_batches import find_aborted
from pipeline.sources.records.arrival_chunks import ArrivalChunks, time_batches
from pipeline.sources.records.batch_rows import LeaderEpochs, make_batch_rows
from pipeline.sources.records.key_rows import KeyWindows, WindowKeys, make_key_rows
from pipeline.sources.records.pieces import Kind, Piece
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import RecordLog, ScannedSegment, scan_segment
from pipeline.sources.records.summary_rows import SUMMARY_SCHEMA, problem_row, summarise_scan

TASK_BYTES = 128 << 20
"""About how much one task reads: headers of a gigabyte take well under a second, so a file is not cut further."""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """The segment files that one Spark task reads."""

    reads: tuple[SegmentRead, ...]
    settings: ScanSettings
    leaders: LeaderEpochs

    def run(self) -> Iterator[Piece]:
        """Reads each file once."""
        for read in self.reads:
            yield from scan_file(read, self.settings, self.leaders)


def plan_segment_tasks(
    reads: Sequence[SegmentRead], settings: ScanSettings, leaders: LeaderEpochs, least: int
) -> list[SegmentTask]:
    """Groups segments into tasks, at least `least` of them where there are files."""
    return [SegmentTask(group, settings, leaders.only(group)) for group in pack(reads, TASK_BYTES, least)]


def scan_file(read: SegmentRead, settings: ScanSettings, leaders: LeaderEpochs) -> Iterator[Piece]:
    """Everything a segment file gives; of one that cannot be read what is wrong with it."""
    scanned = scan_segment(read, settings.as_of_ms)
    if isinstance(scanned, Problem):
        yield Piece(Kind.SUMMARIES, pa.Table.from_pylist([problem_row(read, scanned)], schema=SUMMARY_SCHEMA))
        return
    yield Piece(Kind.SUMMARIES, summarise_scan(read, scanned, settings.window_ms, is_file=True))
    yield Piece(Kind.BATCHES, make_batch_rows(read, scanned, settings, leaders, base_offset=read.base_offset))
    yield from scan_file_records(read, scanned, settings)


def scan_file_records(read: SegmentRead, scanned: ScannedSegment, settings: ScanSettings) -> Iterator[Piece]:
    """Scans the records of a segment, from the first batch that counts to the last."""
    starts = settings.choose_windows(scanned)
    wanted = np.flatnonzero(starts != NO_WINDOW)
    if not wanted.size or not (settings.max_distinct_keys or settings.reads_arrivals):
        return
    path, first, end = Path(read.path), int(wanted[0]), int(wanted[-1]) + 1
    try:
        scans = iter_record_scans(path, scanned.headers, first=first, end=end)
        times = (
            time_batches(scanned, settings, find_aborted(path, scanned.headers)) if settings.reads_arrivals else None
        )
        part = None if times is None else times.part(first, end)
        yield from scan_records(read, scans, starts[first:end], part, settings)
    except (InputError, OSError):  # gone since, as retention takes files
        return


def scan_records(
    log: RecordLog,
    scans: Iterable[RecordScan],
    starts: NDArray[np.int64],
    times: BatchTimes | None,
    settings: ScanSettings,
) -> Iterator[Piece]:
    """Counts keys and packs arrivals of records that are decoded once, chunk after chunk.

    `starts`, from `ScanSettings.choose_windows`, and `times`, from `time_batches`, are of exactly the chunks' batches; no
    arrivals are packed without `times`.
    """
    keys = KeyWindows(starts, settings.max_distinct_keys) if settings.max_distinct_keys else None
    arrivals = None if times is None else ArrivalChunks(log, settings, times)
    for scan in scans:
        if arrivals is not None:
            yield Piece(Kind.ARRIVALS, arrivals.add(scan))
        for found in keys.add(scan) if keys is not None else ():
            yield from _key_pieces(log, found, settings)
    for found in keys.finish() if keys is not None else ():
        yield from _key_pieces(log, found, settings)


def _key_pieces(log: RecordLog, found: WindowKeys, settings: ScanSettings) -> Iterator[Piece]:
    keys, others = make_key_rows(log, found, settings)
    yield Piece(Kind.KEYS, keys)
    yield Piece(Kind.OTHERS, others)
