"""Reads a segment and sums it up: headers always, records and indexes where asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from pipeline.codec.log import index_files as indexes
from pipeline.codec.log.batch_headers import HeaderScan, sum_headers
from pipeline.codec.log.log_directory import check_producer_snapshot
from pipeline.codec.log.problems import limit_problems
from pipeline.codec.log.segment import scan_headers
from pipeline.errors import InputError
from pipeline.files import read_small
from pipeline.model.log import Problem
from pipeline.model.log_tree import PartitionSummary, SegmentSummary

if TYPE_CHECKING:
    from pipeline.codec.records.key_table import RecordTally
    from pipeline.model.log_tree import LogDirectory, PartitionDirectory, RecordSummary, SegmentFile


def summarise_partition(
    directory: LogDirectory, partition: PartitionDirectory, *, deep: bool = False, verify: bool = False
) -> PartitionSummary:
    """Sums up the segments of a partition directory; `deep` reads records too, `verify` compares indexes with logs."""
    segments: list[SegmentSummary] = []
    problems: list[Problem] = []
    total = _make_tally() if deep else None
    only = len(partition.segments) == 1
    for segment in partition.segments:
        try:
            scan, records = _scan_deep(segment, total, is_only=only) if total else (scan_headers(segment.path), None)
        except OSError as error:
            problems.append(Problem.of_error(segment.path, error))
            continue
        summary = SegmentSummary(
            **asdict(sum_headers(scan)),
            directory=directory,
            partition=partition,
            segment=segment,
            batch_count=len(scan),
            size_bytes=scan.file_bytes,
            first_offset=int(scan.base_offset[0]) if len(scan) else None,
            last_offset=int(scan.last_offset[-1]) if len(scan) else None,
            problems=scan.problems,
        )
        if records is not None:
            # the minimum is then the records' own: a header has its first record's, perhaps compacted away
            stamps = [] if records.min_timestamp_ms is None else [records.min_timestamp_ms]
            if summary.control_batch_count:
                markers = scan.min_timestamp_ms[scan.usable & scan.is_control]
                stamps += markers[markers >= 0].tolist()
            summary = replace(summary, records=records, min_timestamp_ms=min(stamps, default=None))
        if verify:
            summary = replace(summary, problems=(*summary.problems, *verify_segment(segment, scan)))
        segments.append(summary)
    if verify:
        problems += verify_partition(partition, segments)
    return PartitionSummary(
        directory=directory,
        partition=partition,
        segments=tuple(segments),
        records=total.summary() if total else None,
        problems=tuple(problems),
    )


def _make_tally() -> RecordTally:
    from pipeline.codec.records.key_table import RecordTally  # noqa: PLC0415 - Numba takes longer than a small file

    return RecordTally()


def _scan_deep(segment: SegmentFile, total: RecordTally, *, is_only: bool) -> tuple[HeaderScan, RecordSummary]:
    from pipeline.codec.records.record_reader import iter_record_scans  # noqa: PLC0415 - as above

    tally = total if is_only else _make_tally()
    headers = scan_headers(segment.path)
    problems = [*headers.problems]
    for scan in iter_record_scans(segment.path, headers):
        for each in {tally, total}:
            each.add(scan)
        problems += scan.headers.problems
    return replace(headers, problems=limit_problems(segment.path, problems)), tally.summary()


def verify_segment(segment: SegmentFile, scan: HeaderScan) -> Iterator[Problem]:
    base_offset = segment.base_offset or 0
    read_offsets, read_times = (
        partial(read, base_offset=base_offset) for read in (indexes.read_offset_index, indexes.read_time_index)
    )
    for path, read, check in (
        (segment.index_path, read_offsets, indexes.check_offset_index),
        (segment.time_index_path, read_times, indexes.check_time_index),
        (segment.txn_index_path, indexes.read_transaction_index, indexes.check_transaction_index),
    ):
        if path is not None:
            try:
                yield from check(path, read(path), scan)
            except (OSError, InputError) as error:
                yield Problem.of_error(path, error)


def verify_partition(partition: PartitionDirectory, segments: Sequence[SegmentSummary]) -> Iterator[Problem]:
    """Yields batches below a segment's base offset or at the next one's, and producer snapshots that are broken."""
    for summary in segments:
        base, first = summary.segment.base_offset, summary.first_offset
        if base is not None and first is not None and first < base:
            reason = f"begins at offset {first}, below the base offset in its name"
            yield Problem(path=summary.segment.path, position=0, reason=reason, severity="suspect")
    for summary, later in pairwise(segments):
        base, last = later.segment.base_offset, summary.last_offset
        if base is not None and last is not None and last >= base:
            reason = f"reaches offset {last}, but the next segment begins at {base}"
            yield Problem(path=summary.segment.path, reason=reason, severity="suspect")
    for path in partition.snapshot_paths:
        try:
            check_producer_snapshot(read_small(path))
        except (OSError, InputError) as error:
            yield Problem.of_error(path, error)
