"""Zig-zag variable-length integers of record format v2, as Kafka writes them.

References:
    Kafka `org.apache.kafka.common.utils.ByteUtils.readVarint/readVarlong`; Protocol Buffers' sint32 and sint64.
"""

from __future__ import annotations

from pipeline.errors import InputError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Reads a signed 32-bit zig-zag varint; returns it and the position after it.

    Raises:
        InputError: More than 5 bytes, a value beyond 32 bits, or the data end inside it.

    >>> read_varint(bytes([0x01]), 0), read_varint(bytes([0xAC, 0x02]), 0)
    ((-1, 1), (150, 2))
    """
    raw, after = _read_unsigned(data, position, MAX_VARINT_BYTES)
    if raw >> 32:
        raise InputError("varint does not fit in 32 bits", position=position, first_bytes=bytes(data[position:after]))
    return (raw >> 1) ^ -(raw & 1), after


def read_varlong(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Reads a signed 64-bit zig-zag varlong of up to 10 bytes; else as `read_varint`."""
    raw, after = _read_unsigned(data, position, MAX_VARLONG_BYTES)
    if raw >> 64:
        raise InputError("varlong does not fit in 64 bits", position=position, first_bytes=bytes(data[position:after]))
    return (raw >> 1) ^ -(raw & 1), after


def _read_unsigned(data: bytes | memoryview, position: int, max_bytes: int) -> tuple[int, int]:
    raw = 0
    for index in range(max_bytes):
        if position + index >= len(data):
            raise InputError("data end inside a varint", position=position, first_bytes=bytes(data[position:]))
        byte = data[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return raw, position + index + 1
    first_bytes = bytes(data[position : position + max_bytes])
    raise InputError(f"varint longer than {max_bytes} bytes", position=position, first_bytes=first_bytes)
