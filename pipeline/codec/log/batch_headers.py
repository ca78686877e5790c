"""Headers of record batches: sizes and limits of magic 0 to 2 (`DefaultRecordBatch`, `LegacyRecord`), and a scan."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.model.log import Codec, Problem
from pipeline.model.log_tree import HeaderSums

LOG_OVERHEAD_BYTES = 12  # offset and length, in front of every entry
MAGIC_AT = 16
BATCH_HEADER_BYTES = 61
MAX_MAGIC = 2
MIN_LENGTH = (14, 22, BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES)  # value of the length field, by magic
MIN_RECORD_BYTES = 7  # length, attributes, two deltas, key length, value length, header count
MAX_LENGTH = 2**31 - 1 - LOG_OVERHEAD_BYTES
MOST_LENGTH = 256 << 20  # of a batch that is read: `max.message.bytes` is 1 MiB where nobody sets it
MAX_BASE_OFFSET = 2**63 - 2**31 - 1
MAX_CODEC = (3, 3, 4)  # by magic; zstd came with magic 2
HEADER_FIELDS = (  # in front of a batch's records, in order
    *("base_offset", "length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta"),
    *("base_timestamp_ms", "max_timestamp_ms", "producer_id", "producer_epoch", "base_sequence", "record_count"),
)
HEADER_CODES = "qiibIhiqqqhii"  # of `struct` and NumPy, by field; the highest byte first


class Stop(IntEnum):
    END = 0
    BEYOND_FILE = 1  # the entry runs past the end of the file: torn tail, or a wrong length
    BAD_LENGTH = 2  # negative, or too small for its magic
    BAD_MAGIC = 3
    ZERO_LENGTH = 4  # a preallocated tail, or damage
    BEYOND_CHUNK = 5  # the entry runs past the bytes at hand, not past the file


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


class Flaw(IntEnum):
    NONE, CRC, RECORD_COUNT, OFFSETS, CODEC, PAYLOAD, BUDGET = range(7)


class Field:
    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, scan: Any, _: type) -> NDArray[Any]:  # noqa: ANN401 - a scan of headers or of records
        column: NDArray[Any] = scan.rows[self._name]
        return column


class Flag:
    """A bit of the attributes, of magic 2 only."""

    def __init__(self, bit: int) -> None:
        self._bit = bit

    def __get__(self, scan: Any, _: type) -> NDArray[np.bool_]:  # noqa: ANN401 - a scan of headers
        flag: NDArray[np.bool_] = ((scan.rows["attributes"] >> self._bit) & 1 != 0) & (scan.rows["magic"] >= MAX_MAGIC)
        return flag


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderScan:
    rows: NDArray[np.void]  # a `HEADER_ROW` per batch in file order; a message or wrapper of magic 0 or 1 is one row
    problems: tuple[Problem, ...]  # in file order; at most `MAX_PROBLEMS`, the last one then counts the others
    # where the usable part ends: the end asked for, a preallocated tail of zeros, or where the scan had to stop
    valid_bytes: int
    file_bytes: int  # size of the file when the scan began
    position = Field()
    size_bytes = Field()
    base_offset = Field()
    last_offset = Field()
    record_count = Field()
    max_timestamp_ms = Field()
    crc_ok = Field()
    is_transactional = Flag(4)
    is_control = Flag(5)  # markers, whose offsets hold no data records
    has_delete_horizon = Flag(6)  # `base_timestamp_ms` holds it

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def codec(self) -> NDArray[np.int8]:
        return (self.rows["attributes"] & 7).astype(np.int8)

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        """0 create time, 1 log append time (magic 0 has no timestamps and says 0)."""
        is_append: NDArray[np.bool_] = (self.rows["attributes"] & 8 != 0) & (self.rows["magic"] >= 1)
        return is_append.astype(np.int8)

    @property
    def min_timestamp_ms(self) -> NDArray[np.int64]:
        """Smallest timestamp a header shows, the first record's (append time: the largest); -1 where it shows none."""
        base, largest = self.rows["base_timestamp_ms"], self.rows["max_timestamp_ms"]
        first = np.where(self.timestamp_type == 1, largest, np.minimum(base, largest))
        hidden = self.has_delete_horizon & (self.timestamp_type == 0)
        return np.where(hidden | (self.rows["record_count"] == 0), np.int64(-1), first)

    @property
    def usable(self) -> NDArray[np.bool_]:
        usable: NDArray[np.bool_] = self.rows["flaw"] == Flaw.NONE
        return usable


def sum_headers(scan: HeaderScan) -> HeaderSums:
    usable = scan.usable
    stamps, largest = scan.min_timestamp_ms[usable], scan.max_timestamp_ms[usable]
    stamps, largest = stamps[stamps >= 0], largest[largest >= 0]
    gaps = scan.base_offset[usable][1:] - scan.last_offset[usable][:-1] - 1
    return HeaderSums(
        damaged_batch_count=int(np.count_nonzero(~usable)),
        crc_error_count=int(np.count_nonzero(~scan.crc_ok)),
        record_count=int(scan.record_count[usable].sum(dtype=np.int64)),
        control_batch_count=int(np.count_nonzero(scan.is_control[usable])),
        missing_offset_count=int(gaps[gaps > 0].sum()),
        min_timestamp_ms=int(stamps.min()) if len(stamps) else None,
        max_timestamp_ms=int(largest.max()) if len(largest) else None,
        magics=tuple(_distinct(scan.rows["magic"])),
        codecs=tuple(sorted(Codec(codec).name.lower() for codec in _distinct(scan.codec[usable]))),
        producer_ids=tuple(producer for producer in _distinct(scan.rows["producer_id"][usable]) if producer >= 0),
    )


def _distinct(values: NDArray[np.integer]) -> list[int]:
    """Sorted distinct values; `np.unique` would import `numpy.ma`, a quarter of the time a small file takes."""
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    distinct: list[int] = ordered[is_first].tolist()
    return distinct
