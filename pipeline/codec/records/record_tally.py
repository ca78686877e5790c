"""Sums over the records of a log: keys, values, headers, and the most frequent keys; a chunk at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.records.key_table import KeyTable, take_keys
from pipeline.codec.records.record_scan import RecordScan
from pipeline.model.segment_summary import FrequentKey, RecordSummary

TOP_KEY_COUNT = 10


class RecordTally:
    """Adds up chunks of records; keeps about 30 bytes per distinct key besides the key."""

    def __init__(self) -> None:
        self._table = KeyTable()
        self._keys = [pa.nulls(0, pa.large_binary())]
        self._counts = np.zeros(0, np.int64)
        self._null_key_count = self._tombstone_count = 0
        self._key_bytes = self._value_bytes = self._header_count = 0
        self._stamps: list[int] = []

    def add(self, scan: RecordScan) -> None:
        """Counts the records of a chunk; control records are left out."""
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
        numbers, new = self._table.number(scan, np.where(counted, scan.key_length, np.int32(-1)))
        self._keys.append(new)
        self._counts = np.concatenate([self._counts, np.zeros(len(new), np.int64)])
        np.add.at(self._counts, numbers[numbers >= 0], 1)

    def summary(self) -> RecordSummary:
        """Returns the sums so far."""
        return RecordSummary(
            min_timestamp_ms=self._stamps[0] if self._stamps else None,
            max_timestamp_ms=self._stamps[1] if self._stamps else None,
            null_key_count=self._null_key_count,
            distinct_key_count=self._table.count,
            tombstone_count=self._tombstone_count,
            key_bytes=self._key_bytes,
            value_bytes=self._value_bytes,
            header_count=self._header_count,
            top_keys=tuple(self._top_keys()),
        )

    def _top_keys(self) -> list[FrequentKey]:
        """The most frequent keys; among equals those that were met first."""
        top: NDArray[np.int64] = np.argsort(-self._counts, kind="stable")[:TOP_KEY_COUNT]
        keys = take_keys(pa.concat_arrays(self._keys), top).to_pylist()
        return [
            FrequentKey(key=key, record_count=count)
            for key, count in zip(keys, self._counts[top].tolist(), strict=True)
        ]
