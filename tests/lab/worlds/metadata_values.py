"""Values of KRaft's metadata log, as a controller writes them, and batches of them."""

import struct
from collections.abc import Mapping, Sequence
from typing import Protocol

from pipeline.model.log import Record
from tests.batches import make_batch


class Led(Protocol):
    """A partition of which a controller tells."""

    topic_id: bytes
    number: int
    replicas: list[int]
    isr: list[int]
    adding: list[int]
    leader: int
    epoch: int


def _varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + _varint(value >> 7) if value > 0x7F else bytes([value])


def _text(value: str) -> bytes:
    return _varint(len(value) + 1) + value.encode()


def _numbers(values: Sequence[int]) -> bytes:
    return _varint(len(values) + 1) + b"".join(struct.pack(">i", one) for one in values)


def _tagged(fields: Mapping[int, bytes]) -> bytes:
    pairs = sorted(fields.items())
    return _varint(len(pairs)) + b"".join(_varint(tag) + _varint(len(data)) + data for tag, data in pairs)


NO_OP = b"\x01\x14\x00\x00"


def register(broker: int, disks: Sequence[bytes], *, fenced: bool) -> bytes:
    """A broker is registered with its log directories; each has a rack of its own."""
    head = struct.pack(">i?", broker, False) + bytes(16) + struct.pack(">q", 0) + b"\x01\x01"
    listed = {0: _varint(len(disks) + 1) + b"".join(disks)}
    return b"\x01\x00\x03" + head + _text(f"r{broker}") + bytes([fenced, 0]) + _tagged(listed)


def change_disks(broker: int, disks: Sequence[bytes]) -> bytes:
    """A registered broker has other log directories."""
    listed = {2: _varint(len(disks) + 1) + b"".join(disks)}
    return b"\x01\x11\x02" + struct.pack(">iq", broker, 0) + _tagged(listed)


def _of_broker(kind: int, broker: int) -> bytes:
    return bytes([1, kind, 0]) + struct.pack(">iq", broker, 0) + b"\0"


def unregister(broker: int) -> bytes:
    """A broker is out of the cluster."""
    return _of_broker(1, broker)


def fence(broker: int) -> bytes:
    """A broker does not serve."""
    return _of_broker(7, broker)


def unfence(broker: int) -> bytes:
    """It serves again."""
    return _of_broker(8, broker)


def topic(name: str, topic_id: bytes) -> bytes:
    """A topic is there."""
    return b"\x01\x02\x00" + _text(name) + topic_id + b"\0"


def remove_topic(topic_id: bytes) -> bytes:
    """A topic is gone."""
    return b"\x01\x09\x00" + topic_id + b"\0"


def config(name: str, key: str, value: str) -> bytes:
    """A topic's setting."""
    return b"\x01\x04\x00\x02" + _text(name) + _text(key) + _text(value) + b"\0"


def partition(log: Led) -> bytes:
    """A partition is there, with all that is known of it."""
    head = b"\x01\x03\x00" + struct.pack(">i", log.number) + log.topic_id
    arrays = _numbers(log.replicas) + _numbers(log.isr) + _numbers([]) + _numbers(log.adding)
    return head + arrays + struct.pack(">iii", log.leader, log.epoch, 0) + b"\0"


def change_partition(log: Led, *, leads: bool) -> bytes:
    """A partition has other replicas, and another leader."""
    fields = {0: _numbers(log.isr), 2: _numbers(log.replicas), 4: _numbers(log.adding)}
    fields |= {1: struct.pack(">i", log.leader)} if leads else {}
    return b"\x01\x05\x00" + struct.pack(">i", log.number) + log.topic_id + _tagged(fields)


def write_values(values: Sequence[bytes], offset: int, at_ms: int) -> bytes:
    """A batch of them."""
    numbered = enumerate(values, start=offset)
    return make_batch([Record(offset=n, timestamp_ms=at_ms, key=None, value=value) for n, value in numbered])


def write_snapshot(values: Sequence[bytes], last_ms: int, at_ms: int) -> bytes:
    """A snapshot's file: what it is of, and the values."""
    said = {"key": b"\0\0\0\3\0\0", "value": b"\0\0" + struct.pack(">q", last_ms) + b"\0"}
    header = make_batch([Record(offset=0, timestamp_ms=last_ms, **said)], attributes=0x20)
    return header + write_values(values, 1, at_ms)
