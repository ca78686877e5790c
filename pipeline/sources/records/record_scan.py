"""One log read once: all that the tables need of a segment file, or of a fetched range; its records are decoded once, for keys and arrivals."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.codec.log.batch_headers import HeaderScan
from pipeline.codec.log.index_files import IndexFile, read_transaction_index
from pipeline.codec.records.arrival_layout import NO_WINDOW, SUMS
from pipeline.codec.records.arrivals import ArrivalPacker, BatchTimes, PackedArrivals
from pipeline.codec.records.record_reader import iter_record_scans
from pipeline.codec.records.record_scan import RecordScan
from pipeline.errors import InputError
from pipeline.files import open_regular
from pipeline.model.log import Problem
from pipeline.sources.files.segment_plan import SegmentRead, pack
from pipeline.sources.records import segment_scan
from pipeline.sources.records.batch_rows import TIMESTAMP_TYPES, LeaderEpochs, make_batch_rows
from pipeline.sources.records.key_rows import WindowKeyCounter, WindowKeys, make_key_rows
from pipeline.sources.records.pieces import Kind, Piece, problem_row, shortfall_row, sum_up, summarise_scan
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import SENSELESS, RecordLog, ScannedSegment

_KEY_LENGTH_AT, _TYPE_AT = 65, 69
"""In a control batch: the length of its record's key (4, as a varint), and the lower byte of the marker's type."""
_MARKER_BYTES = _TYPE_AT - _KEY_LENGTH_AT + 1
_KEY_LENGTH, _ABORT, _COMMIT = 8, 0, 1
_UNKNOWN = -1


def find_aborted(path: Path, headers: HeaderScan) -> NDArray[np.bool_]:
    """Says which batches belong to aborted transactions, by markers here or later `.txnindex` files; `OSError`."""
    if not headers.is_transactional.any():
        return np.zeros(len(headers), np.bool_)
    with open_regular(path) as file:
        ends = read_markers(file, headers)
    is_aborted, is_open = match_markers(headers, ends)
    if is_open.any():
        is_aborted[is_open] = _find_in_indexes(path, headers, np.flatnonzero(is_open))
    return is_aborted


def read_markers(file: BinaryIO, headers: HeaderScan) -> NDArray[np.int64]:
    """By batch the type of its marker, 0 abort, 1 commit, or -1; no map, which would break where a broker truncates."""
    types = np.full(len(headers), _UNKNOWN, np.int64)
    is_plain = headers.is_control & (headers.codec == 0) & (headers.size_bytes > _TYPE_AT)
    for batch in np.flatnonzero(is_plain):
        file.seek(int(headers.position[batch]) + _KEY_LENGTH_AT)
        marker = file.read(_MARKER_BYTES)
        if len(marker) == _MARKER_BYTES and marker[0] == _KEY_LENGTH and marker[-1] <= _COMMIT:
            types[batch] = marker[-1]
    return types


def match_markers(headers: HeaderScan, types: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """By batch, in append order: its producer's next marker is an abort; its transaction has no marker here."""
    is_mine = headers.is_transactional & ~headers.is_control
    rows = np.flatnonzero(is_mine | (types != _UNKNOWN))
    rows = rows[np.lexsort((rows, headers.rows["producer_id"][rows]))]
    producer, kind = headers.rows["producer_id"][rows], np.where(is_mine[rows], _UNKNOWN, types[rows])
    places = np.arange(len(rows))
    # The next marker at or after each place, of whichever producer: its own, or it has none here.
    after = np.minimum.accumulate(np.where(kind == _UNKNOWN, len(rows), places)[::-1])[::-1]
    has_marker = after < len(rows)
    has_marker[has_marker] = producer[after[has_marker]] == producer[has_marker]
    is_aborted, is_open = np.zeros(len(headers), np.bool_), np.zeros(len(headers), np.bool_)
    marked = np.flatnonzero(has_marker)
    is_aborted[rows[marked]] = kind[after[marked]] == _ABORT
    is_open[rows[~has_marker]] = True
    return is_aborted & is_mine, is_open & is_mine


def _find_in_indexes(path: Path, headers: HeaderScan, batches: NDArray[np.int64]) -> NDArray[np.bool_]:
    is_aborted = np.zeros(len(batches), np.bool_)
    producer, offset = headers.rows["producer_id"][batches], headers.base_offset[batches]
    for index_path in sorted(path.parent.glob("*.txnindex")):
        if index_path.stem < path.stem:
            continue
        try:
            index = read_transaction_index(index_path)
        except (InputError, OSError):
            continue
        is_aborted |= _find_held(index, producer, offset)
    return is_aborted


def _find_held(index: IndexFile, producer: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.bool_]:
    """By batch: one of its producer's transactions in an index holds it. Both may be many: they meet in their order."""
    is_held, places = np.zeros(len(offset), np.bool_), np.argsort(producer, kind="stable")
    order = np.lexsort((index.first_offset, index.producer_id))
    both = (order, index.producer_id[order]), (places, producer[places])
    for one in np.intersect1d(both[0][1], both[1][1]):
        own, mine = (at[np.searchsorted(ids, one) : np.searchsorted(ids, one, "right")] for at, ids in both)
        begun = np.searchsorted(index.first_offset[own], offset[mine], "right")
        last = np.maximum.accumulate(index.last_offset[own])
        is_held[mine] = (begun > 0) & (last[begun - 1] >= offset[mine])
    return is_held


def time_batches(scanned: ScannedSegment, settings: ScanSettings, is_aborted: NDArray[np.bool_]) -> BatchTimes:
    counts = scanned.is_countable & settings.is_wanted(scanned.times.event_time_ms)
    return BatchTimes(
        window_start_ms=np.where(counts, settings.choose_windows(scanned), NO_WINDOW),
        event_time_ms=scanned.times.event_time_ms,
        is_outlier=scanned.times.is_outlier,
        is_aborted=is_aborted,
    )


def make_chunk(log: RecordLog, packed: PackedArrivals) -> pa.Table:
    groups = packed.groups
    ends = np.concatenate([[0], np.cumsum(groups["record_count"])])
    columns: dict[str, Any] = {
        **{name: pa.repeat(getattr(log, name), len(groups)) for name in ("topic", "topic_id", "partition")},
        "timestamp_type": TIMESTAMP_TYPES[groups["is_append_time"]],
        "at_ms": _binaries(ends, packed.at_ms),
        "body_bytes": _binaries(ends, packed.body_bytes),
        "key_number": _binaries(ends if packed.key_number is not None else 0 * ends, packed.key_number),
    }
    numbers = ("window_start_ms", "minute_start_ms", "producer_id", "producer_epoch", "record_count", "first_ms")
    columns |= {name: np.ascontiguousarray(groups[name]) for name in (*numbers, *SUMS)}
    columns["key_digest"] *= log.partition + 1
    return pa.table([pa.array(columns[f.name]).cast(f.type) for f in CHUNK_SCHEMA], schema=CHUNK_SCHEMA)


def _binaries(ends: NDArray[np.int64], values: NDArray[Any] | None) -> pa.Array:
    held = np.zeros(0, np.int64) if values is None else np.ascontiguousarray(values)
    offsets = (ends * held.itemsize).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(held)])


TASK_BYTES = 128 << 20  # about what one task reads
_PARTS_PER_CORE = 2
"""A file is cut where it is more than this part of a core's share. Each task of a cut file reads all of its headers, for what
neighbours say of a batch: a tenth of what its records cost, so a file that delays nobody is not cut."""


class SegmentPart(NamedTuple):
    """The batches of a segment file that begin from one position on and before another one."""

    read: SegmentRead
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SegmentTask:
    reads: tuple[SegmentPart, ...]
    settings: ScanSettings
    leaders: LeaderEpochs

    def run(self) -> Iterator[Piece]:
        for part in self.reads:
            yield from scan_file(part.read, self.settings, self.leaders, part.start, part.end)


def plan_segment_tasks(
    reads: Sequence[SegmentRead],
    settings: ScanSettings,
    leaders: LeaderEpochs,
    least: int,
    task_bytes: int = TASK_BYTES,
) -> list[SegmentTask]:
    """Groups segments into tasks of about `task_bytes`, at least `least` of them where there are files; cuts large ones."""
    total_bytes = sum(read.size_bytes for read in reads)
    most_bytes = max(task_bytes, total_bytes // (_PARTS_PER_CORE * least))
    if settings.max_distinct_keys and settings.secret is None:
        # keys without names are counted per segment: they cannot be put together again
        most_bytes = max(1, total_bytes)
    parts = cut_reads(reads, most_bytes)
    groups = pack(parts, task_bytes, least, order=lambda part: (part.read.path, part.start))
    return [SegmentTask(group, settings, leaders.only(part.read for part in group)) for group in groups]


def cut_reads(reads: Iterable[SegmentRead], most_bytes: int) -> list[SegmentPart]:
    parts = []
    for read in reads:
        count = max(1, -(-read.size_bytes // most_bytes))
        edges = [read.size_bytes * number // count for number in range(count + 1)]
        parts += [SegmentPart(read, start, end) for start, end in pairwise(edges)]
    return parts


def scan_file(
    read: SegmentRead, settings: ScanSettings, leaders: LeaderEpochs, start: int = 0, end: int | None = None
) -> Iterator[Piece]:
    """Pieces of a segment file, or of its batches between two positions; those about all of it come with the first."""
    scanned = segment_scan.scan_segment(read, settings.as_of_ms)
    if not start and (sent := segment_scan.find_unread_time(read, scanned, settings.as_of_ms)) is not None:
        yield sum_up([shortfall_row(read, "damaged", sent)])
    if isinstance(scanned, Problem):
        if not start:
            yield sum_up([problem_row(read, scanned)])
        return
    is_compacted = read.topic in settings.compacted_topics
    wrong = segment_scan.find_contradiction(read, scanned, settings.as_of_ms, is_compacted=is_compacted)
    if wrong is not None:
        scanned = replace(scanned, problems=(*scanned.problems, *wrong[1]))
    if not start:
        yield Piece(Kind.SUMMARIES, summarise_scan(read, scanned, settings.window_ms, is_file=True))
        if wrong is not None:
            yield sum_up([shortfall_row(read, "damaged", wrong[0])])
    if not is_compacted:
        scanned = replace(scanned, missing_offset_count=np.zeros_like(scanned.missing_offset_count))
    edges = np.searchsorted(scanned.headers.position, [start, scanned.headers.valid_bytes if end is None else end])
    part = slice(*edges.tolist())
    rows = make_batch_rows(read, scanned, settings, leaders, base_offset=read.base_offset, part=part)
    yield Piece(Kind.BATCHES, rows)
    yield from scan_file_records(read, scanned, settings, part)


def scan_file_records(
    read: SegmentRead, scanned: ScannedSegment, settings: ScanSettings, part: slice = slice(None)
) -> Iterator[Piece]:
    starts = settings.choose_windows(scanned)
    wanted = np.arange(len(starts))[part][starts[part] != NO_WINDOW]
    if not wanted.size or not (settings.max_distinct_keys or settings.reads_arrivals):
        return
    path, first, end, times = Path(read.path), int(wanted[0]), int(wanted[-1]) + 1, None
    try:
        scans = iter_record_scans(path, scanned.headers, first=first, end=end)
        if settings.reads_arrivals:
            times = time_batches(scanned, settings, find_aborted(path, scanned.headers)).part(first, end)
        yield from scan_records(read, scans, starts[first:end], times, settings)
    except (InputError, OSError):  # gone since, as retention takes files
        return


def scan_records(
    log: RecordLog,
    scans: Iterable[RecordScan],
    starts: NDArray[np.int64],
    times: BatchTimes | None,
    settings: ScanSettings,
) -> Iterator[Piece]:
    """Counts keys and packs arrivals of records decoded once; `starts` and `times` (None: no arrivals) have a row per batch."""
    keys = WindowKeyCounter(starts, settings.max_distinct_keys) if settings.max_distinct_keys else None
    packer, done = ArrivalPacker(settings.secret, is_clear=log.topic in settings.clear_topics), 0
    for scan in scans:
        if times is not None:
            # a wrapper that turns out to make no sense only when it is opened is no load
            countable = ~np.isin(scan.headers.rows["flaw"], SENSELESS)
            own = times.part(done, done + len(scan.headers)).where(countable)
            yield Piece(Kind.ARRIVALS, make_chunk(log, packer.pack(scan, own)))
        done += len(scan.headers)
        for window_keys in keys.add(scan) if keys is not None else ():
            yield from _key_pieces(log, window_keys, settings)
    for window_keys in keys.finish() if keys is not None else ():
        yield from _key_pieces(log, window_keys, settings)


def _key_pieces(log: RecordLog, counted: WindowKeys, settings: ScanSettings) -> Iterator[Piece]:
    keys, others = make_key_rows(log, counted, settings)
    yield Piece(Kind.KEYS, keys)
    yield Piece(Kind.OTHERS, others)
