"""The instant that decides a batch's window: its max timestamp, unless that is out of line with its neighbours.

Clients may set any timestamp. One below 0 or beyond the year 9999 counts as none. A batch whose max timestamp lies more than a day outside what the batches around it
say is placed by append order instead: it takes the instant of the last batch in line before it.
"""

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
    """Chooses each batch's event time.

    A timestamp is out of line when it lies more than 24 h below the smaller, or above the larger, of the medians of
    up to five batches on either side; the first batch of a segment may be arbitrarily old, the last one as young as
    `as_of_ms` plus 24 h, because an idle partition writes such.

    `max_timestamp_ms`: shape (batches,), in append order; -1 where a batch has none. `as_of_ms`: the run's now.

    >>> day = 86_400_000
    >>> times = assign_event_times(np.array([10, 20, 30 + 400 * day, 40, 15]), as_of_ms=day)
    >>> times.event_time_ms.tolist(), times.is_outlier.tolist(), times.lateness_ms.tolist()
    ([10, 20, 20, 40, 15], [False, False, True, False, False], [0, 0, 0, 0, 25])
    """
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
