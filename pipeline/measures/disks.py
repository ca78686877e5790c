"""Disks: how long until one is full, and what retention has left behind.

The trend is the median of the slopes between all pairs (Theil 1950, Sen 1968), which one retention run does not turn.
"""

from collections.abc import Sequence

import numpy as np

from pipeline.model.window import HOUR_MS, MINUTE_MS

FULL_RATIO = 0.999  # of a disk, from which on nothing is appended for long, however it came to that
LEAST_POINTS = 3
LEAST_HOURS = 1.0
MOST_AHEAD = 24.0
"""How far ahead a trend is followed, as a multiple of the time it was observed for: two minutes of it say nothing of a day."""
MOST_AHEAD_OF_RUSH = 6.0
"""The same of its newest part, an hour or more in which each point is higher than the one before, and than all before the hour."""
LEAST_RATIO_OF_RUSH = 0.75  # of the disk: a replica that is moved to an emptier one is no alarm
LEAST_HOURS_OF_CALM = 2.0
"""Of a disk that does not grow, or is full beyond what can be seen ahead: 24 times as long are the rule's limit of 48 h."""
NO_END_HOURS = 87_600.0  # ten years: how the measure says it of such a disk
RETENTION_CHECK_MS = 5 * MINUTE_MS
"""`log.retention.check.interval.ms` by default: so long a segment may outlive its retention with nothing wrong."""
FILE_DELETE_DELAY_MS = MINUTE_MS


def hours_to_full(at_ms: Sequence[int], used_bytes: Sequence[int], disk_bytes: int) -> float | None:
    """Hours until the disk is full at this pace; `NO_END_HOURS`: no end is in sight; None: too little is known."""
    if used_bytes[-1] >= FULL_RATIO * disk_bytes:
        return 0.0
    span = (at_ms[-1] - at_ms[0]) / HOUR_MS
    if len(at_ms) < LEAST_POINTS or span < LEAST_HOURS:
        return None
    hours, used = np.asarray(at_ms, np.float64) / HOUR_MS, np.asarray(used_bytes, np.float64)
    one, other = np.triu_indices(len(hours), 1)
    slope = float(np.median((used[other] - used[one]) / (hours[other] - hours[one])))
    left = (disk_bytes - float(used[-1])) / slope if slope > 0 else NO_END_HOURS
    start = min(len(hours) - LEAST_POINTS, int(np.searchsorted(hours, hours[-1] - LEAST_HOURS, side="right")) - 1)
    rush = float(np.min(np.diff(used[start:]) / np.diff(hours[start:])))
    if rush > 0 and used[-1] >= LEAST_RATIO_OF_RUSH * disk_bytes and used[start + 1] > used[: start + 1].max():
        rushed = (disk_bytes - float(used[-1])) / rush
        left = min(left, rushed) if rushed <= MOST_AHEAD_OF_RUSH * (hours[-1] - hours[start]) else left
    if left <= MOST_AHEAD * span:
        return float(left)
    return NO_END_HOURS if span >= LEAST_HOURS_OF_CALM else None


def is_past_retention(deletable_at_ms: float | None, seen_at_ms: int) -> bool:
    """Whether a closed segment is kept past its retention (None: active or compacted) and the brokers' own delays."""
    delays_ms = RETENTION_CHECK_MS + FILE_DELETE_DELAY_MS
    return deletable_at_ms is not None and seen_at_ms > deletable_at_ms + delays_ms
