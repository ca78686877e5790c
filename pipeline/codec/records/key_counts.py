"""Records and bytes per key of a log: exact while the keys fit a limit, with a stated bound beyond it.

Beyond the limit it is Space-Saving in bulk. Whenever a key comes for which there is no room, the half of the keys with
the least `record_count + count_error` is dropped, and the largest such sum among them becomes the error of every key
met from then on: so often may it have come before. A key that is kept has been counted exactly since it was met, and
what was dropped is summed up, so that all sums stay exact:

* the true count is between `record_count` and `record_count + count_error`;
* a key that is not among them came at most `max_count_error` times, which is at most records / (limit / 2).

The result depends on the records and their order, not on the chunks they come in.

References: Metwally, Agrawal, El Abbadi, Efficient Computation of Frequent and Top-k Elements in Data Streams, 2005
(Space-Saving); dropping half at once follows Agarwal et al., Mergeable Summaries, 2012.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.records.key_table import KeyTable, take_keys
from pipeline.codec.records.record_scan import RecordScan


class KeyCounts(NamedTuple):
    """Counts by key; arrays have one element per key, in the order the keys were met."""

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
