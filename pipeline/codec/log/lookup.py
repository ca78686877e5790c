"""Finds an offset or an instant in a segment: through the sparse index, then batch by batch, as Kafka does.

References: `LogSegment.translateOffset` and `findOffsetByTimestamp`, `AbstractIndex.indexSlotRangeFor`,
`FileRecords.searchForOffsetFromPosition` and `searchForTimestamp`.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.index_files import OffsetIndex, TimeIndex
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches
from pipeline.model.log import BatchHeader

WARM_INDEX_BYTES = 8192  # the end of an index that Kafka searches first, because it is in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLookup:
    """The way through an index: entries looked at, in order, and the last one at or below the target, or None."""

    probes: tuple[int, ...]
    slot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLookup:
    index: IndexLookup
    start_position: int  # byte position the index gave; 0 without one
    batches_passed: int = 0  # batches read from there whose last offset was below the target
    # the first whose last offset is at or above the target, which may be compacted away; None: beyond the file's end
    batch: BatchHeader | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampLookup:
    time_index: IndexLookup
    offset_index: IndexLookup  # search of the offset index for the offset that the time index gave
    start_position: int  # byte position the indexes gave
    batches_passed: int = 0  # batches read from there without a record late enough
    batch: BatchHeader | None = None  # the batch of the record found; None: the segment has none
    offset: int | None = None  # offset of the first record, in file order, whose timestamp is at or after the target
    timestamp_ms: int | None = None


def search_index(values: NDArray[np.int64], target: int, *, entry_bytes: int) -> IndexLookup:
    """Finds the last entry at or below the target in ascending values, by Kafka's two-part binary search."""
    if not len(values):
        return IndexLookup(probes=(), slot=None)
    last = len(values) - 1
    first_warm = max(0, last - WARM_INDEX_BYTES // entry_bytes)
    probes = [first_warm]
    if values[first_warm] < target:
        low, high = first_warm, last
    else:
        probes.append(0)
        if values[0] > target:
            return IndexLookup(probes=tuple(dict.fromkeys(probes)), slot=None)
        low, high = 0, first_warm
    while low < high:
        middle = (low + high + 1) // 2
        probes.append(middle)
        if values[middle] > target:
            high = middle - 1
        else:
            low = middle
            if values[middle] == target:
                break
    return IndexLookup(probes=tuple(dict.fromkeys(probes)), slot=low)


def find_offset(path: Path | str, offset: int, index: OffsetIndex) -> OffsetLookup:
    """Finds the batch that holds an absolute offset, or would; the index may be empty."""
    slot = search_index(index.offset, offset, entry_bytes=index.entry_bytes)
    start = 0 if slot.slot is None else int(index.position[slot.slot])
    way = OffsetLookup(index=slot, start_position=start)
    for batch, _ in iter_batches(path, start):
        if batch.last_offset >= offset:
            return replace(way, batch=batch)
        way = replace(way, batches_passed=way.batches_passed + 1)
    return way


def find_timestamp(
    path: Path | str, timestamp_ms: int, times: TimeIndex, index: OffsetIndex, start_offset: int = 0
) -> TimestampLookup:
    """Finds the first record from `start_offset`, in file order, at or after an instant; or `InputError`."""
    time_index = search_index(times.timestamp_ms, timestamp_ms, entry_bytes=times.entry_bytes)
    known_offset = start_offset if time_index.slot is None else int(times.offset[time_index.slot])
    offset_index = search_index(index.offset, max(known_offset, start_offset), entry_bytes=index.entry_bytes)
    start = 0 if offset_index.slot is None else int(index.position[offset_index.slot])
    way = TimestampLookup(time_index=time_index, offset_index=offset_index, start_position=start)
    for batch, entry in iter_batches(path, start):
        for record in read_entry_records(entry) if batch.max_timestamp_ms >= timestamp_ms else ():
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return replace(way, batch=batch, offset=record.offset, timestamp_ms=record.timestamp_ms)
        way = replace(way, batches_passed=way.batches_passed + 1)
    return way
