"""Do the files of a partition directory agree with each other: indexes, snapshots, base offsets."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.codec.log.index_checks import check_offset_index, check_time_index, check_transaction_index
from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.codec.log.producer_snapshot import read_producer_snapshot
from pipeline.errors import InputError
from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pipeline.codec.log.scans import HeaderScan
    from pipeline.model.log_tree import PartitionDirectory, SegmentFile
    from pipeline.model.segment_summary import SegmentSummary


def verify_segment(segment: SegmentFile, scan: HeaderScan) -> Iterator[Problem]:
    """Compares a segment's indexes with its batches.

    Args:
        segment: The file and its siblings; absent ones are passed over.
        scan: Every batch of it.

    Yields:
        What does not fit, at its position in the index file.
    """
    base_offset = segment.base_offset or 0
    if segment.index_path is not None:
        try:
            index = read_offset_index(segment.index_path, base_offset)
            yield from check_offset_index(segment.index_path, index, scan)
        except OSError as error:
            yield describe_unreadable(segment.index_path, error)
    if segment.time_index_path is not None:
        try:
            times = read_time_index(segment.time_index_path, base_offset)
            yield from check_time_index(segment.time_index_path, times, scan)
        except OSError as error:
            yield describe_unreadable(segment.time_index_path, error)
    if segment.txn_index_path is not None:
        try:
            aborted = read_transaction_index(Path(segment.txn_index_path))
            yield from check_transaction_index(segment.txn_index_path, aborted, scan)
        except OSError as error:
            yield describe_unreadable(segment.txn_index_path, error)
        except InputError as error:
            yield Problem(path=segment.txn_index_path, position=error.position, reason=error.reason)


def describe_unreadable(path: str, error: OSError) -> Problem:
    """A file that is there and cannot be read."""
    return Problem(path=path, position=None, reason=f"cannot be read: {error.strerror}")


def verify_partition(partition: PartitionDirectory, segments: Sequence[SegmentSummary]) -> Iterator[Problem]:
    """Compares the segments with their names and with each other, and reads the producer snapshots.

    Args:
        partition: The directory.
        segments: What its segments hold, by base offset.

    Yields:
        Batches below a segment's base offset or at the next one's, and broken snapshots.
    """
    for summary in segments:
        base, first = summary.segment.base_offset, summary.first_offset
        if base is not None and first is not None and first < base:
            reason = f"begins at offset {first}, below the base offset in its name"
            yield Problem(path=summary.segment.path, position=0, reason=reason, severity="suspect")
    for summary, later in pairwise(segments):
        base, last = later.segment.base_offset, summary.last_offset
        if base is not None and last is not None and last >= base:
            reason = f"reaches offset {last}, but the next segment begins at {base}"
            yield Problem(path=summary.segment.path, position=None, reason=reason, severity="suspect")
    for path in partition.snapshot_paths:
        try:
            read_producer_snapshot(path)
        except OSError as error:
            yield describe_unreadable(path, error)
        except InputError as error:
            yield Problem(path=path, position=error.position, reason=error.reason, first_bytes=error.first_bytes)
