"""Kafka's flexible encodings (KIP-482): compact strings and arrays, uuids, tagged fields.

References:
    KIP-482; `ByteBufferAccessor`, `Uuid.toString` (Kafka 4.1).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import InputError

T = TypeVar("T")
_MAX_UNSIGNED_VARINT_BYTES = 5


def _integer(size: int, *, signed: bool = True) -> Callable[[FieldReader], int]:
    """A reader of so many bytes, the highest first."""
    return lambda reader: int.from_bytes(reader.read_bytes(size), "big", signed=signed)


class FieldReader:
    """Reads fields one after another from a message's bytes; `position` is the next byte to be read.

    Every `read_*` raises `InputError` with its position where the bytes end too early or a length is impossible.
    """

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.position = position
        self._data = data

    @property
    def remaining_bytes(self) -> int:
        return len(self._data) - self.position

    def read_bytes(self, size: int) -> bytes:
        if size > self.remaining_bytes:
            raise InputError(f"expected {size} bytes, {self.remaining_bytes} are left", position=self.position)
        start = self.position
        self.position += size
        return self._data[start : self.position]

    read_int8 = _integer(1)
    read_int16 = _integer(2)
    read_uint16 = _integer(2, signed=False)
    read_int32 = _integer(4)
    read_int64 = _integer(8)

    def read_boolean(self) -> bool:
        """Reads one byte; anything but 0 is true, as in Kafka."""
        return self.read_bytes(1) != b"\0"

    def read_uuid(self) -> str:
        """Sixteen bytes as Kafka prints a uuid: base64, URL alphabet, no padding."""
        return base64.urlsafe_b64encode(self.read_bytes(16)).decode("ascii").rstrip("=")

    def read_unsigned_varint(self) -> int:
        """Seven bits a byte, lowest first, at most five bytes."""
        value = 0
        start = self.position
        for shift in range(0, 7 * _MAX_UNSIGNED_VARINT_BYTES, 7):
            byte = self.read_bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise InputError("a varint of more than 5 bytes", position=start)

    def read_compact_nullable_string(self) -> str | None:
        """Length plus one as a varint (0: null), then UTF-8."""
        length = self.read_unsigned_varint() - 1
        if length < 0:
            return None
        start = self.position
        try:
            return self.read_bytes(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError("a string that is not UTF-8", position=start) from error

    def read_compact_string(self) -> str:
        """Reads a compact string; refuses null."""
        start = self.position
        value = self.read_compact_nullable_string()
        if value is None:
            raise InputError("a null string where one is needed", position=start)
        return value

    def read_compact_array(self, read_item: Callable[[], T]) -> list[T] | None:
        """Count plus one as a varint (0: null), then the items."""
        start = self.position
        count = self.read_unsigned_varint() - 1
        if count < 0:
            return None
        if count > self.remaining_bytes:
            raise InputError(f"an array of {count} items in {self.remaining_bytes} bytes", position=start)
        return [read_item() for _ in range(count)]

    def read_tagged_fields(self) -> dict[int, tuple[int, int]]:
        """Skips a section of tagged fields; returns start and size in bytes of each field, by tag."""
        fields = {}
        for _ in range(self.read_unsigned_varint()):
            tag = self.read_unsigned_varint()
            size = self.read_unsigned_varint()
            fields[tag] = (self.position, size)
            self.read_bytes(size)
        return fields
