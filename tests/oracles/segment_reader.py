"""Reads a segment in plain Python, batch by batch and record by record: the oracle of the kernels.

Kafka's own walk (`FileLogInputStream.nextBatch`) reads 17 bytes, offset, length, ..., magic, and steps on by the length;
it ends at a batch that runs past the end of the file and throws on a length too small to be one. So does this one, and it
also stops at an unknown magic, where Kafka would take the bytes for magic 2.
"""

import struct
import zlib
from typing import NamedTuple

import google_crc32c
import numpy as np

from pipeline.codec.log.batch_headers import HEADER_ROW, Flaw
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.errors import InputError

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
LEGACY_HEADER = struct.Struct(">qiIbb")
LEAST_LENGTH = {0: 14, 1: 22, 2: 49}
LARGEST_LENGTH = 2**31 - 1 - 12
FLAW, RECORD_COUNT = HEADER_ROW.names.index("flaw"), HEADER_ROW.names.index("record_count")


class PlainScan(NamedTuple):
    """`HEADER_ROW`s and `RECORD_ROW`s as tuples, and the keys."""

    header_rows: list[tuple]
    record_rows: list[tuple]
    keys: list[bytes | None]


def read_plainly(data: bytes, *, check_crc: bool = True) -> PlainScan:
    """Reads all whole batches of a file."""
    headers, rows, keys = [], [], []
    position = 0
    while (size_bytes := measure_entry(data, position)) is not None:
        entry = data[position : position + size_bytes]
        header = read_batch_row(entry, position) if entry[16] == 2 else read_legacy_row(entry, position)
        covered = entry[21:] if entry[16] == 2 else entry[16:]
        crc = google_crc32c.value(covered) if entry[16] == 2 else zlib.crc32(covered)
        if check_crc and crc != header["crc"]:
            header |= {"crc_ok": False, "flaw": Flaw.CRC}
        if header["flaw"] == Flaw.NONE:
            try:
                records = read_entry_records(entry)
            except InputError:
                header["flaw"] = Flaw.PAYLOAD
            else:
                if header["record_count"] < 0:  # a compressed legacy message: what is in it
                    header |= {"base_offset": records[0].offset, "record_count": len(records)}
                    header["base_timestamp_ms"] = records[0].timestamp_ms
                    header["max_timestamp_ms"] = max(record.timestamp_ms for record in records)
                rows += [record_row(record, len(headers)) for record in records]
                keys += [record.key for record in records]
        headers.append(header)
        position += size_bytes
    made = np.array([tuple(header[name] for name in HEADER_ROW.names) for header in headers], HEADER_ROW)
    return PlainScan(made.tolist(), rows, keys)


def record_row(record, batch_index):
    lengths = (-1 if field is None else len(field) for field in (record.key, record.value))
    return (record.offset, record.timestamp_ms, *lengths, record.size_bytes, len(record.headers), batch_index)


def measure_entry(data, position):
    """Bytes of the entry at a position; None where there is none that can be read."""
    left = len(data) - position
    if left < 17:
        return None
    length = int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
    magic = data[position + 16]
    if magic not in LEAST_LENGTH or not LEAST_LENGTH[magic] <= length <= min(left - 12, LARGEST_LENGTH):
        return None
    return length + 12


def read_batch_row(entry, position):
    base_offset, length, epoch, magic, crc, attributes, delta, *others = BATCH_HEADER.unpack_from(entry)
    base_timestamp_ms, max_timestamp_ms, producer_id, producer_epoch, base_sequence, record_count = others
    room, codec = len(entry) - 61, attributes & 7
    if codec:
        room = min(256 << 20, max(16 << 20, room * 1100))
    flaw = Flaw.NONE
    if not 0 <= base_offset < 2**63 - 2**31 or delta < 0:
        flaw, delta = Flaw.OFFSETS, 0
    elif not 0 <= record_count <= min(delta + 1, room // 7):  # a record has seven bytes at least
        flaw = Flaw.RECORD_COUNT
    elif codec > 4:
        flaw = Flaw.CODEC
    return {
        "position": position, "size_bytes": length + 12, "magic": magic, "crc": crc, "crc_ok": True, "flaw": flaw,
        "base_offset": base_offset, "last_offset": base_offset + delta, "record_count": record_count,
        "base_timestamp_ms": base_timestamp_ms, "max_timestamp_ms": max_timestamp_ms, "attributes": attributes,
        "partition_leader_epoch": epoch,
        "producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": base_sequence,
    }  # fmt: skip  # fields of a batch, several a line


def read_legacy_row(entry, position):
    offset, length, crc, magic, attributes = LEGACY_HEADER.unpack_from(entry)
    timestamp_ms = struct.unpack_from(">q", entry, 18)[0] if magic == 1 else -1
    codec = attributes & 7
    return {
        **dict.fromkeys(("producer_id", "partition_leader_epoch", "base_sequence", "producer_epoch"), -1),
        **dict.fromkeys(("base_offset", "last_offset"), offset),
        **dict.fromkeys(("base_timestamp_ms", "max_timestamp_ms"), timestamp_ms),
        "position": position, "size_bytes": length + 12, "magic": magic, "crc": crc, "crc_ok": True,
        "record_count": -1 if codec else 1, "attributes": attributes,
        "flaw": Flaw.OFFSETS if offset < 0 else Flaw.CODEC if codec > 3 else Flaw.NONE,
    }  # fmt: skip  # fields of an entry, several a line
