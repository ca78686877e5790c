"""Which instant decides a batch's window. Oracle: tables worked out by hand, and a twin that sorts small lists."""

import random
import statistics

import numpy as np
import pytest

from pipeline.sources.records.event_time import NEIGHBOURS, NO_TIMESTAMP, TOLERANCE_MS, assign_event_times

HOUR_MS = 3_600_000
NOW_H = 1000


@pytest.mark.parametrize(
    ("stamps_h", "events_h", "outliers", "lateness_h"),
    [
        ([], [], [], []),
        ([1, 2, 3], [1, 2, 3], [], [0, 0, 0]),
        ([1, 3, 2, 3], [1, 3, 2, 3], [], [0, 0, 1, 0]),
        ([1, 2, 900, 4, 5], [1, 2, 2, 4, 5], [2], [0, 0, 0, 0, 0]),
        ([500, 501, 2, 503, 504], [500, 501, 501, 503, 504], [2], [0, 0, 0, 0, 0]),
        ([100, 101, 300, 301], [100, 101, 300, 301], [], [0, 0, 0, 0]),  # idle for a week in between
        ([1, 300, 301, 302], [1, 300, 301, 302], [], [0, 0, 0, 0]),  # a first batch may be old
        ([900, 300, 301, 302], [300, 300, 301, 302], [0], [0, 0, 0, 0]),  # but not younger than all that follow
        ([300, 301, 302, 900], [300, 301, 302, 900], [], [0, 0, 0, 0]),  # a last batch may be young
        ([300, 301, 302, NOW_H + 25], [300, 301, 302, 302], [3], [0, 0, 0, 0]),  # but no day in the future
        ([NOW_H + 24], [NOW_H + 24], [], [0]),
        ([NOW_H + 25], [NO_TIMESTAMP], [0], [0]),
        ([10, 10 + 24], [10, 34], [], [0, 0]),
        ([10, 11, 11 + 24, 12], [10, 11, 35, 12], [], [0, 0, 0, 23]),  # a day is within the tolerance
    ],
)
def test_by_hand(stamps_h, events_h, outliers, lateness_h):
    times = assign_event_times(np.array(stamps_h, dtype=np.int64) * HOUR_MS, NOW_H * HOUR_MS)
    assert times.event_time_ms.tolist() == [h if h == NO_TIMESTAMP else h * HOUR_MS for h in events_h]
    assert np.flatnonzero(times.is_outlier).tolist() == outliers
    assert times.lateness_ms.tolist() == [h * HOUR_MS for h in lateness_h]


@pytest.mark.parametrize(
    ("stamps", "events", "outliers"),
    [
        ([-1, -1], [-1, -1], [0, 1]),  # record format 0
        ([-1, 5, -1, 7], [5, 5, 5, 7], [0, 2]),  # a converted segment: by append order
        ([5, -1], [5, 5], [1]),
        ([5, 2**62, 6, 2**63 - 1, -(2**62), -(2**63)], [5, 5, 6, 6, 6, 6], [1, 3, 4, 5]),  # whatever a producer writes
    ],
)
def test_batches_without_a_timestamp_go_by_append_order(stamps, events, outliers):
    times = assign_event_times(np.array(stamps, dtype=np.int64), as_of_ms=100)
    assert (times.event_time_ms.tolist(), np.flatnonzero(times.is_outlier).tolist()) == (events, outliers)


def test_timestamps_beyond_all_calendars_do_not_hide_another_that_is_out_of_line():
    today_ms = 20_000 * 24 * HOUR_MS
    stamps = np.array([today_ms, today_ms + 1, 5000, today_ms + 2, today_ms + 3, 2**63 - 1, -(2**62)], np.int64)
    times = assign_event_times(stamps, as_of_ms=today_ms + HOUR_MS)
    assert np.flatnonzero(times.is_outlier).tolist() == [2, 5, 6]
    assert (times.event_time_ms - today_ms).tolist() == [0, 1, 1, 2, 3, 3, 3]


def out_of_line(stamps, as_of_ms):
    """The rule of `assign_event_times`' docstring, one batch at a time."""
    for i, stamp in enumerate(stamps):
        before, after = stamps[max(0, i - NEIGHBOURS) : i], stamps[i + 1 : i + 1 + NEIGHBOURS]
        sides = [statistics.median(before) if before else None, statistics.median(after) if after else None]
        low = min(side for side in sides if side is not None) if all(side is not None for side in sides) else None
        high = max(side for side in sides if side is not None) if low is not None else None
        if low is None and sides != [None, None]:  # one side only: the first may be old, the last may be young
            low, high = (None, sides[1]) if sides[0] is None else (sides[0], None)
        yield (
            stamp > as_of_ms + TOLERANCE_MS
            or (low is not None and stamp < low - TOLERANCE_MS)
            or (high is not None and stamp > high + TOLERANCE_MS)
        )


def test_as_a_twin_that_takes_one_batch_at_a_time():
    rng = random.Random(20261121)
    now_ms = 400 * HOUR_MS
    for _ in range(300):
        base = sorted(rng.randrange(300 * HOUR_MS) for _ in range(rng.randrange(1, 20)))
        stamps = [
            rng.randrange(500 * HOUR_MS) if rng.random() < 0.15 else b + rng.randrange(40) * HOUR_MS for b in base
        ]
        times = assign_event_times(np.array(stamps, dtype=np.int64), now_ms)
        assert times.is_outlier.tolist() == list(out_of_line(stamps, now_ms)), stamps
        in_line = [s for s, is_out in zip(stamps, times.is_outlier, strict=True) if not is_out]
        assert set(times.event_time_ms.tolist()) == (set(in_line) or {NO_TIMESTAMP})
        assert (times.lateness_ms >= 0).all()
