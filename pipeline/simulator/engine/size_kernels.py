"""`record_size` and `compression_estimate` for kernels: the same bytes, the same single-precision estimates."""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types

from pipeline.compilation import kernel, part
from pipeline.simulator.engine.compression_estimate import ESTIMATION_FACTOR, RATIO_STEP_DOWN, RATIO_STEP_UP
from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES

Array = Any  # inside a kernel, an array's items are Numba's numbers
Ratio = Any  # inside a kernel, float32


@part
def measure_varint_bytes(value: int) -> int:
    """As `record_size.measure_varint_bytes`."""
    rest = value << 1
    size_bytes = 1
    while rest >= 128:
        rest >>= 7
        size_bytes += 1
    return size_bytes


@part
def measure_record_bytes(body_bytes: int, offset_delta: int, timestamp_delta_ms: int) -> int:
    """As `record_size.measure_record_bytes`."""
    long_bytes = measure_varint_bytes(offset_delta) + measure_varint_bytes(timestamp_delta_ms) - 2
    return measure_varint_bytes(body_bytes + long_bytes) + body_bytes + long_bytes


@part
def estimate_compressed_bytes(records_bytes: int, ratio: Ratio) -> int:
    """As `compression_estimate.estimate_compressed_bytes`."""
    scaled = nb.float32(nb.float32(records_bytes) * nb.float32(ratio))
    return BATCH_HEADER_BYTES + nb.int64(nb.float32(scaled * ESTIMATION_FACTOR))


@part
def update_ratio(ratio: Ratio, observed: Ratio) -> Ratio:
    """As `compression_estimate.update_ratio`."""
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
def measure_all(numbers: Array, ratios: Array, measured: Array) -> None:
    """Every function once per row, for tests.

    Args:
        numbers: A body's bytes, an offset delta, a timestamp delta: three columns.
        ratios: Assumed and observed.
        measured: Written: the timestamp delta's varint, the record, the estimate of so many bytes, the new ratio.
    """
    for row in range(len(numbers)):
        measured[row, 0] = measure_varint_bytes(numbers[row, 2])
        measured[row, 1] = measure_record_bytes(numbers[row, 0], numbers[row, 1], numbers[row, 2])
        measured[row, 2] = estimate_compressed_bytes(numbers[row, 0], ratios[row, 0])
        measured[row, 3] = update_ratio(ratios[row, 0], ratios[row, 1])
