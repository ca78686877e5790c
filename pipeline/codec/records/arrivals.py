"""Arrivals in a chunk of a log: when each record was created, how large it was and which key it had, by session and minute.

What a scan of records holds is packed: records of one producer session, minute and window lie side by side, in the
order of the log, in ten to fourteen bytes each. Chunks of one partition are packed one by one, so that no more than a chunk
is in memory; `calibration.arrival_rows` puts the chunks of all partitions in one order.

`pack_arrivals` is NumPy alone, for small files and as the oracle of `arrival_packing.KernelPacker`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pipeline.codec.log.scans import Flaw
from pipeline.codec.records.arrival_layout import (
    ALL_EPOCHS,
    FIXED_BODY_BYTES,
    GROUP_ROW,
    MINUTE_MS,
    NAMES,
    NO_WINDOW,
    TOLERANCE_MS,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.scans import HeaderScan, RecordScan
    from pipeline.codec.records.key_numbers import KeyNumbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchTimes:
    """What is known of the batches of a chunk besides their headers; an element per batch.

    Attributes:
        window_start_ms: Start of the window it counts in; `NO_WINDOW`: it does not count.
        event_time_ms: Instant that decides its window.
        is_outlier: Its own max timestamp is out of line.
        is_aborted: Its transaction was aborted.
    """

    window_start_ms: NDArray[np.int64]
    event_time_ms: NDArray[np.int64]
    is_outlier: NDArray[np.bool_]
    is_aborted: NDArray[np.bool_]

    def part(self, start: int, end: int) -> BatchTimes:
        """Some of the batches, one after another."""
        return BatchTimes(
            window_start_ms=self.window_start_ms[start:end],
            event_time_ms=self.event_time_ms[start:end],
            is_outlier=self.is_outlier[start:end],
            is_aborted=self.is_aborted[start:end],
        )

    def where(self, counts: NDArray[np.bool_]) -> BatchTimes:
        """The same, less batches that do not count."""
        return replace(self, window_start_ms=np.where(counts, self.window_start_ms, NO_WINDOW))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedArrivals:
    """Records by group; those of a group lie side by side.

    Attributes:
        groups: `GROUP_ROW`s.
        at_ms: uint16, milliseconds within the minute.
        body_bytes: int32, see `simulator.record_size.measure_body_bytes`.
        key_number: int64, from a `KeyNumbers`; None where all keys are null.
    """

    groups: NDArray[np.void]
    at_ms: NDArray[np.uint16]
    body_bytes: NDArray[np.int32]
    key_number: NDArray[np.int64] | None


class Packer(Protocol):
    """Packs chunks."""

    def pack(self, scan: RecordScan, times: BatchTimes) -> PackedArrivals:
        """Packs a chunk that was scanned with keys."""


class PlainPacker:
    """Packs by NumPy.

    Args:
        keys: Numbers the keys.
    """

    def __init__(self, keys: KeyNumbers) -> None:
        self._keys = keys

    def pack(self, scan: RecordScan, times: BatchTimes) -> PackedArrivals:
        """See `Packer`."""
        return pack_arrivals(scan, times, self._keys.number(scan))


def pack_arrivals(scan: RecordScan, times: BatchTimes, key_number: NDArray[np.int64]) -> PackedArrivals:
    """Packs a chunk.

    Args:
        scan: The chunk.
        times: Of its batches.
        key_number: By record.
    """
    is_mine = times.window_start_ms[scan.batch_index] != NO_WINDOW
    batch = scan.batch_index[is_mine]
    at_ms, is_outlier, is_late = place_records(scan.timestamp_ms[is_mine], batch, times)
    unreadable = np.flatnonzero((times.window_start_ms != NO_WINDOW) & (scan.headers.rows["flaw"] != Flaw.NONE))
    names = np.concatenate(
        [_name_groups(scan.headers, times, batch, at_ms), _unreadable_names(scan, times, unreadable)]
    )
    named, place = np.unique(names, axis=0, return_inverse=True)
    place = place.reshape(-1)
    groups = np.zeros(len(named), GROUP_ROW)
    for column, name in enumerate(NAMES):
        groups[name] = named[:, column]
    of_records, of_unreadable = place[: len(batch)], place[len(batch) :]
    # a broken wrapper of the legacy format does not tell how many
    unread = np.maximum(scan.headers.record_count[unreadable], 0)
    sums = {
        "record_count": np.ones(len(batch), np.int64),
        "aborted_record_count": times.is_aborted[batch],
        "outlier_record_count": is_outlier,
        "late_record_count": is_late,
    }
    for name, added in sums.items():
        np.add.at(groups[name], of_records, added)
    np.add.at(groups["unreadable_record_count"], of_unreadable, unread)
    in_minute_ms = at_ms % MINUTE_MS
    groups["first_ms"] = MINUTE_MS
    np.minimum.at(groups["first_ms"], of_records, in_minute_ms)
    order = np.argsort(of_records, kind="stable")
    numbers = key_number[is_mine][order]
    return PackedArrivals(
        groups=groups,
        at_ms=in_minute_ms[order].astype(np.uint16),
        body_bytes=measure_bodies(scan)[is_mine][order],
        key_number=numbers if numbers.any() else None,
    )


def place_records(
    timestamp_ms: NDArray[np.int64], batch: NDArray[np.int64], times: BatchTimes
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """When records were created, which of their own timestamps are out of line, and which lie before the one ahead.

    Args:
        timestamp_ms: By record, in the order of the log.
        batch: Its batch.
        times: Of the batches.
    """
    event_ms = times.event_time_ms[batch]
    is_outlier = times.is_outlier[batch] | (timestamp_ms < np.maximum(event_ms - TOLERANCE_MS, 0))
    is_outlier |= timestamp_ms > event_ms
    rows = np.arange(len(batch))
    ahead = np.maximum.accumulate(np.where(is_outlier, -1, rows)) if len(rows) else rows
    is_known = (ahead >= 0) & (batch[ahead] == batch)
    at_ms = np.where(is_known, timestamp_ms[ahead], event_ms)
    is_late = np.zeros(len(batch), np.bool_)
    is_late[1:] = ~is_outlier[1:] & is_known[:-1] & (batch[1:] == batch[:-1]) & (at_ms[1:] < at_ms[:-1])
    return at_ms, is_outlier, is_late


def measure_bodies(scan: RecordScan) -> NDArray[np.int32]:
    """Bytes of each record's body with deltas of one byte, whatever format it is stored in.

    With log append time the raw timestamp delta is not known; of records with headers it is taken as one byte.
    """
    body_bytes = FIXED_BODY_BYTES + measure_field_bytes(scan.key_length) + measure_field_bytes(scan.value_length) + 1
    rest = np.flatnonzero(scan.header_count > 0)
    if len(rest):
        headers, batch, size_bytes = scan.headers, scan.batch_index[rest], scan.size_bytes[rest]
        length_bytes = 1 + sum((size_bytes > (1 << (7 * n - 1)) - 1 + n).astype(np.int64) for n in range(1, 5))
        since_base_ms = scan.timestamp_ms[rest] - headers.rows["base_timestamp_ms"][batch]
        since_base_ms[headers.timestamp_type[batch] == 1] = 0
        long_bytes = _varint_bytes(scan.offset[rest] - headers.base_offset[batch]) + _varint_bytes(since_base_ms) - 2
        body_bytes[rest] = size_bytes - length_bytes - long_bytes
    return body_bytes.astype(np.int32)


def measure_field_bytes(length: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of a key or a value with its length as a varint; a negative length is null."""
    held = np.maximum(length, 0).astype(np.int64)
    return _varint_bytes(held) + held


def _varint_bytes(value: NDArray[np.int64]) -> NDArray[np.int64]:
    folded = (value << 1) ^ (value >> 63)
    size_bytes = np.ones(len(value), np.int64)
    for septets in range(1, 9):
        size_bytes += (folded >> (7 * septets)) != 0
    return size_bytes


def _name_groups(
    headers: HeaderScan, times: BatchTimes, batch: NDArray[np.int64], at_ms: NDArray[np.int64]
) -> NDArray[np.int64]:
    rows = headers.rows
    epoch = np.where(headers.is_transactional, ALL_EPOCHS, rows["producer_epoch"])
    columns = (times.window_start_ms, rows["producer_id"], epoch, headers.timestamp_type)
    window, producer, epochs, kind = (column[batch] for column in columns)
    return np.stack([window, at_ms - at_ms % MINUTE_MS, producer, epochs, kind], axis=1).astype(np.int64)


def _unreadable_names(scan: RecordScan, times: BatchTimes, unreadable: NDArray[np.int64]) -> NDArray[np.int64]:
    return _name_groups(scan.headers, times, unreadable, times.event_time_ms[unreadable])
