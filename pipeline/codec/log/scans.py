"""What a scan of a segment returns: one row per batch, one row per record, and the problems met.

Rows are NumPy records, so that a kernel fills one array and a reader takes columns by name; each field is declared
once, below. Memory: 80 bytes per batch, 40 bytes per record.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.model.log import Problem

HEADER_ROW = np.dtype(
    [
        ("position", np.int64),  # byte position of the batch in the file
        ("base_offset", np.int64),  # offset of the first record (of the inner set, for a legacy wrapper)
        ("last_offset", np.int64),  # kept through compaction, so it may be above the last record that is left
        ("base_timestamp_ms", np.int64),  # as stored: first record's, or the delete horizon (attributes bit 6), or -1
        ("max_timestamp_ms", np.int64),
        ("producer_id", np.int64),
        ("size_bytes", np.int32),  # whole batch on disk, offset and length fields included
        ("partition_leader_epoch", np.int32),
        ("crc", np.uint32),
        ("base_sequence", np.int32),
        ("record_count", np.int32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
        ("magic", np.int8),
        ("crc_ok", np.bool_),  # True where the check was switched off
        ("flaw", np.uint8),  # a `Flaw`
    ],
    align=True,
)

RECORD_ROW = np.dtype(
    [
        ("offset", np.int64),
        ("timestamp_ms", np.int64),  # log append time where the batch says so; -1 in magic 0
        ("key_length", np.int32),  # -1: null key
        ("value_length", np.int32),  # -1: null value (tombstone)
        ("size_bytes", np.int32),  # as in the record set, its own length field included, after decompression
        ("header_count", np.int32),
        ("batch_index", np.int64),  # row of its batch in `RecordScan.headers`
    ],
    align=True,
)


class Flaw(IntEnum):
    """Why the records of a batch cannot be used (0: they can)."""

    NONE = 0
    CRC = 1
    RECORD_COUNT = 2
    OFFSETS = 3
    CODEC = 4
    PAYLOAD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderScan:
    """Every batch header of a file, or of the part of it that was asked for.

    Attributes:
        rows: One `HEADER_ROW` per batch in file order; a magic 0 or 1 message (or compressed wrapper) is one row.
            Columns are also properties of the same name.
        problems: What was wrong, in file order; at most `MAX_PROBLEMS`, the last one then counts the others.
        valid_bytes: Position where the usable part ends: the file's size (or the end asked for), the first byte of a
            preallocated tail of zeros, or the position of the entry where the scan had to stop.
        file_bytes: Size of the file when the scan began.
        trailing_zero_bytes: Length of a preallocated tail that holds zeros only.
    """

    rows: NDArray[np.void]
    problems: tuple[Problem, ...]
    valid_bytes: int
    file_bytes: int
    trailing_zero_bytes: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> NDArray[Any]:
        """Returns a stored field or a derived column (any property below) as an array of one value per batch."""
        derived = HEADER_ROW.names is not None and name not in HEADER_ROW.names
        column: NDArray[Any] = getattr(self, name) if derived else self.rows[name]
        return column

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Every column by name, stored and derived, as contiguous arrays."""
        return {name: np.ascontiguousarray(self.column(name)) for name in HEADER_COLUMNS}

    @property
    def position(self) -> NDArray[np.int64]:
        """Byte position of each batch."""
        return self.rows["position"]

    @property
    def size_bytes(self) -> NDArray[np.int32]:
        """Whole batch on disk."""
        return self.rows["size_bytes"]

    @property
    def base_offset(self) -> NDArray[np.int64]:
        """First offset."""
        return self.rows["base_offset"]

    @property
    def last_offset(self) -> NDArray[np.int64]:
        """Last offset, as the header has it."""
        return self.rows["last_offset"]

    @property
    def record_count(self) -> NDArray[np.int32]:
        """Records in the batch."""
        return self.rows["record_count"]

    @property
    def max_timestamp_ms(self) -> NDArray[np.int64]:
        """Largest timestamp; -1 for none."""
        return self.rows["max_timestamp_ms"]

    @property
    def crc_ok(self) -> NDArray[np.bool_]:
        """Whether the checksum matched."""
        return self.rows["crc_ok"]

    @property
    def codec(self) -> NDArray[np.int8]:
        """Compression codec, bits 0-2 of the attributes."""
        return (self.rows["attributes"] & 7).astype(np.int8)

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        """0 create time, 1 log append time (magic 0 has no timestamps and says 0)."""
        return self._flag(3, 1).astype(np.int8)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        """Bit 4, magic 2 only."""
        return self._flag(4, 2)

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Bit 5, magic 2 only: markers, whose offsets hold no data records."""
        return self._flag(5, 2)

    @property
    def has_delete_horizon(self) -> NDArray[np.bool_]:
        """Bit 6, magic 2 only: `base_timestamp_ms` holds the delete horizon."""
        return self._flag(6, 2)

    @property
    def min_timestamp_ms(self) -> NDArray[np.int64]:
        """Smallest timestamp that the header tells: the first record's; -1 where it tells none.

        Log append time: all records have the batch's max timestamp. A delete horizon hides the first timestamp, and a
        batch without records has none. Records of a batch may be out of order: only the deep scan knows the minimum.
        """
        base, largest = self.rows["base_timestamp_ms"], self.rows["max_timestamp_ms"]
        first = np.where(self.timestamp_type == 1, largest, np.minimum(base, largest))
        hidden = self.has_delete_horizon & (self.timestamp_type == 0)
        return np.where(hidden | (self.rows["record_count"] == 0), np.int64(-1), first)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Batches whose numbers can be trusted: checksum right and counts possible."""
        usable: NDArray[np.bool_] = self.rows["flaw"] == Flaw.NONE
        return usable

    def _flag(self, bit: int, min_magic: int) -> NDArray[np.bool_]:
        flag: NDArray[np.bool_] = ((self.rows["attributes"] >> bit) & 1 != 0) & (self.rows["magic"] >= min_magic)
        return flag


_DERIVED = ("codec", "timestamp_type", "is_transactional", "is_control", "has_delete_horizon", "min_timestamp_ms")
HEADER_COLUMNS: tuple[str, ...] = (*(HEADER_ROW.names or ()), *_DERIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordScan:
    """The records of a chunk of a file (or of all of it), values left out.

    Attributes:
        headers: The batches of this chunk; `rows["batch_index"]` points into its rows. Problems of both scans are here.
        rows: One `RECORD_ROW` per record, in file order. Records of batches with a flaw are left out.
        key_offsets: int64, one more than records: key `i` is `key_data[key_offsets[i]:key_offsets[i + 1]]`, as Arrow's
            large binary has it; a null key (`key_length` -1) is empty. None where keys were not asked for.
        key_data: uint8, all keys one after another.
    """

    headers: HeaderScan
    rows: NDArray[np.void]
    key_offsets: NDArray[np.int64] | None = None
    key_data: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def offset(self) -> NDArray[np.int64]:
        """Offsets."""
        return self.rows["offset"]

    @property
    def timestamp_ms(self) -> NDArray[np.int64]:
        """Timestamps; -1 for none."""
        return self.rows["timestamp_ms"]

    @property
    def key_length(self) -> NDArray[np.int32]:
        """Bytes of the key, -1 for null."""
        return self.rows["key_length"]

    @property
    def value_length(self) -> NDArray[np.int32]:
        """Bytes of the value, -1 for null."""
        return self.rows["value_length"]

    @property
    def size_bytes(self) -> NDArray[np.int32]:
        """Bytes of the record in the uncompressed record set."""
        return self.rows["size_bytes"]

    @property
    def header_count(self) -> NDArray[np.int32]:
        """Record headers."""
        return self.rows["header_count"]

    @property
    def batch_index(self) -> NDArray[np.int64]:
        """Row of the record's batch in `headers`."""
        return self.rows["batch_index"]

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Whether the record is a marker of a control batch, not data."""
        is_control: NDArray[np.bool_] = self.headers.is_control[self.batch_index]
        return is_control

    @property
    def key_is_null(self) -> NDArray[np.bool_]:
        """Null keys, which are not empty keys."""
        return self.key_length < 0

    def key_columns(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Where the keys lie, and their bytes.

        Raises:
            ValueError: The scan was made without keys.
        """
        if self.key_offsets is None or self.key_data is None:
            raise ValueError("scanned without keys: ask for want_keys=True")
        return self.key_offsets, self.key_data

    def key(self, index: int) -> bytes | None:
        """Returns one key; None for a null key.

        Raises:
            ValueError: The scan was made without keys.
        """
        offsets, data = self.key_columns()
        if self.rows["key_length"][index] < 0:
            return None
        return data[offsets[index] : offsets[index + 1]].tobytes()
