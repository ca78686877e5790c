"""Offset ranges, fetched from brokers and scanned once, for batches, keys and arrivals: what one Spark task reads of a live cluster.

Ranges come one after another in stretches of `RANGE_BYTES`: no more is in memory, whatever a broker says of sizes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain, starmap

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import HEADER_ROW, HeaderScan
from pipeline.codec.log.problems import limit_problems
from pipeline.codec.log.segment import scan_reply
from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.record_reader import decode_reply
from pipeline.errors import SourceUnreachableError
from pipeline.model.log import Problem
from pipeline.sources.files.segment_plan import pack
from pipeline.sources.live.connection import ClusterConnection, connect
from pipeline.sources.live.fetch import FetchState, iter_replies
from pipeline.sources.live.plan import RANGE_BYTES
from pipeline.sources.live.reading import LiveReading
from pipeline.sources.live.settings import FetchRead, LiveSettings, Secrets
from pipeline.sources.records.batch_rows import LeaderEpochs, make_batch_rows
from pipeline.sources.records.pieces import Kind, Piece, shortfall_row, sum_up, summarise_scan
from pipeline.sources.records.record_scan import match_markers, read_markers, scan_records, time_batches
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import ScannedSegment, place_batches

_MOST_TIMES, _MOST_BYTES_OF_UNKNOWN = 4, 16 << 30
"""A range may be so many times as large as its leader said, or have so many bytes where nobody said, before it is given up."""


@dataclass(frozen=True, slots=True)
class ScannedRange:
    scanned: ScannedSegment
    next_offset: int  # the first one that was not read
    rest: FetchRead | None  # what is still to be read, after as many bytes as were asked for at most
    size_bytes: int  # of the replies
    lost: tuple[str, ...]  # what is missing, in words; empty where nothing is
    retry_count: int


def scan_range(
    connection: ClusterConnection,
    read: FetchRead,
    as_of_ms: int,
    *,
    given_up: Counter[int] | None = None,
    on_reply: Callable[[bytes, HeaderScan], None] | None = None,
    most_bytes: int | None = None,
) -> ScannedRange:
    """Fetches a range, or its first `most_bytes`, checksums verified; `on_reply` takes each reply and the scan of its own batches."""
    state = FetchState(read.start_offset)
    scans: list[NDArray[np.void]] = []
    problems: list[Problem] = []
    straddled_until = read.start_offset
    stream_bytes, newest = 0, -(2**63)  # the largest base offset that was kept
    for data in iter_replies(connection, read, state, Counter() if given_up is None else given_up):
        scan = scan_reply(data, name=read.path)
        if not len(scan):
            continue
        asked, state.next_offset = state.next_offset, max(state.next_offset, int(scan.last_offset.max()) + 1)
        is_ours = (scan.base_offset < read.end_offset) & (scan.last_offset >= asked)
        is_ours &= _are_new(scan.base_offset, newest)
        lowest = read.taken_until if read.is_first else read.start_offset
        if lowest:
            is_before = scan.base_offset < lowest
            straddled_until = int(scan.last_offset[is_before].max(initial=straddled_until - 1)) + 1
            is_ours &= ~is_before
        for one in scan.problems:  # by offset: the position in a reply is another one every time
            index = int(np.searchsorted(scan.position, -1 if one.position is None else one.position))
            problems.append(replace(one, position=int(scan.base_offset[min(index, len(scan) - 1)])))
        own = replace(scan, rows=scan.rows[is_ours])
        newest = int(own.base_offset.max(initial=newest))
        if on_reply is not None:
            on_reply(data, replace(own, rows=own.rows.copy()))
        own.rows["position"] += stream_bytes
        stream_bytes += scan.valid_bytes
        scans.append(own.rows)
        if most_bytes is not None and stream_bytes >= most_bytes:
            break
    rest = None
    if not state.stopped and state.next_offset < read.end_offset:
        rest = replace(read, start_offset=state.next_offset, is_first=False)
        read = replace(read, end_offset=state.next_offset, is_last=False)
    rows = np.concatenate(scans) if scans else np.empty(0, HEADER_ROW)
    limited = limit_problems(read.path, problems)
    headers = HeaderScan(rows=rows, problems=limited, valid_bytes=stream_bytes, file_bytes=stream_bytes)
    lost = [f"retention took offsets {first} to {last - 1} while they were to be read" for first, last in state.lost]
    if state.stopped:
        lost.append(f"offsets {state.next_offset} to {read.end_offset - 1} could not be read: {state.stopped}")
    next_base = -1 if read.is_last or state.stopped else read.end_offset
    scanned = place_batches(headers, as_of_ms, straddled_until, next_base)
    _pass_over(scanned, state.lost)
    next_offset = min(state.next_offset, read.end_offset)
    return ScannedRange(scanned, next_offset, rest, stream_bytes, tuple(lost), state.retry_count)


def _pass_over(scanned: ScannedSegment, lost: Iterable[tuple[int, int]]) -> None:
    """Takes offsets that are told as lost from those missing: they are no hole in what was read."""
    offsets, missing = scanned.headers.base_offset, scanned.missing_offset_count
    for first, last in lost if len(offsets) else ():
        place = min(int(np.searchsorted(offsets, first)), len(offsets) - 1)
        missing[place] -= min(int(missing[place]), last - first)


def _are_new(offsets: NDArray[np.int64], newest: int) -> NDArray[np.bool_]:
    """Whether batches are behind the newest one and the first of their base offset, as all are that a broker keeps in order."""
    is_new: NDArray[np.bool_] = offsets > newest
    if (np.diff(offsets) <= 0).any():
        is_new &= np.isin(np.arange(len(offsets)), np.unique(offsets, return_index=True)[1])
    return is_new


MOST_GIVEN_UP = 3  # times in a process: a broker may claim 2,000 ranges, and each would wait for it
_given_up: dict[object, Counter[int]] = {}  # of this process's newest run


@dataclass(frozen=True, slots=True)
class RangeTask:
    """The ranges that one Spark task fetches; secrets, which show nowhere, are read on the driver: workers need no variables."""

    reads: tuple[FetchRead, ...]
    settings: ScanSettings
    leaders: LeaderEpochs
    source: LiveSettings
    secrets: Secrets

    def run(self) -> Iterator[Piece]:
        try:
            connection = connect(self.source, self.secrets)
        except SourceUnreachableError as error:
            yield sum_up(shortfall_row(read, str(error)) for read in self.reads)
            return
        of_run = self.source.bootstrap_servers, self.settings.as_of_ms
        if of_run not in _given_up:
            _given_up.clear()
        given_up = _given_up.setdefault(of_run, Counter())
        with connection:
            for read in self.reads:
                if given_up[read.leader_id] < MOST_GIVEN_UP:
                    yield from self._read(connection, read, given_up)
                else:
                    reason = f"broker {read.leader_id} is asked no more: it did not answer {MOST_GIVEN_UP} times"
                    yield sum_up([shortfall_row(read, reason)])

    def _read(self, connection: ClusterConnection, read: FetchRead, given_up: Counter[int]) -> Iterator[Piece]:
        most_bytes = (_MOST_TIMES * read.size_bytes or _MOST_BYTES_OF_UNKNOWN) + RANGE_BYTES
        read_bytes, rest = 0, read
        replies: list[tuple[bytes, HeaderScan]] = []
        is_kept = self.settings.max_distinct_keys or self.settings.reads_arrivals
        keep = (lambda data, scan: replies.append((data, scan))) if is_kept else None
        while True:
            replies.clear()
            as_of_ms = self.settings.as_of_ms
            scan = scan_range(connection, rest, as_of_ms, given_up=given_up, on_reply=keep, most_bytes=RANGE_BYTES)
            read_bytes += scan.size_bytes
            lost = list(scan.lost)
            if scan.rest is not None and read_bytes > most_bytes:
                named = f"{read.size_bytes:,} bytes that the leader named" if read.size_bytes else "an unknown size"
                unread = f"offsets {scan.next_offset} to {read.end_offset - 1} were not read"
                lost.append(f"{unread}: {read_bytes:,} bytes have come of {named}")
            yield from self._pieces(rest, scan, lost, replies)
            if scan.rest is None or read_bytes > most_bytes:
                return
            rest = scan.rest

    def _pieces(
        self, read: FetchRead, scan: ScannedRange, lost: Sequence[str], replies: Sequence[tuple[bytes, HeaderScan]]
    ) -> Iterator[Piece]:
        scanned, base_offset = scan.scanned, read.start_offset
        yield Piece(Kind.SUMMARIES, summarise_scan(read, scanned, self.settings.window_ms, is_file=False))
        yield sum_up(shortfall_row(read, reason) for reason in lost)
        yield Piece(Kind.BATCHES, make_batch_rows(read, scanned, self.settings, self.leaders, base_offset=base_offset))
        starts = self.settings.choose_windows(scanned)
        if replies and (starts != NO_WINDOW).any():
            scans, times = chain.from_iterable(starmap(decode_reply, replies)), None
            if self.settings.reads_arrivals:
                markers = np.concatenate([read_markers(BytesIO(data), headers) for data, headers in replies])
                times = time_batches(scanned, self.settings, match_markers(scanned.headers, markers)[0])
            yield from scan_records(read, scans, starts, times, self.settings)


def plan_range_tasks(live: LiveReading, settings: ScanSettings, leaders: LeaderEpochs, least: int) -> list[RangeTask]:
    """Groups the ranges to fetch into at least `least` tasks; `ConfigError` where a secret is not there."""
    if not live.reads:
        return []
    secrets = live.source.client.read_secrets()
    groups = pack(live.reads, RANGE_BYTES, least, order=lambda read: (read.topic, read.partition, read.start_offset))
    unheard = live.state.unheard if live.state else ()  # each task would wait for them
    heard = tuple(address for address in live.source.bootstrap_servers if address not in unheard)
    source = live.source.model_copy(update={"bootstrap_servers": heard or live.source.bootstrap_servers})
    return [RangeTask(group, settings, leaders.only(group), source, secrets) for group in groups]
