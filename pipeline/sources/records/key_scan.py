"""One segment file, scanned for keys: what each key got in each window.

The batches that count, and their windows, are those of `record_scan`; batches whose records cannot be read are counted by
their header.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.scans import Flaw
from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.key_counts import KeyCounter, KeyCounts, make_key_counter
from pipeline.errors import InputError
from pipeline.sources.records.record_scan import RecordScanSettings, find_records
from pipeline.sources.records.segment_scan import SENSELESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan
    from pipeline.sources.files.segment_plan import SegmentRead

_KERNELS = "pipeline.codec.records.key_count_kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScanSettings(RecordScanSettings):
    """What a scan for keys is told.

    Attributes:
        max_distinct_keys: Keys held at once per segment and window.
    """

    max_distinct_keys: int


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
        # a broken wrapper of the legacy format does not tell how many
        self.unreadable_record_count += int(np.maximum(unreadable["record_count"], 0).sum(dtype=np.int64))
        self.unreadable_size_bytes += int(unreadable["size_bytes"].sum(dtype=np.int64))

    def finish(self, window_start_ms: int) -> WindowKeys:
        return WindowKeys(
            window_start_ms=window_start_ms,
            counts=self.counter.result(),
            unreadable_record_count=self.unreadable_record_count,
            unreadable_size_bytes=self.unreadable_size_bytes,
        )


def iter_window_keys(read: SegmentRead, settings: KeyScanSettings) -> Iterator[WindowKeys]:
    """Counts the keys of a segment, window after window; a window's keys are let go once its last batch is read.

    A file that cannot be read gives none; `kafka_segment_summaries` tells why.

    Args:
        read: Which file.
        settings: Which windows, and how many keys to hold.
    """
    found = find_records(read, settings)
    if found is None:
        return
    starts = found.window_starts[found.first : found.end]
    try:
        yield from count_window_keys(found.iter_scans(), starts, settings.max_distinct_keys, is_small=found.is_small)
    except (InputError, OSError):  # gone since, as retention takes files
        return


def count_window_keys(
    chunks: Iterable[RecordScan], starts: NDArray[np.int64], limit: int, *, is_small: bool
) -> Iterator[WindowKeys]:
    """Counts the keys of scanned records, window after window.

    Args:
        chunks: Records, scanned with keys.
        starts: From `choose_windows`, for exactly the batches of the chunks.
        limit: Keys held at once per window.
        is_small: The records are few: importing Numba would take longer.
    """
    is_small = is_small and _KERNELS not in sys.modules
    names, last_from_end = np.unique(starts[::-1], return_index=True)
    last_batch = dict(zip(names.tolist(), (len(starts) - 1 - last_from_end).tolist(), strict=True))
    windows: dict[int, _Window] = {}
    done = 0
    for scan in chunks:
        mine = starts[done : done + len(scan.headers)]
        is_countable = ~np.isin(scan.headers.rows["flaw"], SENSELESS)
        for start_ms in np.unique(mine[mine != NO_WINDOW]).tolist():
            if start_ms not in windows:
                windows[start_ms] = _Window(make_key_counter(limit, is_small=is_small))
            windows[start_ms].add(scan, is_countable & (mine == start_ms))
        done += len(scan.headers)
        for start_ms in [start_ms for start_ms in windows if last_batch[start_ms] < done]:
            yield windows.pop(start_ms).finish(start_ms)
    for start_ms, window in windows.items():  # the file ended early
        yield window.finish(start_ms)
