"""The instant that decides a batch's window: its max timestamp, if a calendar holds it and its neighbours agree within a day, else theirs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.model.window import DAY_MS, LATEST_MS

TOLERANCE_MS = DAY_MS
NEIGHBOURS = 5
NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class EventTimes:
    event_time_ms: NDArray[np.int64]  # instant that decides the window; -1 where the whole segment has no timestamp
    is_outlier: NDArray[np.bool_]  # the batch's own max timestamp was not used
    lateness_ms: NDArray[np.int64]  # how far the event time lies behind the largest one before it; 0 in order


def assign_event_times(max_timestamp_ms: NDArray[np.int64], as_of_ms: int) -> EventTimes:
    """Event times of batches in append order; out of line is more than a day outside the medians of up to five on either side."""
    stamps = np.asarray(max_timestamp_ms, dtype=np.int64)
    if stamps.size == 0:
        return EventTimes(stamps, np.zeros(0, dtype=np.bool_), stamps)
    known = (stamps >= 0) & (stamps <= LATEST_MS)  # so that no difference overflows
    outlier = ~known
    outlier[known] = _out_of_line(stamps[known], as_of_ms)
    in_line = np.flatnonzero(~outlier)
    if in_line.size == 0:
        return EventTimes(np.full_like(stamps, NO_TIMESTAMP), outlier, np.zeros_like(stamps))
    before = np.searchsorted(in_line, np.arange(stamps.size), side="right") - 1
    event = stamps[in_line[np.maximum(before, 0)]]
    latest = np.maximum.accumulate(event)
    return EventTimes(event, outlier, latest - event)


def _out_of_line(stamps: NDArray[np.int64], as_of_ms: int) -> NDArray[np.bool_]:
    outside = stamps > as_of_ms + TOLERANCE_MS
    if stamps.size <= 1 or stamps.max() - stamps.min() <= TOLERANCE_MS:
        return outside
    padded = np.full(stamps.size + 2 * NEIGHBOURS, np.nan)
    padded[NEIGHBOURS:-NEIGHBOURS] = stamps
    views = np.lib.stride_tricks.sliding_window_view(padded, NEIGHBOURS)
    before, after = np.full(stamps.size, -np.inf), np.full(stamps.size, np.inf)
    before[1:] = np.nanmedian(views[1 : stamps.size], axis=1)
    after[:-1] = np.nanmedian(views[NEIGHBOURS + 1 : NEIGHBOURS + stamps.size], axis=1)
    low, high = np.minimum(before, after), np.maximum(before, after)
    out: NDArray[np.bool_] = outside | (stamps < low - TOLERANCE_MS) | (stamps > high + TOLERANCE_MS)
    return out
