"""Sizes of records and batches (magic 2) as the client's accumulator counts them, and as it estimates compressed ones.

A record's *body* is measured with offset and timestamp deltas of one byte each: 1 attribute byte, the two deltas, the
key's and the value's length as varints (a null's is one byte) and their bytes, the count of headers and the headers.
Longer deltas add to it where the record is put into a batch.

How large a compressed batch will be is estimated in single precision, as in Java.

References: Kafka `DefaultRecord`, `DefaultRecordBatch`, `MemoryRecordsBuilder.estimatedBytesWritten`,
`CompressionRatioEstimator.updateEstimation`.
"""

import numpy as np

from pipeline.compilation import portable

BATCH_HEADER_BYTES = 61
MAX_RECORD_OVERHEAD_BYTES = 21
FIXED_BODY_BYTES = 3  # attributes and the two deltas at their shortest
_BOUND_BYTES = BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES - FIXED_BODY_BYTES
FIRST_RATIO = np.float32(1.0)  # the compression ratio assumed for a topic and codec before a batch was compressed
ESTIMATION_FACTOR = np.float32(1.05)
RATIO_STEP_UP = np.float32(0.05)
RATIO_STEP_DOWN = np.float32(0.005)


@portable
def measure_varint_bytes(value: int) -> int:
    """Bytes of a zig-zag varint of a number of at most 62 bits."""
    rest = value << 1 ^ value >> 63
    size_bytes = 1
    while rest >= 128:
        rest >>= 7
        size_bytes += 1
    return size_bytes


def measure_body_bytes(key_bytes: int, value_bytes: int, header_bytes: int = 1) -> int:
    """Bytes of a body with deltas of one byte; length -1 is no key or value, `header_bytes` includes their count."""
    return FIXED_BODY_BYTES + _measure_field_bytes(key_bytes) + _measure_field_bytes(value_bytes) + header_bytes


def _measure_field_bytes(length: int) -> int:
    return 1 if length < 0 else measure_varint_bytes(length) + length


@portable
def measure_record_bytes(body_bytes: int, offset_delta: int, timestamp_delta_ms: int) -> int:
    """Bytes of a record at its place in a batch."""
    long_bytes = measure_varint_bytes(offset_delta) + measure_varint_bytes(timestamp_delta_ms) - 2
    return measure_varint_bytes(body_bytes + long_bytes) + body_bytes + long_bytes


@portable
def estimate_batch_bytes(body_bytes: int) -> int:
    """An upper bound of a batch with this record alone: what the client allocates and checks sizes by."""
    return body_bytes + _BOUND_BYTES


@portable
def estimate_compressed_bytes(records_bytes: int, ratio: np.float32) -> int:
    """A compressed batch's bytes while it is being filled, header included, by the ratio assumed when it was begun."""
    return BATCH_HEADER_BYTES + int(np.float32(records_bytes) * ratio * ESTIMATION_FACTOR)


@portable
def update_ratio(ratio: np.float32, observed: np.float32) -> np.float32:
    """The ratio assumed after a batch of the same topic and codec was closed with the observed one."""
    if observed > ratio:
        return np.float32(max(ratio + RATIO_STEP_UP, observed))
    if observed < ratio:
        return np.float32(max(ratio - RATIO_STEP_DOWN, observed))
    return ratio
