"""One segment file, scanned: its batches, the instant that decides each one's window, gaps, and what was wrong."""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import Flaw, HeaderScan
from pipeline.codec.log.segment import scan_headers
from pipeline.errors import InputError
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow
from pipeline.sources.files.segment_plan import SegmentRead
from pipeline.sources.live.settings import FetchRead
from pipeline.sources.records.event_time import NEIGHBOURS, NO_TIMESTAMP, EventTimes, assign_event_times

RecordLog: TypeAlias = SegmentRead | FetchRead  # where records were read: a segment file, or offsets fetched
_FIRST_BYTES = 1 << 16  # of a log, or of the next file, whose batches say when what is not read was sent
_MOST_MISSING = 1 << 32  # offsets before one batch, however far apart: sums of 2^31 batches stay within 64 bits
REPEATED = "offsets that another batch has, of this file or of the one before or after it: left out"
MISSING = "offsets are missing, though the topic is not compacted"
SENSELESS = (Flaw.RECORD_COUNT, Flaw.OFFSETS)  # flaws of batches whose header makes no sense: they are no load


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    headers: HeaderScan
    times: EventTimes
    missing_offset_count: NDArray[np.int64]
    is_committed: NDArray[np.bool_]  # below the high watermark
    is_countable: NDArray[np.bool_]  # as load: the header makes sense (a bad checksum alone does not bar it)
    problems: tuple[Problem, ...]


def scan_segment(read: SegmentRead, as_of_ms: int) -> ScannedSegment | Problem:
    """Scans a segment up to its size at discovery, with `as_of_ms` as now; a problem for a file that cannot be read."""
    try:
        path = Path(read.path)
        headers = scan_headers(path, end=min(read.size_bytes, path.stat().st_size))
    except InputError as error:
        return Problem(path=read.path, position=error.position, reason=error.reason, first_bytes=error.first_bytes)
    except OSError as error:
        return Problem(path=read.path, position=None, reason=f"cannot be read: {error.strerror or error}")
    headers = _without_repeated(read, headers)
    # what is unread is no hole in the log
    next_base_offset = -1 if is_cut_short(read, headers) else read.next_base_offset
    return with_file_facts(read, place_batches(headers, as_of_ms, read.base_offset, next_base_offset))


def _without_repeated(read: SegmentRead, headers: HeaderScan) -> HeaderScan:
    """The batches of a file, those flawed whose offsets another one has: of this file, or of one before or after it."""
    places = np.flatnonzero(~np.isin(headers.rows["flaw"], SENSELESS))
    rows = headers.rows[places]
    first, last = rows["base_offset"], rows["last_offset"]
    fits = first >= read.base_offset
    if read.next_base_offset >= 0:
        fits &= last < read.next_base_offset
    # of a batch whose checksum is wrong the number of its offsets may be, too
    ends = np.maximum.accumulate(np.where(fits, np.where(rows["flaw"] == Flaw.NONE, last, first), -1))
    fits[1:] &= first[1:] > ends[:-1]
    if fits.all():
        return headers
    changed = headers.rows.copy()
    changed["flaw"][places[~fits]] = Flaw.OFFSETS
    problem = Problem(path=read.path, position=int(rows["position"][~fits][0]), reason=REPEATED, severity="suspect")
    return replace(headers, rows=changed, problems=(*headers.problems, problem))


def find_contradiction(
    read: SegmentRead, scanned: ScannedSegment, as_of_ms: int, *, is_compacted: bool
) -> tuple[TimeWindow, tuple[Problem, ...]] | None:
    """When the records were sent that a file lacks by its own offsets, or has twice; what is wrong. Compaction leaves holes."""
    times_ms = scanned.times.event_time_ms.clip(0, as_of_ms)
    holes = np.flatnonzero(scanned.missing_offset_count)
    if any(one.reason == REPEATED for one in scanned.problems):  # it is not known which of the batches is right
        return TimeWindow(int(times_ms.min(initial=as_of_ms)), as_of_ms + 1), ()
    if is_compacted or not holes.size:
        return None
    first, last = int(holes[0]), int(holes[-1])
    before_ms = times_ms[max(0, first - NEIGHBOURS) : first]
    if not first and scanned.headers.base_offset[0] == read.base_offset:
        before_ms = times_ms[:1]
    start_ms = int(before_ms.min()) if before_ms.size else 0
    is_end = last == len(times_ms) - 1
    until_ms = _find_next_ms(read, as_of_ms) if is_end else int(times_ms[last : last + NEIGHBOURS].max())
    reason = f"{int(scanned.missing_offset_count.sum()):,} {MISSING}"
    problem = Problem(path=read.path, position=None, reason=reason, severity="suspect")
    return TimeWindow(start_ms, max(start_ms, until_ms) + 1), (problem,)


def is_cut_short(read: SegmentRead, headers: HeaderScan) -> bool:
    """Whether a scan ended before its file, and batches were behind that: a copy's last one may be half written."""
    if headers.valid_bytes >= min(read.size_bytes, headers.file_bytes):
        return False
    sound = headers.rows["last_offset"][headers.rows["flaw"] == Flaw.NONE]
    next_offset = int(sound[-1]) + 1 if sound.size else read.base_offset
    return next_offset < max(read.next_base_offset, read.high_watermark)


def find_unread_time(read: SegmentRead, scanned: ScannedSegment | Problem, as_of_ms: int) -> TimeWindow | None:
    """When records were sent that a file holds and does not give: between its last sound batches and the next file's first."""
    before_ms = np.zeros(0, np.int64)
    if not isinstance(scanned, Problem):
        if not is_cut_short(read, scanned.headers):
            return None
        before_ms = scanned.headers.max_timestamp_ms[scanned.headers.usable][-NEIGHBOURS:]
    start_ms = int(before_ms[before_ms >= 0].min(initial=as_of_ms)) if before_ms.size else 0
    return TimeWindow(start_ms, max(start_ms, _find_next_ms(read, as_of_ms)) + 1)


def _find_next_ms(read: SegmentRead, as_of_ms: int) -> int:
    """When the first batches of the next file were sent; now where that is not known."""
    after_ms = np.zeros(0, np.int64)
    if read.next_base_offset >= 0:
        with contextlib.suppress(OSError, InputError, ValueError):  # it is read as well, and told then
            name = f"{read.next_base_offset:020d}.log"  # or the first one after it that retention has left
            after = min(path for path in Path(read.path).parent.glob("*.log") if path.name >= name)
            after_ms = read_first_stamps(after)[:NEIGHBOURS]
    return int(after_ms[after_ms <= as_of_ms].max(initial=0)) or as_of_ms


def read_first_stamps(path: Path | str, start: int = 0) -> NDArray[np.int64]:
    """Max timestamps of the usable batches in the first 64 KiB from a position on; no checksum is looked at."""
    end = min(start + _FIRST_BYTES, Path(path).stat().st_size)
    first = scan_headers(path, start=start, end=end, check_crc=False, chunk_bytes=_FIRST_BYTES)
    stamps_ms: NDArray[np.int64] = first.max_timestamp_ms[first.usable]
    return stamps_ms


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
    """Batches with event times, all committed, and the offsets missing before each; of the last also those up to `next_base_offset`."""
    first, last = headers.base_offset.astype(np.int64), headers.rows["last_offset"].astype(np.int64)
    gaps = first - np.concatenate([[base_offset], last[:-1] + 1])[: len(first)]
    missing: NDArray[np.int64] = np.clip(gaps, 0, _MOST_MISSING)
    if len(first) and next_base_offset >= 0:
        missing[-1] = min(int(missing[-1]) + max(0, next_base_offset - (int(last[-1]) + 1)), _MOST_MISSING)
    return ScannedSegment(
        headers=headers,
        times=assign_event_times(headers.max_timestamp_ms.astype(np.int64), as_of_ms),
        missing_offset_count=missing,
        is_committed=np.ones(len(headers), np.bool_),
        is_countable=~np.isin(headers.rows["flaw"], SENSELESS),
        problems=headers.problems,
    )


def split_by_window(starts: NDArray[np.int64], chosen: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Places of the chosen batches, an array for each window; windows and places are in order."""
    places = np.flatnonzero(chosen)
    places = places[np.argsort(starts[places], kind="stable")]
    return np.split(places, np.flatnonzero(np.diff(starts[places])) + 1) if places.size else []
