"""Finds an offset or an instant in a partition as a broker does (`UnifiedLog.read`, `fetchOffsetByTimestamp`, Kafka 4.1)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from pipeline.codec.log import index_files as indexes
from pipeline.codec.log.index_files import OFFSET_ENTRY, TIME_ENTRY, BatchLookup, IndexFile
from pipeline.errors import InputError
from pipeline.model.log import Problem
from pipeline.model.log_tree import LogDirectory, PartitionDirectory, SegmentFile

_Find = Callable[[SegmentFile, IndexFile, IndexFile], BatchLookup]
_NO_OFFSETS, _NO_TIMES = (IndexFile.of(np.empty(0, entry), 0) for entry in (OFFSET_ENTRY, TIME_ENTRY))


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLookup:
    directory: LogDirectory
    partition: PartitionDirectory
    segment: SegmentFile | None = None  # where the search ended; None where no segment could hold the target
    segments_passed: int = 0  # segments searched before, without success
    index: IndexFile = _NO_OFFSETS
    time_index: IndexFile = _NO_TIMES
    found: BatchLookup | None = None
    problem: Problem | None = None


def look_up_offset(directory: LogDirectory, partition: PartitionDirectory, offset: int) -> SegmentLookup:
    """Finds the batch that holds an absolute offset; where it was compacted away, the next batch there is."""
    # the last segment whose base offset is at or below it comes first
    below = [i for i, segment in enumerate(partition.segments) if (segment.base_offset or 0) <= offset]
    held = partition.segments[below[-1] :] if below else ()
    start = SegmentLookup(directory=directory, partition=partition)
    return _search(start, held, lambda segment, index, _: indexes.find_offset(segment.path, offset, index))


def look_up_instant(directory: LogDirectory, partition: PartitionDirectory, at_ms: int) -> SegmentLookup:
    """Finds the first record, in log order, at or after an instant: a broker asks the first segment that reaches it, too."""
    start = SegmentLookup(directory=directory, partition=partition)
    return _search(
        start,
        partition.segments,
        lambda s, index, times: indexes.find_timestamp(s.path, at_ms, times, index, s.base_offset or 0),
    )


def _search(start: SegmentLookup, segments: Iterable[SegmentFile], find: _Find) -> SegmentLookup:
    way = start
    for passed, segment in enumerate(segments):
        at, base_offset = replace(start, segment=segment, segments_passed=passed), segment.base_offset or 0
        try:
            index, times = _NO_OFFSETS, _NO_TIMES
            if segment.index_path:
                index = indexes.read_offset_index(segment.index_path, base_offset)
            if segment.time_index_path:
                times = indexes.read_time_index(segment.time_index_path, base_offset)
            way = replace(at, index=index, time_index=times, found=find(segment, index, times))
        except (OSError, InputError) as error:
            return replace(at, problem=Problem.of_error(segment.path, error))
        if way.found is not None and way.found.batch is not None:
            break
    return way
