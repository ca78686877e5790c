"""What packed arrivals look like: shared by kernels and plain Python."""

from __future__ import annotations

import numpy as np

NO_WINDOW = -1
MINUTE_MS = 60_000
TOLERANCE_MS = 10 * MINUTE_MS
"""A client gives a record up `delivery.timeout.ms` after `send()`, two minutes by default: five times that is out of line."""
ALL_EPOCHS = -1
"""In place of a transactional producer's epoch: clients of 4.0 and later raise it with every transaction."""
GROUP_ROW = np.dtype(
    [
        ("window_start_ms", np.int64),
        ("minute_start_ms", np.int64),
        ("producer_id", np.int64),
        ("producer_epoch", np.int64),
        ("is_append_time", np.int64),
        ("record_count", np.int64),
        ("unreadable_record_count", np.int64),
        ("aborted_record_count", np.int64),
        ("outlier_record_count", np.int64),
        ("late_record_count", np.int64),
        ("first_ms", np.int64),  # of its records, within the minute
    ]
)
NAMES = ("window_start_ms", "minute_start_ms", "producer_id", "producer_epoch", "is_append_time")
"""What tells groups apart."""
COUNTS = ("unreadable_record_count", "aborted_record_count", "outlier_record_count", "late_record_count")
FIXED_BODY_BYTES = 3  # attributes and the two deltas at their shortest
