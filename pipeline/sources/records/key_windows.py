"""What each key of a log got in each window, counted while its records are decoded.

Batches whose records cannot be read are counted by their header.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.scans import Flaw
from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.key_counts import KeyCounter, KeyCounts
from pipeline.sources.records.segment_scan import SENSELESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.codec.records.record_scan import RecordScan


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKeys:
    """What a segment gave a window.

    Attributes:
        window_start_ms: Start of the window.
        counts: Records and bytes by key.
        unreadable_record_count: Records of batches that cannot be read, as their headers have it.
        unreadable_size_bytes: Those batches, on disk.
    """

    window_start_ms: int
    counts: KeyCounts
    unreadable_record_count: int
    unreadable_size_bytes: int


class _Window:
    def __init__(self, counter: KeyCounter) -> None:
        self.counter = counter
        self.unreadable_record_count = self.unreadable_size_bytes = 0

    def add(self, scan: RecordScan, is_mine: NDArray[np.bool_]) -> None:
        rows = scan.headers.rows
        is_sound = rows["flaw"] == Flaw.NONE
        self.counter.add(scan, ~(is_mine & is_sound))
        unreadable = rows[is_mine & ~is_sound]
        # a broken wrapper of the legacy format does not say how many
        self.unreadable_record_count += int(np.maximum(unreadable["record_count"], 0).sum(dtype=np.int64))
        self.unreadable_size_bytes += int(unreadable["size_bytes"].sum(dtype=np.int64))

    def finish(self, window_start_ms: int) -> WindowKeys:
        return WindowKeys(
            window_start_ms=window_start_ms,
            counts=self.counter.result(),
            unreadable_record_count=self.unreadable_record_count,
            unreadable_size_bytes=self.unreadable_size_bytes,
        )


class KeyWindows:
    """Counts keys chunk after chunk; a window's keys are let go once its last batch is read.

    Args:
        starts: From `ScanSettings.choose_windows`, for exactly the batches of the chunks to come.
        limit: Keys held at once per window.
    """

    def __init__(self, starts: NDArray[np.int64], limit: int) -> None:
        self._starts, self._limit = starts, limit
        names, last_from_end = np.unique(starts[::-1], return_index=True)
        self._last_batch = dict(zip(names.tolist(), (len(starts) - 1 - last_from_end).tolist(), strict=True))
        self._windows: dict[int, _Window] = {}
        self._done = 0

    def add(self, scan: RecordScan) -> Iterator[WindowKeys]:
        """Counts a chunk, scanned with keys; yields the windows that are complete."""
        mine = self._starts[self._done : self._done + len(scan.headers)]
        is_countable = ~np.isin(scan.headers.rows["flaw"], SENSELESS)
        for start_ms in np.unique(mine[mine != NO_WINDOW]).tolist():
            if start_ms not in self._windows:
                self._windows[start_ms] = _Window(KeyCounter(self._limit))
            self._windows[start_ms].add(scan, is_countable & (mine == start_ms))
        self._done += len(scan.headers)
        for start_ms in [start_ms for start_ms in self._windows if self._last_batch[start_ms] < self._done]:
            yield self._windows.pop(start_ms).finish(start_ms)

    def finish(self) -> Iterator[WindowKeys]:
        """Yields the windows that are left: the file ended early."""
        for start_ms, window in self._windows.items():
            yield window.finish(start_ms)
