"""The sparse indexes of a segment, `.index`, `.timeindex`, `.txnindex`: entries, checks against the log, searches.

An active segment's indexes are preallocated (10 MiB each by default) and zero beyond the last entry, so reading stops
at the first zero entry after entry 0, as `DumpLogSegments` does. What Kafka writes, and so what is checked:

* `.index`: the position of the first batch of an append and the *last offset of the append*, which may span several
  batches (a follower fetches many at once); so the offset ends a batch at or after the position, before the next
  entry's. Brokers before 0.10.1 wrote the first offset: for magic 0 and 1 that is accepted too.
* `.timeindex`: the largest timestamp so far and the offset of a record (or the last of a batch) that has it.
* `.txnindex`: a transaction's first offset and that of its ABORT marker, a control batch.

An offset or an instant is found through the index, then batch by batch, as in Kafka.

References: Kafka 0.10 to 4.1: `LogSegment.append`, `translateOffset`, `findOffsetByTimestamp`, `AbstractIndex`,
`TransactionIndex`, `FileRecords.searchForOffsetFromPosition`, `searchForTimestamp`, `DumpLogSegments`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import HeaderScan
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches
from pipeline.errors import InputError, parser
from pipeline.files import open_regular, read_small
from pipeline.model.log import BatchHeader, Problem

OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])  # relative to the segment's base offset, as the next
TIME_ENTRY = np.dtype([("timestamp_ms", ">i8"), ("offset", ">i4")])
_TRANSACTION = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
TXN_ENTRY = np.dtype([("version", ">i2"), *((name, ">i8") for name in _TRANSACTION)])
_BLOCK_ENTRIES = 8192
_MOST_ENTRIES = 1 << 23  # one for each batch of 256 bytes in a segment of 2 GiB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexFile:
    """The entries of a file, column by column, int64; `remainder_bytes` beyond a whole number of entries are damage."""

    file_bytes: int
    remainder_bytes: int
    entry_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetIndex(IndexFile):
    """`.index`: the last offset (absolute) of an append and the position in the `.log` of its first batch."""

    offset: NDArray[np.int64]
    position: NDArray[np.int64]
    entry_bytes: int = OFFSET_ENTRY.itemsize


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeIndex(IndexFile):
    """`.timeindex`: the highest timestamp so far and the offset (absolute) it was reached at."""

    timestamp_ms: NDArray[np.int64]
    offset: NDArray[np.int64]
    entry_bytes: int = TIME_ENTRY.itemsize


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransactionIndex(IndexFile):
    """`.txnindex`: the aborted transactions whose marker is in the segment; never preallocated."""

    producer_id: NDArray[np.int64]
    first_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]  # of the ABORT marker
    last_stable_offset: NDArray[np.int64]  # after the abort
    entry_bytes: int = TXN_ENTRY.itemsize


def read_offset_index(path: Path | str, base_offset: int) -> OffsetIndex:
    """Entries of an `.index` file; a first one of zeros is none: Kafka writes the first one beyond position 0."""
    entries, sizes = _read_entries(path, OFFSET_ENTRY)
    if len(entries) and not entries["position"][0] and not entries["offset"][0]:
        entries = entries[:0]
    return OffsetIndex(**_columns(entries, base_offset), **sizes)


def read_time_index(path: Path | str, base_offset: int) -> TimeIndex:
    """Entries of a `.timeindex` file; a first entry of zeros counts only if it is alone, and so is not preallocated."""
    entries, sizes = _read_entries(path, TIME_ENTRY)
    if len(entries) == 1 and sizes["file_bytes"] > TIME_ENTRY.itemsize and not entries["timestamp_ms"][0]:
        entries = entries[int(not entries["offset"][0]) :]
    return TimeIndex(**_columns(entries, base_offset), **sizes)


@parser
def read_transaction_index(path: Path | str) -> TransactionIndex:
    data = read_small(path)
    count, remainder = divmod(len(data), TXN_ENTRY.itemsize)
    entries = np.frombuffer(data, dtype=TXN_ENTRY, count=count)
    other = np.flatnonzero(entries["version"] != 0)
    if len(other):
        position = int(other[0]) * TXN_ENTRY.itemsize
        reason = f"transaction index entry of version {entries['version'][other[0]]}, expected 0"
        raise InputError(reason, path=path, position=position, first_bytes=data[position:])
    columns = _columns(entries[[*_TRANSACTION]], 0)
    return TransactionIndex(**columns, file_bytes=len(data), remainder_bytes=remainder)


def _columns(entries: NDArray[np.void], base_offset: int) -> dict[str, Any]:
    columns = {name: entries[name].astype(np.int64) for name in entries.dtype.names or ()}
    return columns | {name: columns[name] + base_offset for name in columns if name == "offset"}


def _read_entries(path: Path | str, dtype: np.dtype[np.void]) -> tuple[NDArray[np.void], dict[str, Any]]:
    """Entries up to the first with relative offset 0 after entry 0; file size and bytes beyond whole entries."""
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
        file_bytes = file.seek(0, 2)
    return np.concatenate(blocks), {"file_bytes": file_bytes, "remainder_bytes": file_bytes % dtype.itemsize}


MAX_PROBLEMS = 100


def check_offset_index(path: str, index: OffsetIndex, scan: HeaderScan) -> tuple[Problem, ...]:
    """Compares an `.index`, at `path`, with all batches of its segment; problems are at the position of the entry."""
    findings = _Findings(path, index)
    offset, position = index.offset, index.position
    batch = np.searchsorted(scan.position, position)
    starts_batch = _take(scan.position, batch, -1) == position
    findings.add(~starts_batch, lambda i: f"position {position[i]} is not where a batch starts")
    disorder = np.zeros(len(offset), np.bool_)
    disorder[1:] = (offset[1:] <= offset[:-1]) | (position[1:] <= position[:-1])
    findings.add(disorder, lambda i: f"offset {offset[i]} at {position[i]} is not above the entry before")
    ends = np.sort(scan.last_offset)
    ends_batch = _take(ends, np.searchsorted(ends, offset), -1) == offset
    old = (_take(scan.rows["magic"], batch, 2) < 2) & (_take(scan.base_offset, batch, -1) == offset)
    ends_none = starts_batch & ~ends_batch & ~old
    findings.add(ends_none, lambda i: f"offset {offset[i]} is not the last offset of any batch")
    before_position = starts_batch & (offset < _take(scan.base_offset, batch, 0))
    next_base = np.append(_take(scan.base_offset, batch[1:], np.iinfo(np.int64).max), np.iinfo(np.int64).max)
    outside = ends_batch & (before_position | (offset >= next_base)) & ~disorder
    findings.add(outside, lambda i: f"offset {offset[i]} is not in the append that starts at {position[i]}")
    return findings.limited()


def check_time_index(path: str, index: TimeIndex, scan: HeaderScan) -> tuple[Problem, ...]:
    findings = _Findings(path, index)
    stamps, offset = index.timestamp_ms, index.offset
    disorder = np.zeros(len(stamps), np.bool_)
    disorder[1:] = (stamps[1:] <= stamps[:-1]) | (offset[1:] < offset[:-1])
    findings.add(disorder, lambda i: f"timestamp {stamps[i]} is not above that of the entry before")
    batch = np.searchsorted(scan.last_offset, offset)  # the batch that holds the offset, or the next one left after it
    is_held = (batch < len(scan)) & (_take(scan.base_offset, batch, 0) <= offset)
    findings.add(~is_held, lambda i: f"offset {offset[i]} is in no batch")
    largest = _take(np.maximum.accumulate(scan.max_timestamp_ms), batch, 0)
    is_other, said = is_held & (largest != stamps), "the largest one up to there is"
    findings.add(is_other, lambda i: f"timestamp {stamps[i]} at offset {offset[i]}: {said} {largest[i]}")
    return findings.limited()


def check_transaction_index(path: str, index: TransactionIndex, scan: HeaderScan) -> tuple[Problem, ...]:
    """Compares a `.txnindex` with its segment's batches; compaction removes ABORT markers, so none may be there."""
    findings = _Findings(path, index)
    first, last = index.first_offset, index.last_offset
    findings.add(first > last, lambda i: f"first offset {first[i]} after the last, {last[i]}")
    batch = np.searchsorted(scan.last_offset, last)
    is_held = (batch < len(scan)) & (_take(scan.base_offset, batch, 0) <= last)
    is_marker = _take(scan.is_control, batch, 0).astype(np.bool_)
    is_marker &= _take(scan.rows["producer_id"], batch, -1) == index.producer_id
    findings.add(is_held & ~is_marker, lambda i: f"offset {last[i]} is not a marker of producer {index.producer_id[i]}")
    return findings.limited()


class _Findings:
    def __init__(self, path: str, index: IndexFile) -> None:
        self._path, self._entry_bytes = path, index.entry_bytes
        self._problems: list[Problem] = []
        if index.remainder_bytes:
            reason = f"{index.remainder_bytes} bytes beyond a whole number of entries"
            self._add(index.file_bytes - index.remainder_bytes, reason)

    def add(self, wrong: NDArray[np.bool_], describe: Callable[[int], str]) -> None:
        for entry in np.flatnonzero(wrong)[: MAX_PROBLEMS + 1].tolist():
            self._add(entry * self._entry_bytes, describe(entry))

    def limited(self) -> tuple[Problem, ...]:
        ordered = sorted(self._problems, key=lambda problem: problem.position or 0)
        if len(ordered) <= MAX_PROBLEMS:
            return tuple(ordered)
        self._add(ordered[MAX_PROBLEMS - 1].position, "more entries are wrong from here on")
        return (*ordered[: MAX_PROBLEMS - 1], self._problems[-1])

    def _add(self, position: int | None, reason: str) -> None:
        self._problems.append(Problem(path=self._path, position=position, reason=reason, severity="suspect"))


def _take(column: NDArray[np.generic], rows: NDArray[np.int64], missing: int) -> NDArray[np.int64]:
    return np.append(column.astype(np.int64), missing)[np.minimum(rows, len(column))]


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
