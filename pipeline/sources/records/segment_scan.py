"""One segment file, scanned: its batches, the instant that decides each one's window, gaps, and what was wrong."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.scans import Flaw, HeaderScan
from pipeline.codec.log.segment import scan_headers
from pipeline.errors import InputError
from pipeline.model.log import Problem
from pipeline.model.window import DAY_MS, LATEST_MS
from pipeline.sources.files.dumped_logs import scan_dump
from pipeline.sources.files.segment_plan import SegmentRead
from pipeline.sources.live.fetch_read import FetchRead

TOLERANCE_MS = DAY_MS
NEIGHBOURS = 5
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Per batch of one segment, in append order."""

    event_time_ms: NDArray[np.int64]  # instant that decides the window; -1 where the whole segment has no timestamp
    is_outlier: NDArray[np.bool_]  # the batch's own max timestamp was not used
    lateness_ms: NDArray[np.int64]  # how far the event time lies behind the largest one before it; 0 in order


def assign_event_times(max_timestamp_ms: NDArray[np.int64], as_of_ms: int) -> EventTimes:
    """Chooses each batch's event time.

    A timestamp is out of line when it lies more than 24 h below the smaller, or above the larger, of the medians of
    up to five batches on either side; the first batch of a segment may be arbitrarily old, the last one as young as
    `as_of_ms` plus 24 h, because an idle partition writes such.

    Args:
        max_timestamp_ms: Shape (batches,), in append order; -1 where a batch has none.
        as_of_ms: The run's now.

    >>> day = 86_400_000
    >>> times = assign_event_times(np.array([10, 20, 30 + 400 * day, 40, 15]), as_of_ms=day)
    >>> times.event_time_ms.tolist(), times.is_outlier.tolist(), times.lateness_ms.tolist()
    ([10, 20, 20, 40, 15], [False, False, True, False, False], [0, 0, 0, 0, 25])
    """
    stamps = np.asarray(max_timestamp_ms, dtype=np.int64)
    if stamps.size == 0:
        return EventTimes(stamps, np.zeros(0, dtype=np.bool_), stamps)
    known = (stamps >= 0) & (stamps <= LATEST_MS)  # so that no difference overflows
    outlier = ~known
    outlier[known] = _out_of_line(stamps[known], as_of_ms)
    in_line = np.flatnonzero(~outlier)
    if in_line.size == 0:
        return EventTimes(np.full_like(stamps, NO_TIMESTAMP), outlier, np.zeros_like(stamps))
    before = np.searchsorted(in_line, np.arange(stamps.size), side="right") - 1
    event = stamps[in_line[np.maximum(before, 0)]]
    latest = np.maximum.accumulate(event)
    return EventTimes(event, outlier, latest - event)


def _out_of_line(stamps: NDArray[np.int64], as_of_ms: int) -> NDArray[np.bool_]:
    outside = stamps > as_of_ms + TOLERANCE_MS
    if stamps.size <= 1 or stamps.max() - stamps.min() <= TOLERANCE_MS:
        return outside
    padded = np.full(stamps.size + 2 * NEIGHBOURS, np.nan)
    padded[NEIGHBOURS:-NEIGHBOURS] = stamps
    views = np.lib.stride_tricks.sliding_window_view(padded, NEIGHBOURS)
    before, after = np.full(stamps.size, -np.inf), np.full(stamps.size, np.inf)
    before[1:] = np.nanmedian(views[1 : stamps.size], axis=1)
    after[:-1] = np.nanmedian(views[NEIGHBOURS + 1 : NEIGHBOURS + stamps.size], axis=1)
    low, high = np.minimum(before, after), np.maximum(before, after)
    out: NDArray[np.bool_] = outside | (stamps < low - TOLERANCE_MS) | (stamps > high + TOLERANCE_MS)
    return out


class LogName(NamedTuple):
    """Topic-partition of a log; a recreated topic has another id."""

    topic: str
    topic_id: str
    partition: int


RecordLog: TypeAlias = SegmentRead | FetchRead
"""Where records were read: a segment file, or a range of offsets fetched from a broker."""

SENSELESS = (Flaw.RECORD_COUNT, Flaw.OFFSETS)  # flaws of batches whose header makes no sense: they are no load


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """A segment's batches, one array element each, in append order."""

    headers: HeaderScan
    times: EventTimes
    missing_offset_count: NDArray[np.int64]
    is_committed: NDArray[np.bool_]  # below the high watermark
    # the header makes sense, so that the batch counts as load (a bad checksum alone does not bar it)
    is_countable: NDArray[np.bool_]
    problems: tuple[Problem, ...]


def scan_segment(read: SegmentRead, as_of_ms: int) -> ScannedSegment | Problem:
    """Scans a segment up to the size it had at discovery; a file that cannot be read gives a problem instead.

    Timestamps far beyond `as_of_ms`, the run's now, are out of line.
    """
    try:
        headers = _scan_headers(read)
    except InputError as error:
        return Problem(path=read.path, position=error.position, reason=error.reason, first_bytes=error.first_bytes)
    except OSError as error:
        return Problem(path=read.path, position=None, reason=f"cannot be read: {error.strerror or error}")
    return with_file_facts(read, place_batches(headers, as_of_ms, read.base_offset, read.next_base_offset))


def with_file_facts(read: SegmentRead, scanned: ScannedSegment) -> ScannedSegment:
    """Completes batches with what only files have: a high watermark, and formats without timestamps."""
    headers = scanned.headers
    if len(headers) and (scanned.times.event_time_ms == NO_TIMESTAMP).all():
        reason = "no batch has a timestamp (record format 0): its batches belong to no window"
        problem = Problem(path=read.path, position=None, reason=reason, severity="suspect")
        scanned = replace(scanned, problems=(*scanned.problems, problem))
    if read.high_watermark >= 0:
        scanned = replace(scanned, is_committed=headers.base_offset < read.high_watermark)
    return scanned


def place_batches(headers: HeaderScan, as_of_ms: int, base_offset: int, next_base_offset: int) -> ScannedSegment:
    """Batches of a file or a range with their event times, and the gaps from `base_offset` on; all of them committed."""
    return ScannedSegment(
        headers=headers,
        times=assign_event_times(headers.max_timestamp_ms.astype(np.int64), as_of_ms),
        missing_offset_count=missing_offsets(headers, base_offset, next_base_offset),
        is_committed=np.ones(len(headers), np.bool_),
        is_countable=~np.isin(headers.rows["flaw"], SENSELESS),
        problems=headers.problems,
    )


def _scan_headers(read: SegmentRead) -> HeaderScan:
    if read.dumped_in is not None:
        return scan_dump(read.dumped_in, read.path)
    path = Path(read.path)
    return scan_headers(path, end=min(read.size_bytes, path.stat().st_size))


def missing_offsets(headers: HeaderScan, base_offset: int, next_base_offset: int) -> NDArray[np.int64]:
    """Offsets that no batch covers: before each batch, and after the last one up to the next segment (-1: none)."""
    first, last = headers.base_offset.astype(np.int64), headers.rows["last_offset"].astype(np.int64)
    if first.size == 0:
        return first
    missing: NDArray[np.int64] = np.maximum(first - np.concatenate([[base_offset], last[:-1] + 1]), 0)
    if next_base_offset >= 0:
        missing[-1] += max(0, next_base_offset - (int(last[-1]) + 1))
    return missing
