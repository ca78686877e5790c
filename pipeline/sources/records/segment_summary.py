"""Reads a segment and sums it up: headers always, records and indexes where asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.codec.log.header_sums import sum_headers
from pipeline.codec.log.problems import limit_problems
from pipeline.codec.log.segment import scan_headers
from pipeline.model.log import Problem
from pipeline.model.segment_summary import PartitionSummary, SegmentSummary
from pipeline.sources.files.verification import verify_partition, verify_segment

if TYPE_CHECKING:
    from pipeline.codec.log.scans import HeaderScan
    from pipeline.codec.records.record_tally import RecordTally
    from pipeline.model.log_tree import LogDirectory, PartitionDirectory, SegmentFile
    from pipeline.model.segment_summary import RecordSummary


def summarise_partition(
    directory: LogDirectory, partition: PartitionDirectory, *, deep: bool = False, verify: bool = False
) -> PartitionSummary:
    """Reads every segment of a partition directory and sums each up.

    Args:
        directory: The disk it lies on.
        partition: The partition directory.
        deep: Decode the records too.
        verify: Compare the indexes with the logs too.

    Returns:
        The summaries; files that cannot be read at all are among its problems.
    """
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
        summary = _sum_up(directory, partition, segment, scan)
        if records is not None:
            summary = _with_records(summary, scan, records)
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
    from pipeline.codec.records.record_tally import RecordTally  # noqa: PLC0415 - Numba takes longer than a small file

    return RecordTally()


def _scan_deep(segment: SegmentFile, total: RecordTally, *, is_only: bool) -> tuple[HeaderScan, RecordSummary]:
    """Scans headers, then records, which also count towards their partition's total."""
    from pipeline.codec.records.record_reader import iter_record_scans  # noqa: PLC0415 - as above

    tally = total if is_only else _make_tally()
    headers = scan_headers(segment.path)
    problems = [*headers.problems]
    for scan in iter_record_scans(segment.path, headers):
        for each in {tally, total}:
            each.add(scan)
        problems += scan.headers.problems
    return replace(headers, problems=limit_problems(segment.path, problems)), tally.summary()


def _with_records(summary: SegmentSummary, scan: HeaderScan, records: RecordSummary) -> SegmentSummary:
    """Adds a deep scan; the minimum is then the records' own: a header has its first record's, perhaps compacted away."""
    stamps = [] if records.min_timestamp_ms is None else [records.min_timestamp_ms]
    if summary.control_batch_count:
        markers = scan.min_timestamp_ms[scan.usable & scan.is_control]
        stamps += markers[markers >= 0].tolist()
    return replace(summary, records=records, min_timestamp_ms=min(stamps, default=None))


def _sum_up(
    directory: LogDirectory, partition: PartitionDirectory, segment: SegmentFile, scan: HeaderScan
) -> SegmentSummary:
    sums = sum_headers(scan)
    return SegmentSummary(
        directory=directory,
        partition=partition,
        segment=segment,
        batch_count=len(scan),
        damaged_batch_count=sums.damaged_batch_count,
        record_count=sums.record_count,
        size_bytes=scan.file_bytes,
        first_offset=int(scan.base_offset[0]) if len(scan) else None,
        last_offset=int(scan.last_offset[-1]) if len(scan) else None,
        missing_offset_count=sums.missing_offset_count,
        min_timestamp_ms=sums.min_timestamp_ms,
        max_timestamp_ms=sums.max_timestamp_ms,
        magics=sums.magics,
        codecs=sums.codecs,
        control_batch_count=sums.control_batch_count,
        producer_ids=sums.producer_ids,
        crc_error_count=sums.crc_error_count,
        problems=scan.problems,
    )
