"""Records and bytes per key of a log: exact while the keys fit a limit, with a stated bound beyond it.

Beyond the limit it is Space-Saving in bulk. Whenever a key comes for which there is no room, the half of the keys with the
least `record_count + count_error` is dropped, and the largest such sum among them becomes the error of every key met from
then on: so often may it have come before. A key that is kept has been counted exactly since it was met, and what was
dropped is summed up, so that all sums stay exact:

* the true count lies between `record_count` and `record_count + count_error`;
* a key that is not among them came at most `max_count_error` times, which is at most records / (limit / 2).

Two counters give equal results: `PlainKeyCounts` in plain Python, for small files and as the oracle, and
`KernelKeyCounts` over a table filled by a Numba kernel. The result depends on the records and their order, not on the
chunks they come in.

References:
    Metwally, Agrawal, El Abbadi, Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005
    (Space-Saving); dropping half at once follows Agarwal et al., Mergeable Summaries, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan

MIN_LIMIT = 2
_FIRST_ROOM = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """What a counter found; arrays have one element per key, in the order the keys were met.

    Attributes:
        keys: Their bytes, as large binary.
        record_count: Records since the key was met (again).
        size_bytes: Bytes of those records, as encoded before compression.
        count_error: Records it may have had before; 0 where exact.
        size_error_bytes: Bytes it may have had before.
        null_record_count: Records with a null key.
        null_size_bytes: Their bytes.
        other_record_count: Records of keys that were dropped.
        other_size_bytes: Their bytes.
        max_count_error: Records that a key not among these may have.
        max_size_error_bytes: Bytes that a key not among these may have.
    """

    keys: pa.Array
    record_count: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    count_error: NDArray[np.int64]
    size_error_bytes: NDArray[np.int64]
    null_record_count: int
    null_size_bytes: int
    other_record_count: int
    other_size_bytes: int
    max_count_error: int
    max_size_error_bytes: int


class KeyCounter(Protocol):
    """Counts chunks of records."""

    def add(self, scan: RecordScan, is_skipped: NDArray[np.bool_]) -> None:
        """Counts the records of a chunk that was scanned with keys.

        Args:
            scan: The chunk.
            is_skipped: By batch of the chunk: its records are left out.
        """

    def result(self) -> KeyCounts:
        """What was counted so far."""


def make_key_counter(limit: int, *, is_small: bool) -> KeyCounter:
    """A counter.

    Args:
        limit: Keys to hold at once, at least `MIN_LIMIT`.
        is_small: The records are few: importing Numba would take longer.

    Raises:
        ValueError: The limit is too small.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"a limit of {limit} keys; expected at least {MIN_LIMIT}")
    return PlainKeyCounts(limit) if is_small else KernelKeyCounts(limit)


class _Dropped:
    """What became of the keys that were dropped."""

    def __init__(self) -> None:
        self.record_count = self.size_bytes = self.count_error = self.size_error_bytes = 0

    def choose_kept(
        self,
        record_count: NDArray[np.int64],
        size_bytes: NDArray[np.int64],
        count_error: NDArray[np.int64],
        size_error_bytes: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Drops the lesser half, the later one among equals; gives the indexes of the others, ascending."""
        most = record_count + count_error
        order = np.lexsort((np.arange(len(most)), -most))
        kept, dropped = np.sort(order[: len(most) // 2]), order[len(most) // 2 :]
        self.record_count += int(record_count[dropped].sum())
        self.size_bytes += int(size_bytes[dropped].sum())
        self.count_error = max(self.count_error, int(most[dropped].max()))
        most_bytes = size_bytes[dropped] + size_error_bytes[dropped]
        self.size_error_bytes = max(self.size_error_bytes, int(most_bytes.max()))
        return kept


class PlainKeyCounts:
    """In plain Python.

    Args:
        limit: Keys to hold at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: dict[bytes, list[int]] = {}
        self._null = [0, 0]
        self._dropped = _Dropped()

    def add(self, scan: RecordScan, is_skipped: NDArray[np.bool_]) -> None:
        """See `KeyCounter`."""
        offsets, data = scan.key_columns()
        text, ends = data.tobytes(), offsets.tolist()
        lengths, sizes = scan.key_length.tolist(), scan.size_bytes.tolist()
        for row in np.flatnonzero(~is_skipped[scan.batch_index]).tolist():
            counted = self._null if lengths[row] < 0 else self._row_of(text[ends[row] : ends[row + 1]])
            counted[0] += 1
            counted[1] += sizes[row]

    def _row_of(self, key: bytes) -> list[int]:
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) == self._limit:
                keys = list(self._rows)
                kept = self._dropped.choose_kept(*_columns(list(self._rows.values())))
                self._rows = {keys[index]: self._rows[keys[index]] for index in kept.tolist()}
            row = self._rows[key] = [0, 0, self._dropped.count_error, self._dropped.size_error_bytes]
        return row

    def result(self) -> KeyCounts:
        """See `KeyCounter`."""
        keys = pa.array(list(self._rows), pa.large_binary())
        return _result(keys, _columns(list(self._rows.values())), self._null, self._dropped)


class KernelKeyCounts:
    """By a kernel; imports Numba when it is made. Keeps about 60 bytes per key besides the key.

    Args:
        limit: Keys to hold at once.
    """

    def __init__(self, limit: int) -> None:
        from pipeline.codec.records import key_count_kernels  # noqa: PLC0415 - Numba takes longer than a small file

        self._kernels = key_count_kernels
        self._limit = limit
        self._rows = np.empty(_FIRST_ROOM, key_count_kernels.KEY_ROW)
        self._slots = np.zeros(2 * _FIRST_ROOM, np.int32)
        self._count = 0
        self._keys: list[pa.Array] = []
        self._errors: list[NDArray[np.int64]] = []  # (records, bytes) by key, in parts as the keys are
        self._totals = np.zeros(key_count_kernels.TOTAL_COUNT, np.int64)
        self._dropped = _Dropped()

    def add(self, scan: RecordScan, is_skipped: NDArray[np.bool_]) -> None:
        """See `KeyCounter`."""
        offsets, data = scan.key_columns()
        column = pa.Array.from_buffers(pa.large_binary(), len(scan), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        skipped, at = np.ascontiguousarray(is_skipped), 0
        while True:
            before, room = self._count, min(len(self._rows), self._limit)
            at, self._count = self._kernels.count_keys(
                scan.rows, at, skipped, offsets, data, self._slots, self._rows, before, room, self._totals
            )
            if self._count > before:
                self._keys.append(column.take(pa.array(self._rows["first_row"][before : self._count])))
                errors = [[self._dropped.count_error, self._dropped.size_error_bytes]]
                self._errors.append(np.repeat(np.array(errors, np.int64), self._count - before, axis=0))
            if at == len(scan):
                return
            if room == self._limit:
                self._drop()
            else:
                self._grow()

    def _grow(self) -> None:
        self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._slots = np.zeros(2 * len(self._rows), np.int32)
        self._kernels.fill_key_slots(self._rows, self._count, self._slots)

    def _drop(self) -> None:
        keys, columns = self._columns()
        kept = self._dropped.choose_kept(*columns)
        self._keys, self._errors = [keys.take(pa.array(kept))], [np.stack(columns[2:], axis=1)[kept]]
        self._count = len(kept)
        self._rows[: self._count] = self._rows[kept]
        self._slots[:] = 0
        self._kernels.fill_key_slots(self._rows, self._count, self._slots)

    def _columns(self) -> tuple[pa.Array, tuple[NDArray[np.int64], ...]]:
        rows = self._rows[: self._count]
        keys = pa.concat_arrays(self._keys) if self._keys else pa.array([], pa.large_binary())
        errors = np.concatenate(self._errors) if self._errors else np.zeros((0, 2), np.int64)
        counts = (np.array(rows["record_count"]), np.array(rows["size_bytes"]))
        return keys, (*counts, errors[:, 0], errors[:, 1])

    def result(self) -> KeyCounts:
        """See `KeyCounter`."""
        keys, columns = self._columns()
        return _result(keys, columns, self._totals.tolist(), self._dropped)


def _columns(rows: list[list[int]]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.array(rows, np.int64).reshape(-1, 4).T)


def _result(keys: pa.Array, columns: tuple[NDArray[np.int64], ...], null: list[int], dropped: _Dropped) -> KeyCounts:
    return KeyCounts(
        keys=keys,
        record_count=columns[0],
        size_bytes=columns[1],
        count_error=columns[2],
        size_error_bytes=columns[3],
        null_record_count=null[0],
        null_size_bytes=null[1],
        other_record_count=dropped.record_count,
        other_size_bytes=dropped.size_bytes,
        max_count_error=dropped.count_error,
        max_size_error_bytes=dropped.size_error_bytes,
    )
