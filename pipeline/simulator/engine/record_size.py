"""Sizes of records and batches (magic 2) as the client's accumulator counts them.

A record's *body* is measured with offset and timestamp deltas of one byte each: 1 attribute byte, the two deltas, the
key's and the value's length as varints (a null's is one byte) and their bytes, the count of headers and the headers.
Longer deltas add to it where the record is put into a batch.

References:
    Kafka `common/record/DefaultRecord.java`, `DefaultRecordBatch.java`, `MemoryRecordsBuilder.java`.
"""

from __future__ import annotations

BATCH_HEADER_BYTES = 61
MAX_RECORD_OVERHEAD_BYTES = 21
FIXED_BODY_BYTES = 3
"""Attributes and the two deltas at their shortest."""


def measure_varint_bytes(value: int) -> int:
    """Bytes of a zig-zag varint of a number of at most 63 bits.

    >>> [measure_varint_bytes(value) for value in (0, 63, 64, 8191, 8192, 1_048_576, -64, -65)]
    [1, 1, 2, 2, 3, 4, 1, 2]
    """
    return max((value << 1 ^ value >> 63).bit_length() + 6, 7) // 7


def measure_body_bytes(key_bytes: int, value_bytes: int, header_bytes: int = 1) -> int:
    """Bytes of a record's body with deltas of one byte.

    Args:
        key_bytes: Length of the key, or -1 for none.
        value_bytes: Length of the value, or -1 for none.
        header_bytes: The count of headers as a varint, and the headers; 1 is no header.
    """
    return FIXED_BODY_BYTES + _measure_field_bytes(key_bytes) + _measure_field_bytes(value_bytes) + header_bytes


def _measure_field_bytes(length: int) -> int:
    return 1 if length < 0 else measure_varint_bytes(length) + length


def measure_record_bytes(body_bytes: int, offset_delta: int, timestamp_delta_ms: int) -> int:
    """Bytes of a record at its place in a batch.

    >>> [measure_record_bytes(measure_body_bytes(-1, value), 0, 0) for value in (100, 512, 1000)]
    [109, 521, 1009]
    """
    long_bytes = measure_varint_bytes(offset_delta) + measure_varint_bytes(timestamp_delta_ms) - 2
    return measure_varint_bytes(body_bytes + long_bytes) + body_bytes + long_bytes


def estimate_batch_bytes(body_bytes: int) -> int:
    """An upper bound of a batch with this record alone: what the client allocates and checks sizes by.

    >>> estimate_batch_bytes(measure_body_bytes(-1, 512))
    598
    """
    return BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES + body_bytes - FIXED_BODY_BYTES
