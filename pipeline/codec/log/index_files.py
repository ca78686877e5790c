"""The sparse indexes of a segment, `.index`, `.timeindex`, `.txnindex`: entries, checks against the log, searches as in Kafka.

An active segment's indexes are preallocated and zero beyond the last entry: reading stops at the first zero entry after entry 0.

* `.index`: the position of the first batch of an append and the *last offset of the append*, which may span several
  batches. Brokers before 0.10.1 wrote the first offset: for magic 0 and 1 that is accepted too.
* `.timeindex`: the largest timestamp so far and the offset of a record (or the last of a batch) that has it.
* `.txnindex`: a transaction's first offset and that of its ABORT marker, a control batch.

References: Kafka 0.10 to 4.1: `LogSegment`, `AbstractIndex`, `TransactionIndex`, `FileRecords`, `DumpLogSegments`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import Field, HeaderScan
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches
from pipeline.errors import InputError, parser
from pipeline.files import open_regular, read_small
from pipeline.model.log import BatchHeader, Problem

OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])  # relative to the segment's base offset, as the next
TIME_ENTRY = np.dtype([("timestamp_ms", ">i8"), ("offset", ">i4")])
_TRANSACTION = ("producer_id", "first_offset", "last_offset", "last_stable_offset")  # the latter after the abort
TXN_ENTRY = np.dtype([("version", ">i2"), *((name, ">i8") for name in _TRANSACTION)])
_BLOCK_ENTRIES = 8192
_MOST_ENTRIES = 1 << 23  # one for each batch of 256 bytes in a segment of 2 GiB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexFile:
    """The entries of a file, column by column; bytes beyond a whole number of entries are damage."""

    rows: Mapping[str, NDArray[np.int64]]
    file_bytes: int
    entry_bytes: int
    offset = Field()  # absolute; `.index`: the last one of an append, `.timeindex`: where the timestamp was reached
    position = Field()  # of the append's first batch in the `.log`
    timestamp_ms = Field()  # the highest so far
    producer_id = Field()  # as the next two, of an aborted transaction whose marker is in the segment
    first_offset = Field()
    last_offset = Field()  # of the ABORT marker

    @classmethod
    def of(cls, entries: NDArray[np.void], file_bytes: int, base_offset: int = 0) -> Self:
        rows = {name: entries[name].astype(np.int64) for name in entries.dtype.names or ()}
        rows |= {name: rows[name] + base_offset for name in rows if name == "offset"}
        return cls(rows=rows, file_bytes=file_bytes, entry_bytes=entries.dtype.itemsize)


def read_offset_index(path: Path | str, base_offset: int) -> IndexFile:
    """Entries of an `.index` file; a first one of zeros is none: Kafka writes the first one beyond position 0."""
    entries, file_bytes = _read_entries(path, OFFSET_ENTRY)
    if len(entries) and not entries["position"][0] and not entries["offset"][0]:
        entries = entries[:0]
    return IndexFile.of(entries, file_bytes, base_offset)


def read_time_index(path: Path | str, base_offset: int) -> IndexFile:
    """Entries of a `.timeindex` file; a first entry of zeros counts only if it is alone, and so is not preallocated."""
    entries, file_bytes = _read_entries(path, TIME_ENTRY)
    if len(entries) == 1 and file_bytes > TIME_ENTRY.itemsize and not entries["timestamp_ms"][0]:
        entries = entries[int(not entries["offset"][0]) :]
    return IndexFile.of(entries, file_bytes, base_offset)


@parser
def read_transaction_index(path: Path | str) -> IndexFile:
    data = read_small(path)
    entries = np.frombuffer(data, dtype=TXN_ENTRY, count=len(data) // TXN_ENTRY.itemsize)
    other = np.flatnonzero(entries["version"] != 0)
    if len(other):
        position = int(other[0]) * TXN_ENTRY.itemsize
        reason = f"transaction index entry of version {entries['version'][other[0]]}, expected 0"
        raise InputError(reason, path=path, position=position, first_bytes=data[position:])
    return IndexFile.of(entries, len(data))


def _read_entries(path: Path | str, dtype: np.dtype[np.void]) -> tuple[NDArray[np.void], int]:
    blocks, rest = [np.empty(0, dtype)], b""
    with open_regular(path) as file:
        while data := file.read(_BLOCK_ENTRIES * dtype.itemsize):
            data = rest + data
            count = len(data) // dtype.itemsize
            rest = data[count * dtype.itemsize :]
            block = np.frombuffer(data, dtype=dtype, count=count)
            searched_from = 1 if len(blocks) == 1 else 0
            zeros = np.flatnonzero(block["offset"][searched_from:] == 0)
            if len(zeros):
                blocks.append(block[: searched_from + int(zeros[0])])
                break
            blocks.append(block)
            if (len(blocks) - 1) * _BLOCK_ENTRIES > _MOST_ENTRIES:
                raise InputError(f"more than {_MOST_ENTRIES:,} entries, more than a segment has use for")
        return np.concatenate(blocks), file.seek(0, 2)


MAX_PROBLEMS = 100


def check_offset_index(path: str, index: IndexFile, scan: HeaderScan) -> tuple[Problem, ...]:
    """Compares an `.index`, at `path`, with all batches of its segment; problems are at the position of the entry."""
    offset, position = index.offset, index.position
    batch = np.searchsorted(scan.position, position)
    starts_batch = _take(scan.position, batch, -1) == position
    disorder = np.zeros(len(offset), np.bool_)
    disorder[1:] = (offset[1:] <= offset[:-1]) | (position[1:] <= position[:-1])
    ends = np.sort(scan.last_offset)
    ends_batch = _take(ends, np.searchsorted(ends, offset), -1) == offset
    old = (_take(scan.rows["magic"], batch, 2) < 2) & (_take(scan.base_offset, batch, -1) == offset)
    before_position = starts_batch & (offset < _take(scan.base_offset, batch, 0))
    next_base = np.append(_take(scan.base_offset, batch[1:], np.iinfo(np.int64).max), np.iinfo(np.int64).max)
    outside = ends_batch & (before_position | (offset >= next_base)) & ~disorder
    return _list_problems(
        path,
        index,
        (~starts_batch, lambda i: f"position {position[i]} is not where a batch starts"),
        (disorder, lambda i: f"offset {offset[i]} at {position[i]} is not above the entry before"),
        (starts_batch & ~ends_batch & ~old, lambda i: f"offset {offset[i]} is not the last offset of any batch"),
        (outside, lambda i: f"offset {offset[i]} is not in the append that starts at {position[i]}"),
    )


def check_time_index(path: str, index: IndexFile, scan: HeaderScan) -> tuple[Problem, ...]:
    stamps, offset = index.timestamp_ms, index.offset
    disorder = np.zeros(len(stamps), np.bool_)
    disorder[1:] = (stamps[1:] <= stamps[:-1]) | (offset[1:] < offset[:-1])
    batch = np.searchsorted(scan.last_offset, offset)  # the batch that holds the offset, or the next one left after it
    is_held = (batch < len(scan)) & (_take(scan.base_offset, batch, 0) <= offset)
    largest, said = _take(np.maximum.accumulate(scan.max_timestamp_ms), batch, 0), "the largest one up to there is"
    return _list_problems(
        path,
        index,
        (disorder, lambda i: f"timestamp {stamps[i]} is not above that of the entry before"),
        (~is_held, lambda i: f"offset {offset[i]} is in no batch"),
        (is_held & (largest != stamps), lambda i: f"timestamp {stamps[i]} at offset {offset[i]}: {said} {largest[i]}"),
    )


def check_transaction_index(path: str, index: IndexFile, scan: HeaderScan) -> tuple[Problem, ...]:
    """Compares a `.txnindex` with its segment's batches; compaction removes ABORT markers, so none may be there."""
    first, last = index.first_offset, index.last_offset
    batch = np.searchsorted(scan.last_offset, last)
    is_held = (batch < len(scan)) & (_take(scan.base_offset, batch, 0) <= last)
    is_marker = _take(scan.is_control, batch, 0).astype(np.bool_)
    is_marker &= _take(scan.rows["producer_id"], batch, -1) == index.producer_id
    return _list_problems(
        path,
        index,
        (first > last, lambda i: f"first offset {first[i]} after the last, {last[i]}"),
        (is_held & ~is_marker, lambda i: f"offset {last[i]} is not a marker of producer {index.producer_id[i]}"),
    )


def _list_problems(
    path: str, index: IndexFile, *findings: tuple[NDArray[np.bool_], Callable[[int], str]]
) -> tuple[Problem, ...]:
    """Problems by position in the file, given which entries are wrong and why; the last of `MAX_PROBLEMS` stands for more."""
    rest = index.file_bytes % index.entry_bytes
    wrong = [(index.file_bytes - rest, f"{rest} bytes beyond a whole number of entries")] if rest else []
    for is_wrong, describe in findings:
        entries = np.flatnonzero(is_wrong)[: MAX_PROBLEMS + 1].tolist()
        wrong += [(entry * index.entry_bytes, describe(entry)) for entry in entries]
    wrong.sort(key=itemgetter(0))
    if len(wrong) > MAX_PROBLEMS:
        wrong[MAX_PROBLEMS - 1 :] = [(wrong[MAX_PROBLEMS - 1][0], "more entries are wrong from here on")]
    return tuple(Problem(path=path, position=at, reason=reason, severity="suspect") for at, reason in wrong)


def _take(column: NDArray[np.generic], rows: NDArray[np.int64], missing: int) -> NDArray[np.int64]:
    return np.append(column.astype(np.int64), missing)[np.minimum(rows, len(column))]


WARM_INDEX_BYTES = 8192  # the end of an index that Kafka searches first, because it is in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLookup:
    """The way through an index: entries looked at, in order, and the last one at or below the target, or None."""

    probes: tuple[int, ...]
    slot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLookup:
    """The way to the batch of an offset, which may be compacted away, or of the first record at or after an instant."""

    time_index: IndexLookup | None = None  # None where an offset is looked up
    index: IndexLookup  # search for the offset, or for the one that the time index gave
    start_position: int  # byte position the indexes gave; 0 without one
    batches_passed: int = 0  # batches read from there that end before the target
    batch: BatchHeader | None = None  # None: the target is beyond the file's end
    offset: int | None = None  # the one looked up, or of the record found
    timestamp_ms: int | None = None  # of the record found


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


def find_offset(path: Path | str, offset: int, index: IndexFile) -> BatchLookup:
    slot = search_index(index.offset, offset, entry_bytes=index.entry_bytes)
    start = 0 if slot.slot is None else int(index.position[slot.slot])
    way = BatchLookup(index=slot, start_position=start)
    for batch, _ in iter_batches(path, start):
        if batch.last_offset >= offset:
            return replace(way, batch=batch, offset=offset)
        way = replace(way, batches_passed=way.batches_passed + 1)
    return way


def find_timestamp(
    path: Path | str, timestamp_ms: int, times: IndexFile, index: IndexFile, start_offset: int = 0
) -> BatchLookup:
    """Finds the first record from `start_offset`, in file order, at or after an instant; or `InputError`."""
    time_index = search_index(times.timestamp_ms, timestamp_ms, entry_bytes=times.entry_bytes)
    known_offset = start_offset if time_index.slot is None else int(times.offset[time_index.slot])
    offset_index = search_index(index.offset, max(known_offset, start_offset), entry_bytes=index.entry_bytes)
    start = 0 if offset_index.slot is None else int(index.position[offset_index.slot])
    way = BatchLookup(time_index=time_index, index=offset_index, start_position=start)
    for batch, entry in iter_batches(path, start):
        for record in read_entry_records(entry) if batch.max_timestamp_ms >= timestamp_ms else ():
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return replace(way, batch=batch, offset=record.offset, timestamp_ms=record.timestamp_ms)
        way = replace(way, batches_passed=way.batches_passed + 1)
    return way
