"""`batch_size` for kernels: the same bytes, the same single-precision estimates."""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import kernel, part
from pipeline.simulator.batch_size import (
    BATCH_HEADER_BYTES,
    ESTIMATION_FACTOR,
    MAX_RECORD_OVERHEAD_BYTES,
    RATIO_STEP_DOWN,
    RATIO_STEP_UP,
)

Array = Any  # inside a kernel, an array's items are Numba's numbers
Ratio = Any  # inside a kernel, float32


@part
def size_varint(value: int) -> int:
    """As `batch_size.size_varint`."""
    rest = nb.int64(value << 1 ^ value >> 63)
    size_bytes = 1
    while rest >= 128:
        rest >>= 7
        size_bytes += 1
    return size_bytes


@part
def size_payload(key_bytes: int, value_bytes: int, headers_bytes: int) -> int:
    """As `batch_size.size_payload`."""
    lengths_bytes = size_varint(key_bytes) + size_varint(value_bytes) + 1
    return lengths_bytes + max(key_bytes, 0) + max(value_bytes, 0) + headers_bytes


@part
def size_record(timestamp_delta_ms: int, offset_delta: int, payload_bytes: int) -> int:
    """As `batch_size.size_record`."""
    body_bytes = 1 + size_varint(timestamp_delta_ms) + size_varint(offset_delta) + payload_bytes
    return size_varint(body_bytes) + body_bytes


@part
def bound_record(payload_bytes: int) -> int:
    """As `batch_size.bound_record`."""
    return BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + payload_bytes


@part
def estimate_batch(uncompressed_bytes: int, ratio: Ratio, is_compressed: bool) -> int:  # noqa: FBT001 - a kernel's parameter
    """As `batch_size.estimate_batch`."""
    if not is_compressed:
        return BATCH_HEADER_BYTES + uncompressed_bytes
    scaled = nb.float32(nb.float32(uncompressed_bytes) * nb.float32(ratio))
    return BATCH_HEADER_BYTES + nb.int64(nb.float32(scaled * ESTIMATION_FACTOR))


@part
def update_ratio(ratio: Ratio, observed: Ratio) -> Ratio:
    """As `batch_size.update_ratio`."""
    if observed > ratio:
        return max(nb.float32(ratio + RATIO_STEP_UP), observed)
    if observed < ratio:
        return max(nb.float32(ratio - RATIO_STEP_DOWN), observed)
    return ratio


@kernel(
    types.void(
        types.Array(types.int64, 2, "C", readonly=True),
        types.Array(types.float32, 2, "C", readonly=True),
        types.float64[:, ::1],
    )
)
def size_all(numbers: Array, ratios: Array, sizes: Array) -> None:
    """Every function once per row, for tests.

    Args:
        numbers: Key, value and headers in bytes, timestamp delta, offset delta: five columns.
        ratios: Assumed and observed.
        sizes: Written: varint of the timestamp delta, payload, record, bound, estimate, ratio.
    """
    for row in range(len(numbers)):
        payload_bytes = size_payload(numbers[row, 0], numbers[row, 1], numbers[row, 2])
        sizes[row, 0] = size_varint(numbers[row, 3])
        sizes[row, 1] = payload_bytes
        sizes[row, 2] = size_record(numbers[row, 3], numbers[row, 4], payload_bytes)
        sizes[row, 3] = bound_record(payload_bytes)
        sizes[row, 4] = estimate_batch(numbers[row, 1], ratios[row, 0], True)  # noqa: FBT003
        sizes[row, 5] = update_ratio(ratios[row, 0], ratios[row, 1])
