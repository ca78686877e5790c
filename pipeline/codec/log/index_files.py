"""The sparse indexes of a segment: `.index`, `.timeindex`, `.txnindex`.

The indexes of an active segment are preallocated (10 MiB each by default) and zero beyond the last entry, so reading
stops at the first zero entry after entry 0, as `DumpLogSegments` does; files are read in blocks, so a zero tail costs
nothing.

References: `OffsetIndex`, `TimeIndex`, `TransactionIndex`, `AbortedTxn`, `DumpLogSegments` (Kafka 4.1).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError, parser
from pipeline.files import open_regular, read_small

OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])  # relative to the segment's base offset, as the next
TIME_ENTRY = np.dtype([("timestamp_ms", ">i8"), ("offset", ">i4")])
_TRANSACTION = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
TXN_ENTRY = np.dtype([("version", ">i2"), *((name, ">i8") for name in _TRANSACTION)])
_BLOCK_ENTRIES = 8192
_MOST_ENTRIES = 1 << 23  # one for each batch of 256 bytes in a segment of 2 GiB


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexFile:
    """The entries of a file, column by column, int64; `remainder_bytes` beyond a whole number of entries are damage."""

    file_bytes: int
    remainder_bytes: int
    entry_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffsetIndex(IndexFile):
    """`.index`: the last offset (absolute) of an append and the position in the `.log` of its first batch."""

    offset: NDArray[np.int64]
    position: NDArray[np.int64]
    entry_bytes: int = OFFSET_ENTRY.itemsize


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeIndex(IndexFile):
    """`.timeindex`: the highest timestamp so far and the offset (absolute) it was reached at."""

    timestamp_ms: NDArray[np.int64]
    offset: NDArray[np.int64]
    entry_bytes: int = TIME_ENTRY.itemsize


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransactionIndex(IndexFile):
    """`.txnindex`: the aborted transactions whose marker is in the segment; never preallocated."""

    producer_id: NDArray[np.int64]
    first_offset: NDArray[np.int64]
    last_offset: NDArray[np.int64]  # of the ABORT marker
    last_stable_offset: NDArray[np.int64]  # after the abort
    entry_bytes: int = TXN_ENTRY.itemsize


def read_offset_index(path: Path | str, base_offset: int) -> OffsetIndex:
    """Entries of an `.index` file; a first one of zeros is none: Kafka writes the first one beyond position 0."""
    entries, sizes = _read_entries(path, OFFSET_ENTRY)
    if len(entries) and not entries["position"][0] and not entries["offset"][0]:
        entries = entries[:0]
    return OffsetIndex(**_columns(entries, base_offset), **sizes)


def read_time_index(path: Path | str, base_offset: int) -> TimeIndex:
    """Entries of a `.timeindex` file; a first entry of zeros counts only if it is alone, and so is not preallocated."""
    entries, sizes = _read_entries(path, TIME_ENTRY)
    if len(entries) == 1 and sizes["file_bytes"] > TIME_ENTRY.itemsize and not entries["timestamp_ms"][0]:
        entries = entries[int(not entries["offset"][0]) :]
    return TimeIndex(**_columns(entries, base_offset), **sizes)


@parser
def read_transaction_index(path: Path | str) -> TransactionIndex:
    """Entries of a `.txnindex` file; `InputError` for an entry of another version than 0."""
    data = read_small(path)
    count, remainder = divmod(len(data), TXN_ENTRY.itemsize)
    entries = np.frombuffer(data, dtype=TXN_ENTRY, count=count)
    other = np.flatnonzero(entries["version"] != 0)
    if len(other):
        position = int(other[0]) * TXN_ENTRY.itemsize
        reason = f"transaction index entry of version {entries['version'][other[0]]}, expected 0"
        raise InputError(reason, path=path, position=position, first_bytes=data[position:])
    columns = _columns(entries[[*_TRANSACTION]], 0)
    return TransactionIndex(**columns, file_bytes=len(data), remainder_bytes=remainder)


def _columns(entries: NDArray[np.void], base_offset: int) -> dict[str, Any]:
    columns = {name: entries[name].astype(np.int64) for name in entries.dtype.names or ()}
    return columns | {name: columns[name] + base_offset for name in columns if name == "offset"}


def _read_entries(path: Path | str, dtype: np.dtype[np.void]) -> tuple[NDArray[np.void], dict[str, Any]]:
    """Entries up to the first with relative offset 0 after entry 0; file size and bytes beyond whole entries."""
    blocks, rest = [np.empty(0, dtype)], b""
    with open_regular(path) as file:
        while data := file.read(_BLOCK_ENTRIES * dtype.itemsize):
            data = rest + data
            count = len(data) // dtype.itemsize
            rest = data[count * dtype.itemsize :]
            block = np.frombuffer(data, dtype=dtype, count=count)
            searched_from = 1 if len(blocks) == 1 else 0
            zeros = np.flatnonzero(block["offset"][searched_from:] == 0)
            if len(zeros):
                blocks.append(block[: searched_from + int(zeros[0])])
                break
            blocks.append(block)
            if (len(blocks) - 1) * _BLOCK_ENTRIES > _MOST_ENTRIES:
                raise InputError(f"more than {_MOST_ENTRIES:,} entries, more than a segment has use for")
        file_bytes = file.seek(0, 2)
    return np.concatenate(blocks), {"file_bytes": file_bytes, "remainder_bytes": file_bytes % dtype.itemsize}
