"""The record batches of offset ranges, fetched from brokers: what one Spark task reads of a live cluster.

A task connects once and reads its ranges one after another, so no more than one range's replies are in memory. Records
are fetched and decoded once, for batches, keys and arrivals together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.errors import SourceUnreachableError
from pipeline.sources.live.connection import connect
from pipeline.sources.live.plan import pack_fetches
from pipeline.sources.live.range_scan import SMALL_RANGE_BYTES, iter_range_scans, scan_range, time_range_batches
from pipeline.sources.records.batch_rows import make_batch_rows
from pipeline.sources.records.pieces import Kind, Piece
from pipeline.sources.records.record_scan import scan_records
from pipeline.sources.records.summary_rows import SUMMARY_SCHEMA, shortfall_row, summarise_scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.codec.log.scans import HeaderScan
    from pipeline.sources.kinds.live_cluster import LiveCluster, Secrets
    from pipeline.sources.live.connection import Connection
    from pipeline.sources.live.plan import FetchRead
    from pipeline.sources.live.reading import LiveReading
    from pipeline.sources.records.batch_rows import LeaderEpochs
    from pipeline.sources.records.scan_settings import ScanSettings


@dataclass(frozen=True, slots=True)
class RangeTask:
    """The ranges that one Spark task fetches.

    Secrets are read on the driver: workers need no variables. They show nowhere.
    """

    reads: tuple[FetchRead, ...]
    settings: ScanSettings
    leaders: LeaderEpochs
    source: LiveCluster
    secrets: Secrets

    def run(self) -> Iterator[Piece]:
        """Fetches each range; one that could not be read whole has a `shortfall` row for each reason."""
        try:
            connection = connect(self.source, self.secrets)
        except SourceUnreachableError as error:
            rows = [shortfall_row(read, str(error)) for read in self.reads]
            yield Piece(Kind.SUMMARIES, pa.Table.from_pylist(rows, schema=SUMMARY_SCHEMA))
            return
        given_up: set[int] = set()
        try:
            for read in self.reads:
                yield from self._read(connection, read, given_up)
        finally:
            connection.close()

    def _read(self, connection: Connection, read: FetchRead, given_up: set[int]) -> Iterator[Piece]:
        replies: list[tuple[bytes, HeaderScan]] = []
        keep = (lambda *reply: replies.append(reply)) if self._reads_records else None
        found = scan_range(connection, read, self.settings.as_of_ms, given_up=given_up, on_reply=keep)
        scanned, base_offset = found.scanned, read.start_offset
        yield Piece(Kind.SUMMARIES, summarise_scan(read, scanned, self.settings.window_ms, is_file=False))
        lost = [shortfall_row(read, reason) for reason in found.lost]
        yield Piece(Kind.SUMMARIES, pa.Table.from_pylist(lost, schema=SUMMARY_SCHEMA))
        yield Piece(Kind.BATCHES, make_batch_rows(read, scanned, self.settings, self.leaders, base_offset=base_offset))
        starts = self.settings.choose_windows(scanned)
        if replies and (starts != NO_WINDOW).any():
            is_small = read.size_bytes < SMALL_RANGE_BYTES
            scans = iter_range_scans(replies, is_small=is_small)
            times = time_range_batches(scanned, replies, self.settings) if self.settings.reads_arrivals else None
            yield from scan_records(read, scans, starts, times, self.settings, is_small=is_small)

    @property
    def _reads_records(self) -> bool:
        return bool(self.settings.max_distinct_keys or self.settings.reads_arrivals)


def plan_range_tasks(live: LiveReading, settings: ScanSettings, leaders: LeaderEpochs, least: int) -> list[RangeTask]:
    """Groups the ranges to fetch into at least `least` tasks; `ConfigError` where a secret is not there."""
    if not live.reads:
        return []
    secrets = live.source.client.read_secrets()
    groups = pack_fetches(live.reads, least)
    return [RangeTask(group, settings, leaders.only(group), live.source, secrets) for group in groups]
