"""Do the indexes of a segment agree with its log? One problem per entry that does not, at most `MAX_PROBLEMS` a file.

What Kafka writes, and so what is checked:

* `.index`: the position of the first batch of an append and the *last offset of the append*, which may span several
  batches (a follower fetches many at once); so the offset ends a batch at or after the position, before the next entry's.
  Brokers before 0.10.1 wrote the first offset: for magic 0 and 1 that is accepted too.
* `.timeindex`: the largest timestamp so far and the offset of a record (or the last of a batch) that has it.
* `.txnindex`: a transaction's first offset and that of its ABORT marker, a control batch.

References: Kafka 0.10 to 4.1: `LogSegment.append`, `TimeIndex.maybeAppend`, `DumpLogSegments.dumpIndex`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.index_files import IndexFile, OffsetIndex, TimeIndex, TransactionIndex
from pipeline.codec.log.scans import HeaderScan
from pipeline.model.log import Problem

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
    """Compares a `.timeindex` with all batches of its segment, as `check_offset_index` does."""
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
        """The first problems by position; the last one says where there are more."""
        ordered = sorted(self._problems, key=lambda problem: problem.position or 0)
        if len(ordered) <= MAX_PROBLEMS:
            return tuple(ordered)
        self._add(ordered[MAX_PROBLEMS - 1].position, "more entries are wrong from here on")
        return (*ordered[: MAX_PROBLEMS - 1], self._problems[-1])

    def _add(self, position: int | None, reason: str) -> None:
        self._problems.append(Problem(path=self._path, position=position, reason=reason, severity="suspect"))


def _take(column: NDArray[np.generic], rows: NDArray[np.int64], missing: int) -> NDArray[np.int64]:
    """Values of a column by row; `missing` for rows beyond it."""
    return np.append(column.astype(np.int64), missing)[np.minimum(rows, len(column))]
