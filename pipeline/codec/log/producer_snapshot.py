"""Producer state snapshots (`<offset>.snapshot`): what a partition knew of its producers at an offset.

References:
    `ProducerStateManager.readSnapshot`, `ProducerSnapshot.json` (Kafka 4.1).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from pipeline.errors import InputError

SNAPSHOT_VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6


class ProducerState(NamedTuple):
    """One producer as a partition knows it.

    Attributes:
        producer_id: Id handed out by the cluster.
        producer_epoch: Its epoch.
        last_sequence: Sequence of the last record, -1 if none.
        last_offset: Offset of the last record, -1 if none.
        offset_delta: Records in the last batch less one.
        timestamp_ms: Max timestamp of the last batch.
        coordinator_epoch: Epoch of the transaction coordinator, -1 if none.
        current_txn_first_offset: First offset of the open transaction, None if there is none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int | None

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record of the last batch; wraps at 2^31-1 as Kafka's does."""
        if self.last_sequence < 0:
            return self.last_sequence
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + 2**31


def read_producer_snapshot(path: Path | str) -> tuple[ProducerState, ...]:
    """Producers in a `.snapshot` file, in file order.

    Args:
        path: The file.

    Returns:
        The producers.

    Raises:
        InputError: See `parse_producer_snapshot`.
        OSError: The file cannot be read.
    """
    return parse_producer_snapshot(Path(path).read_bytes(), path=path)


def parse_producer_snapshot(data: bytes, *, path: Path | str | None = None) -> tuple[ProducerState, ...]:
    """Producers in the bytes of a snapshot.

    Args:
        data: version i16 = 1, CRC-32C of everything after it, count i32, 46 bytes an entry.
        path: For error messages.

    Returns:
        The producers.

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
    if count < 0 or _HEADER.size + count * _ENTRY.size > len(data):
        reason = f"{count} producers do not fit into {len(data)} bytes"
        raise InputError(reason, path=path, position=_CRC_FROM, first_bytes=data[_CRC_FROM:])
    return tuple(_parse_entry(data, _HEADER.size + i * _ENTRY.size) for i in range(count))


def _parse_entry(data: bytes, position: int) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first = _ENTRY.unpack_from(
        data, position
    )
    return ProducerState(
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, None if first < 0 else first
    )
