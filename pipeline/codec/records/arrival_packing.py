"""Drives the kernels that pack arrivals; imports Numba."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipeline.codec.records.arrival_kernels import gather_groups, group_records, index_keys
from pipeline.codec.records.arrival_layout import GROUP_ROW
from pipeline.codec.records.arrivals import PackedArrivals
from pipeline.codec.records.key_ids import make_key_ids
from pipeline.codec.records.key_kernels import fill_slots
from pipeline.codec.records.key_numbers import MOST_KEYS, NULL_KEY, UnnamedKeys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan
    from pipeline.codec.records.arrivals import BatchTimes
    from pipeline.codec.records.key_ids import KeySecret
    from pipeline.codec.records.key_numbers import KeyNumbers

_FIRST_ROOM = 1 << 12
_DIGITS_OF_NUMBER, _DIGITS_OF_ID = 16, 32


class KernelPacker:
    """Packs by kernels.

    Args:
        keys: Numbers the keys.
    """

    def __init__(self, keys: KeyNumbers) -> None:
        self._keys = keys

    def pack(self, scan: RecordScan, times: BatchTimes) -> PackedArrivals:
        """See `arrivals.Packer`."""
        count = len(scan)
        most = count + len(scan.headers)  # pages that are not written to cost nothing
        groups, slots = np.empty(most, GROUP_ROW), np.zeros(_power_of_two(2 * most), np.int32)
        record_groups, at_ms, body_bytes = (
            np.empty(count, np.int32),
            np.empty(count, np.uint16),
            np.empty(count, np.int32),
        )
        found = group_records(
            *(scan.rows, scan.headers.rows, times.window_start_ms, times.event_time_ms),
            *(times.is_outlier, times.is_aborted, groups, slots, record_groups, at_ms, body_bytes),
        )
        groups = groups[:found].copy()
        is_keyed = bool((scan.key_length >= 0).any())
        numbers = self._keys.number(scan) if is_keyed else np.empty(0, np.int64)
        ends = np.concatenate([[0], np.cumsum(groups["record_count"])])
        packed_count = int(ends[-1])
        gathered = np.empty(packed_count if is_keyed else 0, np.int64)
        packed = PackedArrivals(
            groups=groups,
            at_ms=np.empty(packed_count, np.uint16),
            body_bytes=np.empty(packed_count, np.int32),
            key_number=gathered if is_keyed else None,
        )
        gather_groups(
            record_groups, at_ms, body_bytes, numbers, is_keyed, ends, packed.at_ms, packed.body_bytes, gathered
        )
        return packed


class KernelKeyNumbers:
    """By id; each distinct key is hashed with the secret once, as long as they do not become too many.

    Args:
        secret: Behind the ids.
        is_clear: Keys of the topic are stored in clear: their ids are others.
        first_room: How many there is room for in the beginning.
        most_keys: How many are held at once.
    """

    def __init__(
        self, secret: KeySecret, *, is_clear: bool, first_room: int = _FIRST_ROOM, most_keys: int = MOST_KEYS
    ) -> None:
        self._most_keys = most_keys
        self._secret = secret
        self._is_clear = is_clear
        self._forget(first_room)

    def _forget(self, room: int) -> None:
        self._count = 0
        self._hashes, self._numbers = np.empty(room, np.uint64), np.empty(room, np.int64)
        self._slots = np.zeros(2 * room, np.int32)

    def number(self, scan: RecordScan) -> NDArray[np.int64]:
        """See `KeyNumbers`."""
        offsets, data = scan.key_columns()
        column = pa.Array.from_buffers(pa.large_binary(), len(scan), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        indexes = np.empty(len(scan), np.int32)
        numbers = np.empty(len(scan), np.int64)
        at = 0
        while at < len(scan):
            before, room = self._count, len(self._hashes)
            first_rows = np.empty(room, np.int64)
            start, (at, self._count) = (
                at,
                index_keys(scan.rows, at, offsets, data, self._slots, self._hashes, first_rows, before, room, indexes),
            )
            if self._count > before:
                new = column.take(pa.array(first_rows[before : self._count]))
                self._numbers[before : self._count] = self._number_keys(new)
            found = indexes[start:at]
            numbers[start:at] = np.where(found < 0, NULL_KEY, self._numbers[found])
            if at < len(scan):
                self._make_room()
        return numbers

    def _number_keys(self, keys: pa.Array) -> NDArray[np.int64]:
        ids = make_key_ids(self._secret, keys, is_clear=self._is_clear)
        digits = np.frombuffer(ids.buffers()[2], np.uint8, len(ids) * _DIGITS_OF_ID).reshape(-1, _DIGITS_OF_ID)
        raw = bytes.fromhex(np.ascontiguousarray(digits[:, :_DIGITS_OF_NUMBER]).tobytes().decode("ascii"))
        return np.frombuffer(raw, ">i8").astype(np.int64)

    def _make_room(self) -> None:
        room = 2 * len(self._hashes)
        if room > self._most_keys:
            self._forget(len(self._hashes))
            return
        self._hashes, self._numbers = np.resize(self._hashes, room), np.resize(self._numbers, room)
        self._slots = np.zeros(2 * room, np.int32)
        fill_slots(self._hashes, self._count, self._slots)


def make_key_numbers(secret: KeySecret | None, *, is_clear: bool) -> KeyNumbers:
    """What numbers the keys of a topic.

    Args:
        secret: Behind the ids; None where none are stored.
        is_clear: Keys of the topic are stored in clear.
    """
    return UnnamedKeys() if secret is None else KernelKeyNumbers(secret, is_clear=is_clear)


def _power_of_two(least: int) -> int:
    return 1 << max(least - 1, 1).bit_length()
