"""Producer state snapshots (`<offset>.snapshot`): what a partition knew of its producers at an offset.

References:
    `ProducerStateManager.readSnapshot`, `ProducerSnapshot.json` (Kafka 4.1).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import google_crc32c

from pipeline.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

SNAPSHOT_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY_BYTES = struct.calcsize(">qhiqiqiq")
_CRC_FROM = 6


def check_producer_snapshot(data: bytes, *, path: Path | str | None = None) -> None:
    """Checks a snapshot: version i16 = 1, CRC-32C of everything after it, count i32, 46 bytes an entry.

    Raises:
        InputError: Too short, another version, a wrong CRC, a count that does not fit.
    """
    if len(data) < _HEADER.size:
        raise InputError(f"a snapshot of {len(data)} bytes, expected at least 10", path=path, position=0)
    version, crc, count = _HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise InputError(f"snapshot version {version}, expected 1", path=path, position=0, first_bytes=data)
    found = google_crc32c.value(data[_CRC_FROM:])
    if found != crc:
        reason = f"CRC-32C of the snapshot is {found}, expected {crc}"
        raise InputError(reason, path=path, position=2, first_bytes=data[2:])
    if count < 0 or _HEADER.size + count * _ENTRY_BYTES > len(data):
        reason = f"{count} producers do not fit into {len(data)} bytes"
        raise InputError(reason, path=path, position=_CRC_FROM, first_bytes=data[_CRC_FROM:])
