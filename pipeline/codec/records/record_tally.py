"""Sums over the records of a log: keys, values, headers, and the most frequent keys; a chunk at a time.

Two tallies give equal sums: `PlainTally` counts keys in a dictionary, `KernelTally` in a table of hashes filled by a Numba
kernel, which keeps 24 to 40 bytes per distinct key and the bytes of the ten most frequent ones only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pipeline.model.segment_summary import RecordSummary, TopKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan

TOP_KEY_COUNT = 10
_FIRST_SLOT_COUNT = 1 << 12


class RecordTally(Protocol):
    """Adds up chunks of records."""

    def add(self, scan: RecordScan) -> None:
        """Counts the records of a chunk that was scanned with keys; control records are left out."""

    def summary(self) -> RecordSummary:
        """The sums so far."""


def make_tally(size_bytes: int, *, small_bytes: int, total: RecordTally | None = None) -> RecordTally:
    """The tally for logs of that size.

    Args:
        size_bytes: Size of all files that will be added.
        small_bytes: Below it the plain one serves: importing Numba would take longer.
        total: A tally that is to count what this one counts, too.
    """
    if size_bytes < small_bytes:
        return PlainTally(total)
    return KernelTally(total)


class PlainTally:
    """In plain Python and NumPy.

    Args:
        total: A tally that counts everything this one counts, too.
    """

    def __init__(self, total: RecordTally | None = None) -> None:
        self._total = total
        self._keys: Counter[bytes] = Counter()
        self._null_key_count = self._tombstone_count = 0
        self._key_bytes = self._value_bytes = self._header_count = 0
        self._stamps: list[int] = []

    def add(self, scan: RecordScan) -> None:
        """See `RecordTally`."""
        if self._total is not None:
            self._total.add(scan)
        counted = ~scan.is_control
        key_lengths, value_lengths = scan.key_length[counted], scan.value_length[counted]
        stamps = scan.timestamp_ms[counted & (scan.timestamp_ms >= 0)]
        self._null_key_count += int(np.count_nonzero(key_lengths < 0))
        self._tombstone_count += int(np.count_nonzero(value_lengths < 0))
        self._key_bytes += int(np.maximum(key_lengths, 0).sum(dtype=np.int64))
        self._value_bytes += int(np.maximum(value_lengths, 0).sum(dtype=np.int64))
        self._header_count += int(scan.header_count[counted].sum(dtype=np.int64))
        if len(stamps):
            extremes = [*self._stamps, int(stamps.min()), int(stamps.max())]
            self._stamps = [min(extremes), max(extremes)]
        with_key = np.flatnonzero(counted & ~scan.key_is_null)
        if len(with_key):
            offsets, data = scan.key_columns()
            every = data.tobytes()
            spans = zip(offsets[with_key].tolist(), offsets[with_key + 1].tolist(), strict=True)
            self._keys.update(every[start:end] for start, end in spans)

    def summary(self) -> RecordSummary:
        """See `RecordTally`."""
        return RecordSummary(
            min_timestamp_ms=self._stamps[0] if self._stamps else None,
            max_timestamp_ms=self._stamps[1] if self._stamps else None,
            null_key_count=self._null_key_count,
            distinct_key_count=len(self._keys),
            tombstone_count=self._tombstone_count,
            key_bytes=self._key_bytes,
            value_bytes=self._value_bytes,
            header_count=self._header_count,
            top_keys=tuple(TopKey(key=key, record_count=n) for key, n in self._keys.most_common(TOP_KEY_COUNT)),
        )


class KernelTally:
    """By a kernel; imports Numba when it is made.

    The bytes of a key are kept only while it is among the ten most frequent so far. That loses none: at the end of the
    last chunk that has a key its count is final, so if it is among the ten in the end, it is among the ten of that
    chunk's keys then, and never falls out after.

    Args:
        total: A tally that counts everything this one counts, too. Where it has a table as well, it is told each chunk's
            keys with their counts, instead of going through the records again.
    """

    def __init__(self, total: RecordTally | None = None) -> None:
        from pipeline.codec.records import key_kernels  # noqa: PLC0415 - Numba takes longer than a small file

        self._kernels = key_kernels
        self._total = total
        self._totals = np.zeros(key_kernels.TOTAL_COUNT, np.int64)
        self._totals[key_kernels.MIN_TIMESTAMP] = np.iinfo(np.int64).max
        self._totals[key_kernels.MAX_TIMESTAMP] = np.iinfo(np.int64).min
        self._slots = np.zeros(_FIRST_SLOT_COUNT, np.int32)
        self._hashes = np.zeros(0, np.uint64)
        self._counts = np.zeros(0, np.int64)
        self._last_rows = np.zeros(0, np.int64)
        self._key_count = 0
        self._row_count = 0
        self._top: dict[int, bytes] = {}

    def add(self, scan: RecordScan) -> None:
        """See `RecordTally`."""
        offsets, data = scan.key_columns()
        self._make_room(len(scan))
        totals_before = self._totals.copy()
        touched, counts_before = np.empty(len(scan), np.int32), np.empty(len(scan), np.int64)
        self._key_count, touched_count = self._kernels.tally_records(
            scan.rows,
            np.ascontiguousarray(scan.headers.is_control),
            offsets,
            data,
            self._totals,
            self._slots,
            self._hashes,
            self._counts,
            self._last_rows,
            self._key_count,
            self._row_count,
            touched,
            counts_before,
        )
        touched, counts_before = touched[:touched_count], counts_before[:touched_count]
        rows = self._last_rows[touched] - self._row_count
        self._keep_top_keys(touched, rows, offsets, data)
        self._row_count += len(scan)
        if isinstance(self._total, KernelTally):
            added = self._counts[touched] - counts_before
            self._total.add_keys(self._hashes[touched], added, rows, scan)
            self._total.add_totals(self._totals, totals_before)
        elif self._total is not None:
            self._total.add(scan)

    def add_keys(
        self, hashes: NDArray[np.uint64], added: NDArray[np.int64], rows: NDArray[np.int64], scan: RecordScan
    ) -> None:
        """Counts the keys of a chunk that another tally went through; `rows` say where their bytes are."""
        offsets, data = scan.key_columns()
        self._make_room(len(hashes))
        touched = np.empty(len(hashes), np.int32)
        self._key_count = self._kernels.merge_keys(
            hashes, added, self._slots, self._hashes, self._counts, self._key_count, touched
        )
        self._keep_top_keys(touched, rows, offsets, data)

    def add_totals(self, totals: NDArray[np.int64], before: NDArray[np.int64]) -> None:
        """Adds what another tally's sums grew by."""
        kernels = self._kernels
        low, high = kernels.MIN_TIMESTAMP, kernels.MAX_TIMESTAMP
        smallest, largest = min(self._totals[low], totals[low]), max(self._totals[high], totals[high])
        self._totals += totals - before
        self._totals[low], self._totals[high] = smallest, largest

    def summary(self) -> RecordSummary:
        """See `RecordTally`."""
        kernels, totals = self._kernels, self._totals.tolist()
        is_empty = totals[kernels.MIN_TIMESTAMP] > totals[kernels.MAX_TIMESTAMP]
        return RecordSummary(
            min_timestamp_ms=None if is_empty else totals[kernels.MIN_TIMESTAMP],
            max_timestamp_ms=None if is_empty else totals[kernels.MAX_TIMESTAMP],
            null_key_count=totals[kernels.NULL_KEYS],
            distinct_key_count=self._key_count,
            tombstone_count=totals[kernels.TOMBSTONES],
            key_bytes=totals[kernels.KEY_BYTES],
            value_bytes=totals[kernels.VALUE_BYTES],
            header_count=totals[kernels.HEADERS],
            top_keys=tuple(TopKey(key=key, record_count=int(self._counts[index])) for index, key in self._top.items()),
        )

    def _make_room(self, record_count: int) -> None:
        """Room for a new key in every record to come."""
        room = self._key_count + record_count
        if len(self._hashes) < room:
            room = max(room, 2 * len(self._hashes))
            self._hashes, self._counts, self._last_rows = (
                np.concatenate([column, np.zeros(room - len(column), column.dtype)])
                for column in (self._hashes, self._counts, self._last_rows)
            )
        slot_count = len(self._slots)
        while slot_count < 2 * (self._key_count + record_count):
            slot_count *= 2
        if slot_count > len(self._slots):
            self._slots = np.zeros(slot_count, np.int32)
            self._kernels.fill_slots(self._hashes, self._key_count, self._slots)

    def _keep_top_keys(
        self, touched: NDArray[np.int32], rows: NDArray[np.int64], offsets: NDArray[np.int64], data: NDArray[np.uint8]
    ) -> None:
        """Looks among the keys of a chunk, found at its `rows`, for new ones of the first ten."""
        counts = self._counts[touched]
        if len(touched) > TOP_KEY_COUNT:
            floor = np.partition(counts, -TOP_KEY_COUNT)[-TOP_KEY_COUNT]
            is_frequent = counts >= floor
            touched, rows = touched[is_frequent], rows[is_frequent]
        first = self._order(touched)
        keys = dict(self._top)
        for index, row in zip(touched[first].tolist(), rows[first].tolist(), strict=True):
            keys[index] = data[offsets[row] : offsets[row + 1]].tobytes()
        indexes = np.fromiter(keys, np.int64, len(keys))
        self._top = {index: keys[index] for index in indexes[self._order(indexes)].tolist()}

    def _order(self, indexes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Places of the first ten by count; among equals of those seen first, which have the lower index."""
        return np.lexsort((indexes, -self._counts[indexes]))[:TOP_KEY_COUNT]
