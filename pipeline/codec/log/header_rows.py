"""Reads the headers of batches whose positions are known into rows, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.codec.log.batch_format import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC_AT,
    MAX_BASE_OFFSET,
    MAX_CODEC,
    MAX_MAGIC,
    MIN_RECORD_BYTES,
)
from pipeline.codec.log.compression import MAX_OUTPUT_BYTES, MAX_OUTPUT_RATIO, UNBOUNDED_RATIO_BYTES
from pipeline.codec.log.scans import HEADER_ROW, Flaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("partition_leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_MESSAGE = np.dtype([("base_offset", ">i8"), ("length", ">i4"), ("crc", ">u4"), ("magic", "i1"), ("attributes", "i1")])
_TIMESTAMP_AT = 18  # in a message of magic 1


def read_rows(data: bytes, positions: NDArray[np.int64]) -> NDArray[np.void]:
    """Reads headers, checksums not looked at.

    Args:
        data: Bytes that hold whole batches.
        positions: Where each begins, int64, shape (batches,).

    Returns:
        `HEADER_ROW`s, shape (batches,), `crc_ok` set, with the flaws that the headers alone show. A compressed message of
        magic 0 or 1 has record count -1: its inner set is not opened.
    """
    rows = np.zeros(len(positions), HEADER_ROW)
    rows["position"], rows["crc_ok"] = positions, True
    is_batch = _take(data, positions + MAGIC_AT, np.dtype("i1")) == MAX_MAGIC
    if is_batch.all():
        _fill_batches(rows, data)
    else:  # a log of before 2017, or one that was upgraded since
        for mine, fill in ((np.flatnonzero(is_batch), _fill_batches), (np.flatnonzero(~is_batch), _fill_messages)):
            part = rows[mine]
            fill(part, data)
            rows[mine] = part
    return rows


def _take(data: bytes, positions: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Values of a type at any positions."""
    if not len(positions):
        return np.empty(0, dtype)
    spans = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), dtype.itemsize)
    values: NDArray[Any] = spans[positions].view(dtype)[:, 0]
    return values


def _fill_batches(rows: NDArray[np.void], data: bytes) -> None:
    """Fills the rows of batches of magic 2."""
    header = _take(data, rows["position"], _BATCH_HEADER)
    for name in set(_BATCH_HEADER.names or ()) & set(HEADER_ROW.names or ()):
        rows[name] = header[name]
    size_bytes = header["length"].astype(np.int64) + LOG_OVERHEAD_BYTES
    delta = header["last_offset_delta"].astype(np.int64)
    codec = header["attributes"] & 7
    has_offsets = (rows["base_offset"] >= 0) & (rows["base_offset"] <= MAX_BASE_OFFSET) & (delta >= 0)
    rows["size_bytes"] = size_bytes
    rows["last_offset"] = rows["base_offset"] + np.where(has_offsets, delta, 0)
    # Offsets are unique, so there are at most as many records as offsets; compaction only takes records away.
    room = size_bytes - BATCH_HEADER_BYTES
    unpacked = np.minimum(MAX_OUTPUT_BYTES, np.maximum(UNBOUNDED_RATIO_BYTES, room * MAX_OUTPUT_RATIO))
    most = np.minimum(delta + 1, np.where(codec == 0, room, unpacked) // MIN_RECORD_BYTES)
    rows["flaw"] = np.select(
        [~has_offsets, (rows["record_count"] < 0) | (rows["record_count"] > most), codec > MAX_CODEC[MAX_MAGIC]],
        [Flaw.OFFSETS, Flaw.RECORD_COUNT, Flaw.CODEC],
        Flaw.NONE,
    )


def _fill_messages(rows: NDArray[np.void], data: bytes) -> None:
    """Fills the rows of messages of magic 0 and 1."""
    message = _take(data, rows["position"], _MESSAGE)
    for name in ("base_offset", "crc", "magic", "attributes"):
        rows[name] = message[name]
    codec = message["attributes"] & 7
    has_time = message["magic"] == 1
    times = np.full(len(rows), -1, np.int64)
    times[has_time] = _take(data, rows["position"][has_time] + _TIMESTAMP_AT, np.dtype(">i8"))
    rows["last_offset"] = rows["base_offset"]
    rows["base_timestamp_ms"] = rows["max_timestamp_ms"] = times
    rows["size_bytes"] = message["length"] + LOG_OVERHEAD_BYTES
    rows["record_count"] = np.where(codec == 0, 1, -1)
    for name in ("producer_id", "partition_leader_epoch", "base_sequence", "producer_epoch"):
        rows[name] = -1
    rows["flaw"] = np.select([rows["base_offset"] < 0, codec > MAX_CODEC[0]], [Flaw.OFFSETS, Flaw.CODEC], Flaw.NONE)
