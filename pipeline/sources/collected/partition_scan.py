"""Scans one partition's log from where the last collection stopped, in parts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.codec.log.batch_headers import Flaw, HeaderScan, sum_headers
from pipeline.codec.log.segment import scan_headers
from pipeline.model.log_tree import LeaderEpoch
from pipeline.sources.collected.manifest import LogProgress, SegmentTotals
from pipeline.sources.files.directory_walk import SEGMENT_NAME
from pipeline.sources.files.log_gaps import find_begin_ms, find_sent_ms
from pipeline.sources.files.segment_plan import SegmentRead
from pipeline.sources.records import segment_scan
from pipeline.sources.records.batch_rows import LeaderEpochs, make_batch_rows
from pipeline.sources.records.event_time import NEIGHBOURS, EventTimes, assign_event_times
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind, Piece, join_pieces, segment_row, summarise_scan
from pipeline.sources.records.record_scan import scan_file_records
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import ScannedSegment

UNIT_BYTES = 128 << 20  # about how much of a log is read at once
MOST_PRODUCERS = 10_000  # of a segment under way whose ids the manifest keeps: anyone may write any number of them
_NOBODY = LeaderEpochs({}, {})  # who led is known where the rows are taken up


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadUnit:
    pieces: tuple[Piece, ...]
    progress: LogProgress
    read_bytes: int


def go_back(progress: LogProgress | None, epochs: Sequence[LeaderEpoch]) -> LogProgress | None:
    """Where to go on in a log that has other batches now than were read: one that was cut by an unclean election; epochs of its checkpoint."""
    if progress is None or progress.leader_epoch < 0:
        return progress
    begun = [one.start_offset for one in epochs if one.epoch > progress.leader_epoch]
    if (cut := min(begun, default=progress.next_offset)) >= progress.next_offset:
        return progress
    nothing = SegmentTotals(row=dict.fromkeys((*_JOINED, "producer_id_count")), producer_ids=())
    return progress.model_copy(
        update={"next_offset": cut, "base_offset": cut, "position": 0, "stamps_ms": (), "totals": nothing}
    )


def read_partition(
    reads: Iterable[SegmentRead],
    progress: LogProgress | None,
    settings: ScanSettings,
    *,
    name: Callable[[str], str],
    unit_bytes: int = UNIT_BYTES,
) -> Iterator[ReadUnit]:
    """Reads what is committed of a log, given its segments in order, and not collected yet; `OSError` for a file that is not read."""
    for read in reads:
        while progress is None or not 0 <= read.next_base_offset <= progress.next_offset:
            try:
                inode = Path(read.path).stat().st_ino
                unit = _read_stretch(read, progress, settings, name(read.path), unit_bytes)
                if Path(read.path).stat().st_ino != inode:
                    continue  # the cleaner put another one in its place meanwhile
            except FileNotFoundError:
                base_offset = max((one for one in _list_bases(read) if one < read.base_offset), default=None)
                if base_offset is None:
                    break  # retention took it
                path = str(Path(read.path).with_name(f"{base_offset:020d}.log"))
                read = replace(read, path=path, base_offset=base_offset)  # noqa: PLW2901 - the cleaner merged both
                continue
            if unit is None:
                return
            progress = unit.progress
            yield unit


def _list_bases(read: SegmentRead) -> list[int]:
    return [int(one.stem) for one in Path(read.path).parent.glob("*.log") if SEGMENT_NAME.fullmatch(one.name)]


def is_stuck(read: SegmentRead, progress: LogProgress | None) -> bool:
    """Whether the last segment has more that is committed, behind what is damaged."""
    if progress is not None and progress.next_offset >= read.high_watermark:
        return False
    start = progress.position if progress is not None and progress.base_offset == read.base_offset else 0
    return segment_scan.is_cut_short(read, scan_headers(read.path, start=start, check_crc=False))


def _read_stretch(
    read: SegmentRead, progress: LogProgress | None, settings: ScanSettings, name: str, unit_bytes: int
) -> ReadUnit | None:
    known = progress if progress is not None and progress.base_offset == read.base_offset else None
    next_offset = read.base_offset if progress is None else max(progress.next_offset, read.base_offset)
    headers, start, end = _scan_on(read, known, next_offset, unit_bytes)
    committed, is_end = _cut(headers, read, is_last=end == headers.file_bytes)
    if not len(committed) and not is_end:
        return None
    next_base_offset = read.next_base_offset if is_end else -1
    scanned = segment_scan.place_batches(committed, settings.as_of_ms, next_offset, next_base_offset)
    # event times as in a scan of the whole file, without the batches still to come
    before = np.array([] if known is None else known.stamps_ms, np.int64)
    times = assign_event_times(np.concatenate([before, committed.max_timestamp_ms.astype(np.int64)]), settings.as_of_ms)
    event_time_ms = times.event_time_ms[len(before) :]
    behind_ms = (-1 if known is None else known.newest_ms) - event_time_ms
    lateness_ms = np.where(event_time_ms < 0, 0, np.maximum(times.lateness_ms[len(before) :], behind_ms))
    times = EventTimes(event_time_ms, times.is_outlier[len(before) :], lateness_ms)
    scanned = segment_scan.with_file_facts(read, replace(scanned, times=times))
    totals = _add(known, read, scanned)
    progressed = _advance(read, scanned, known, totals, next_base_offset if is_end else next_offset)
    lost = _note_lost(read, progress, times, settings.as_of_ms)
    if is_end and (sent := segment_scan.find_unread_time(read, scanned, settings.as_of_ms)) is not None:
        from_ms = sent.start_ms or (-1 if progress is None else progress.read_until_ms)
        lost = (from_ms, sent.end_ms) if lost is None else (min(lost[0], from_ms), max(lost[1], sent.end_ms))
    sound = committed.rows[committed.rows["flaw"] == Flaw.NONE]
    epochs = (-1 if progress is None else progress.leader_epoch, *sound["partition_leader_epoch"][-1:].tolist())
    return ReadUnit(
        pieces=tuple(join_pieces(_make_pieces(read, scanned, settings, totals, name))),
        progress=progressed.model_copy(update={"lost": lost, "leader_epoch": epochs[-1]}),
        read_bytes=headers.valid_bytes - start,
    )


def _scan_on(
    read: SegmentRead, known: LogProgress | None, next_offset: int, unit_bytes: int
) -> tuple[HeaderScan, int, int]:
    """Headers from `next_offset` on, and the positions searched; the batch read last must be where it was: a cleaner rewrites files."""
    path = Path(read.path)
    file_bytes = path.stat().st_size
    headers, start, end = None, 0, file_bytes
    if known is not None and known.position < file_bytes:
        end = min(known.position + unit_bytes, file_bytes)
        found = scan_headers(path, start=known.position, end=end)
        if len(found) and int(found.last_offset[0]) + 1 == next_offset:
            headers, start = replace(found, rows=found.rows[1:]), known.position
    if headers is None:
        is_begun = next_offset > read.base_offset
        end = file_bytes if is_begun else min(unit_bytes, file_bytes)
        headers = scan_headers(path, end=end)
        is_new = headers.base_offset >= (next_offset if is_begun else headers.base_offset)
        headers = replace(headers, rows=headers.rows[is_new])
    is_longer = not len(headers) and end < file_bytes  # the next batch, than what is read at once
    return _scan_on(read, known, next_offset, 2 * unit_bytes) if is_longer else (headers, start, end)


def _cut(headers: HeaderScan, read: SegmentRead, *, is_last: bool) -> tuple[HeaderScan, bool]:
    """Cuts batches at the high watermark; returns them and whether the segment is complete."""
    is_sound = headers.rows["flaw"] == Flaw.NONE
    count = len(headers)
    if read.high_watermark >= 0:
        count = min(np.flatnonzero(is_sound & (headers.base_offset >= read.high_watermark)).tolist(), default=count)
    if read.is_active:  # what is not sound at its end may be half written
        count = max((np.flatnonzero(is_sound[:count]) + 1).tolist(), default=0)
    is_end = is_last and count == len(headers) and not read.is_active
    end = headers.file_bytes if is_end else int((headers.position + headers.size_bytes)[:count].max(initial=0))
    problems = tuple(p for p in headers.problems if p.position is None or p.position < end or is_end)
    return replace(headers, rows=headers.rows[:count], problems=problems), is_end


def _advance(
    read: SegmentRead, scanned: ScannedSegment, known: LogProgress | None, totals: SegmentTotals, next_offset: int
) -> LogProgress:
    headers = scanned.headers
    stamps = (*(() if known is None else known.stamps_ms), *headers.max_timestamp_ms.tolist())
    is_sound = headers.rows["flaw"] == Flaw.NONE
    sound = headers.rows[is_sound]
    return LogProgress(
        topic=read.topic,
        topic_id=read.topic_id,
        partition=read.partition,
        next_offset=max(next_offset, *(sound["last_offset"][-1:] + 1).tolist(), 0),
        base_offset=read.base_offset,
        position=int(sound["position"][-1]) if len(sound) else 0 if known is None else known.position,
        newest_ms=int(scanned.times.event_time_ms.max(initial=-1 if known is None else known.newest_ms)),
        stamps_ms=stamps[-NEIGHBOURS:],
        totals=totals,
        collected_at_ms=-1,
    )


def _note_lost(
    read: SegmentRead, progress: LogProgress | None, times: EventTimes, as_of_ms: int
) -> tuple[int, int] | None:
    """The time of which records were gone before this stretch, or an earlier one, was read: until its segment was begun."""
    lost = None if progress is None else progress.lost
    if read.base_offset <= (0 if progress is None else progress.next_offset):
        return lost
    begun_ms = find_begin_ms(read.path, as_of_ms)
    until_ms = min(begun_ms, find_sent_ms(times.event_time_ms, as_of_ms))
    from_ms = -1 if progress is None else progress.read_until_ms
    return (from_ms, until_ms) if lost is None else (min(lost[0], from_ms), max(lost[1], until_ms))


def _add(known: LogProgress | None, read: SegmentRead, scanned: ScannedSegment) -> SegmentTotals:
    row = segment_row(read, scanned)
    producers = set(sum_headers(scanned.headers).producer_ids)
    if known is not None:
        before = known.totals.row
        producers |= set(known.totals.producer_ids)
        for column, join in _JOINED.items():
            both = [value for value in (before[column], row[column]) if value is not None]
            row[column] = join(both) if both else None
    before_count = 0 if known is None else known.totals.row["producer_id_count"] or 0
    row["producer_id_count"] = max(int(before_count), len(producers))  # of more than are kept: at least so many
    return SegmentTotals(row=row, producer_ids=tuple(sorted(producers)[:MOST_PRODUCERS]))


_JOINED: dict[str, Callable[[list[Any]], Any]] = {  # how the columns of two stretches' rows are put together
    **dict.fromkeys(("first_offset", "min_timestamp_ms"), min),
    **dict.fromkeys(("last_offset", "max_timestamp_ms"), max),
    **dict.fromkeys(("batch_count", "record_count", "control_batch_count"), sum),
    **dict.fromkeys(("missing_offset_count", "crc_error_count"), sum),
    **dict.fromkeys(("magic", "codecs"), lambda lists: ",".join(sorted({*",".join(lists).split(",")} - {""}))),
}


def _make_pieces(
    read: SegmentRead, scanned: ScannedSegment, settings: ScanSettings, totals: SegmentTotals, name: str
) -> Iterator[Piece]:
    own = pa.Table.from_pylist([totals.row], schema=SUMMARY_SCHEMA)
    windows = summarise_scan(read, scanned, settings.window_ms, is_file=False)
    yield Piece(Kind.SUMMARIES, _named(pa.concat_tables([own, windows]), name))
    yield Piece(Kind.BATCHES, make_batch_rows(read, scanned, settings, _NOBODY, base_offset=read.base_offset))
    for piece in scan_file_records(read, scanned, settings):
        yield Piece(piece.kind, _named(piece.rows, name)) if "path" in piece.rows.column_names else piece


def _named(rows: pa.Table, name: str) -> pa.Table:
    index = rows.column_names.index("path")
    return rows.set_column(index, rows.schema.field(index), pc.if_else(pc.is_valid(rows["path"]), name, rows["path"]))
