"""Do the files of a partition directory agree with each other: indexes, snapshots, base offsets."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.codec.log.checkpoints import check_producer_snapshot
from pipeline.codec.log.index_checks import check_offset_index, check_time_index, check_transaction_index
from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.errors import InputError
from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pipeline.codec.log.scans import HeaderScan
    from pipeline.model.log_tree import PartitionDirectory, SegmentFile
    from pipeline.model.segment_summary import SegmentSummary


def verify_segment(segment: SegmentFile, scan: HeaderScan) -> Iterator[Problem]:
    """Compares a segment's indexes, where there are any, with its batches; yields what does not fit."""
    base_offset = segment.base_offset or 0
    checks: tuple[tuple[str | None, Callable[[str], Iterable[Problem]]], ...] = (
        (segment.index_path, lambda path: check_offset_index(path, read_offset_index(path, base_offset), scan)),
        (segment.time_index_path, lambda path: check_time_index(path, read_time_index(path, base_offset), scan)),
        (
            segment.txn_index_path,
            lambda path: check_transaction_index(path, read_transaction_index(Path(path)), scan),
        ),
    )
    for path, check in checks:
        if path is not None:
            try:
                yield from check(path)
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
            check_producer_snapshot(Path(path).read_bytes(), path=path)
        except (OSError, InputError) as error:
            yield Problem.of_error(path, error)
