"""Binary layout of packed arrivals."""

import numpy as np
from numpy.typing import NDArray

NO_WINDOW = -1
MINUTE_MS = 60_000
TOLERANCE_MS = 10 * MINUTE_MS
"""A client gives a record up `delivery.timeout.ms` after `send()`, two minutes by default: five times that is out of line."""
ALL_EPOCHS = -1
"""In place of a transactional producer's epoch: clients of 4.0 and later raise it with every transaction."""
NAMES = ("window_start_ms", "minute_start_ms", "producer_id", "producer_epoch", "is_append_time")
"""What distinguishes groups."""
SUMS = ("unreadable_record_count", "aborted_record_count", "outlier_record_count", "late_record_count", "key_digest")
"""Of a group's records; the digest is as in `silver.arrivals`, but for the partition."""
GROUP_ROW = np.dtype([(name, np.int64) for name in (*NAMES, "record_count", *SUMS, "first_ms")])
"""`first_ms`: of its records, within the minute."""
FIXED_BODY_BYTES = 3  # attributes and the two deltas at their shortest


def measure_field_bytes(length: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.int64]:
    held = np.maximum(length, 0).astype(np.int64)
    return measure_varint_bytes(held) + held


def measure_varint_bytes(value: NDArray[np.int64]) -> NDArray[np.int64]:
    folded = (value << 1) ^ (value >> 63)
    size_bytes = np.ones(len(value), np.int64)
    for septets in range(1, 9):
        size_bytes += (folded >> (7 * septets)) != 0
    return size_bytes
