"""Distinct keys of records, numbered in the order they are met; records and bytes by key, and sums of a log.

A `KeyCounter` is exact while the keys fit its limit. Beyond it is Space-Saving (Metwally and others, 2005) in bulk (Agarwal
and others, 2012): the half with the least `record_count + count_error` is dropped, and the largest such sum among them becomes
the error of every key met from then on: the true count is between `record_count` and that plus `count_error`.
"""

import os
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.records.record_kernels import fill_slots, number_keys
from pipeline.codec.records.record_scan import RecordScan
from pipeline.model.log_tree import FrequentKey, RecordSummary

_MOST_KEYS = 2**31 - 2  # a slot holds an index plus one in 32 bits
_SECRET = np.frombuffer(os.urandom(32), np.uint64)  # of this process: no result depends on it


def take_keys(keys: pa.LargeBinaryArray, rows: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Takes some rows of a column; `pa.array` would import pandas, half a second."""
    return keys.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)]))


class KeyTable:
    """Numbers up to `limit` keys over many chunks; holds a hash of each (16 to 32 bytes per key), not the key."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._hashes = np.empty(0, np.uint64)
        self._slots = np.zeros(2, np.int32)

    def number(
        self, scan: RecordScan, key_lengths: NDArray[np.int32], start: int = 0
    ) -> tuple[NDArray[np.int32], pa.LargeBinaryArray]:
        """Numbers the keys of a chunk's records, from `start` on, until one is met for which there is no room.

        A length below 0 is no key. Gives the numbers, int32 of shape (records looked at,), -1 for no key; the new keys.
        """
        wanted = min(self.limit, self.count + len(scan) - start)
        if wanted > len(self._hashes):
            hashes = np.empty(min(self.limit, max(wanted, 2 * len(self._hashes))), np.uint64)
            hashes[: self.count] = self._hashes[: self.count]
            self._hashes = hashes
            self._fill()
        numbers, first_rows = np.empty(len(scan), np.int32), np.empty(len(scan) - start, np.int64)
        before = self.count
        lengths, tables = np.ascontiguousarray(key_lengths), (_SECRET, self._slots, self._hashes)
        end, self.count = number_keys(
            lengths, scan.key_offsets, scan.key_data, start, *tables, before, self.limit, first_rows, numbers
        )
        return numbers[start:end], take_keys(scan.keys, first_rows[: self.count - before])

    def keep(self, indexes: NDArray[np.int64]) -> None:
        """Forgets all keys but some, which are numbered anew in the order given."""
        self.count = len(indexes)
        self._hashes[: self.count] = self._hashes[indexes]
        self._fill()

    def _fill(self) -> None:
        self._slots = np.zeros(1 << (2 * len(self._hashes)).bit_length(), np.int32)
        fill_slots(self._hashes, self.count, self._slots)


TOP_KEY_COUNT = 10


class RecordTally:
    def __init__(self) -> None:
        self._keys = KeyCounter(_MOST_KEYS)
        self._tombstone_count = self._key_bytes = self._value_bytes = self._header_count = 0
        self._stamps: list[int] = []

    def add(self, scan: RecordScan) -> None:
        """Counts the records of a chunk; control records are left out."""
        counted = ~scan.is_control
        key_lengths, value_lengths = scan.key_length[counted], scan.value_length[counted]
        stamps = scan.timestamp_ms[counted & (scan.timestamp_ms >= 0)]
        self._keys.add(scan, scan.headers.is_control)
        self._tombstone_count += int(np.count_nonzero(value_lengths < 0))
        self._key_bytes += int(np.maximum(key_lengths, 0).sum(dtype=np.int64))
        self._value_bytes += int(np.maximum(value_lengths, 0).sum(dtype=np.int64))
        self._header_count += int(scan.header_count[counted].sum(dtype=np.int64))
        if len(stamps):
            extremes = [*self._stamps, int(stamps.min()), int(stamps.max())]
            self._stamps = [min(extremes), max(extremes)]

    def summary(self) -> RecordSummary:
        counted = self._keys.result()
        top: NDArray[np.int64] = np.argsort(-counted.record_count, kind="stable")[:TOP_KEY_COUNT]
        keys, counts = take_keys(counted.keys, top).to_pylist(), counted.record_count[top].tolist()
        frequent = (FrequentKey(key=key, record_count=count) for key, count in zip(keys, counts, strict=True))
        return RecordSummary(
            min_timestamp_ms=self._stamps[0] if self._stamps else None,
            max_timestamp_ms=self._stamps[1] if self._stamps else None,
            null_key_count=counted.null_record_count,
            distinct_key_count=len(counted.keys),
            tombstone_count=self._tombstone_count,
            key_bytes=self._key_bytes,
            value_bytes=self._value_bytes,
            header_count=self._header_count,
            top_keys=tuple(frequent),
        )


class KeyCounts(NamedTuple):
    keys: pa.Array  # their bytes, as large binary
    record_count: NDArray[np.int64]  # records since the key was met (again)
    size_bytes: NDArray[np.int64]  # bytes of those records, as encoded before compression; so are all bytes
    count_error: NDArray[np.int64]  # records it may have had before; 0 where exact
    size_error_bytes: NDArray[np.int64]
    null_record_count: int  # records with a null key
    null_size_bytes: int
    other_record_count: int  # records of keys that were dropped
    other_size_bytes: int
    max_count_error: int  # records that a key not among these may have
    max_size_error_bytes: int


class KeyCounter:
    """Counts the keys of chunks of records, at most `limit` at once; keeps about 60 bytes per key besides the key."""

    def __init__(self, limit: int) -> None:
        if limit < 2:
            raise ValueError(f"a limit of {limit} keys; expected at least 2")
        self._table = KeyTable(limit)
        self._keys = [pa.nulls(0, pa.large_binary())]
        self._sums = np.zeros((4, 0), np.int64)  # by key: records and bytes counted, and the errors of both
        self._null = [0, 0]  # records and bytes, as in the two below
        self._dropped = [0, 0]
        self._error = [0, 0]

    def add(self, scan: RecordScan, is_skipped: NDArray[np.bool_]) -> None:
        """Counts the records of a chunk, less those of batches that are skipped."""
        is_counted = ~is_skipped[scan.batch_index]
        is_null = is_counted & (scan.key_length < 0)
        self._null[0] += int(is_null.sum())
        self._null[1] += int(scan.size_bytes[is_null].sum(dtype=np.int64))
        lengths, at = np.where(is_counted, scan.key_length, np.int32(-1)), 0
        while True:
            numbers, new = self._table.number(scan, lengths, at)
            self._keys.append(new)
            begun = np.tile(np.array([[0], [0], *([error] for error in self._error)]), len(new))
            self._sums = np.concatenate([self._sums, begun], axis=1)
            is_keyed = numbers >= 0
            np.add.at(self._sums[0], numbers[is_keyed], 1)
            sizes = scan.size_bytes[at : at + len(numbers)][is_keyed].astype(np.int64)
            np.add.at(self._sums[1], numbers[is_keyed], sizes)
            at += len(numbers)
            if at == len(scan):
                return
            most = self._sums[:2] + self._sums[2:]
            order = np.argsort(-most[0], kind="stable")
            kept, dropped = np.sort(order[: len(order) // 2]), order[len(order) // 2 :]
            self._dropped = (self._sums[:2, dropped].sum(axis=1) + self._dropped).tolist()
            self._error = np.maximum(most[:, dropped].max(axis=1), self._error).tolist()
            self._keys = [take_keys(pa.concat_arrays(self._keys), kept)]
            self._sums = self._sums[:, kept]
            self._table.keep(kept)

    def result(self) -> KeyCounts:
        return KeyCounts(pa.concat_arrays(self._keys), *self._sums, *self._null, *self._dropped, *self._error)
