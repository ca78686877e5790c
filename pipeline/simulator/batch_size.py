"""How many bytes a record adds to a batch of format v2, as the client counts while it fills one.

Sizes of keys and values are those of the serialized bytes, -1 for null. `batch_size_kernels` has the same functions.

References:
    Kafka `DefaultRecord.sizeInBytes`, `DefaultRecord.recordSizeUpperBound`, `DefaultRecordBatch.RECORD_BATCH_OVERHEAD`,
    `MemoryRecordsBuilder.estimatedBytesWritten`, `CompressionRatioEstimator.updateEstimation`.
"""

from __future__ import annotations

import numpy as np

BATCH_HEADER_BYTES = 61
MAX_RECORD_OVERHEAD_BYTES = 21
FIRST_RATIO = np.float32(1.0)
"""The compression ratio assumed for a topic and codec before a batch was compressed."""
ESTIMATION_FACTOR = np.float32(1.05)
RATIO_STEP_UP = np.float32(0.05)
RATIO_STEP_DOWN = np.float32(0.005)


def size_varint(value: int) -> int:
    """Bytes of a zig-zag varint or varlong.

    >>> [size_varint(value) for value in (-1, 0, 63, 64, -64, -65, 8191, 8192)]
    [1, 1, 1, 2, 1, 2, 2, 3]
    """
    return max(((value << 1 ^ value >> 63).bit_length() + 6) // 7, 1)


def size_payload(key_bytes: int, value_bytes: int, headers_bytes: int = 0) -> int:
    """Bytes of a record's key, value and headers with their lengths; -1 for a null key or value.

    Args:
        key_bytes: Of the serialized key.
        value_bytes: Of the serialized value.
        headers_bytes: Of all headers, lengths included, without their count, which is taken to be below 64.
    """
    lengths_bytes = size_varint(key_bytes) + size_varint(value_bytes) + 1
    return lengths_bytes + max(key_bytes, 0) + max(value_bytes, 0) + headers_bytes


def size_record(timestamp_delta_ms: int, offset_delta: int, payload_bytes: int) -> int:
    """Bytes of an encoded record.

    Args:
        timestamp_delta_ms: Its time minus that of the batch's first record.
        offset_delta: Its place in the batch, from 0.
        payload_bytes: From `size_payload`.

    >>> [size_record(0, 0, size_payload(-1, value_bytes)) for value_bytes in (100, 512, 1000)]
    [109, 521, 1009]
    """
    body_bytes = 1 + size_varint(timestamp_delta_ms) + size_varint(offset_delta) + payload_bytes
    return size_varint(body_bytes) + body_bytes


def bound_record(payload_bytes: int) -> int:
    """The most bytes a record takes with a batch of its own: what the client allocates and checks for."""
    return BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + payload_bytes


def estimate_batch(uncompressed_bytes: int, ratio: np.float32, *, is_compressed: bool) -> int:
    """A batch's bytes while it is being filled.

    Args:
        uncompressed_bytes: Of its records.
        ratio: The compression ratio assumed when the batch was begun.
        is_compressed: False for `compression.type=none`, where the bytes are exact.

    >>> estimate_batch(1000, FIRST_RATIO, is_compressed=True)
    1111
    """
    if not is_compressed:
        return BATCH_HEADER_BYTES + uncompressed_bytes
    return BATCH_HEADER_BYTES + int(np.float32(uncompressed_bytes) * ratio * ESTIMATION_FACTOR)


def update_ratio(ratio: np.float32, observed: np.float32) -> np.float32:
    """The ratio assumed after a batch of the same topic and codec was closed with the observed one."""
    if observed > ratio:
        return np.float32(max(ratio + RATIO_STEP_UP, observed))
    if observed < ratio:
        return np.float32(max(ratio - RATIO_STEP_DOWN, observed))
    return ratio
