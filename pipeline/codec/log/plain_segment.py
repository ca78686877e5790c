"""A segment in memory, read by plain Python: small files, and the oracle of `mapped_segment`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.compression import decompress
from pipeline.codec.log.header_walk import BATCH_HEADER_BYTES, MAGIC_AT, Bytes, Stop, walk_batches
from pipeline.codec.log.legacy import read_message, unwrap
from pipeline.codec.log.record_batch import read_batch_header, read_records
from pipeline.codec.log.scans import RECORD_ROW, Flaw
from pipeline.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.model.log import Record

RecordTuple = tuple[int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecords:
    """The records of some batches: `RECORD_ROW`s and, where asked for, keys as in `RecordScan`."""

    rows: NDArray[np.void]
    key_offsets: NDArray[np.int64] | None
    key_data: NDArray[np.uint8] | None


@dataclass(frozen=True, slots=True)
class PlainSegment:
    """The bytes of a whole file."""

    data: Bytes

    def walk(
        self, start: int, end: int, *, check_crc: bool, keep_pages: bool = False
    ) -> tuple[NDArray[np.void], int, Stop]:
        """Reads the headers of the batches that begin in `[start, end)`; see `header_walk.walk_batches`."""
        del keep_pages  # a small file stays in memory
        return walk_batches(self.data, start, end, check_crc=check_crc)

    def release(self, start: int, end: int) -> None:
        """Does nothing: a small file stays in memory."""

    def decode(self, batches: NDArray[np.void], *, want_keys: bool) -> DecodedRecords:
        """Reads the records of the batches; sets the flaw of a batch whose records do not parse and leaves those out."""
        rows: list[RecordTuple] = []
        keys: list[bytes] = []
        for index in np.flatnonzero(batches["flaw"] == Flaw.NONE):
            try:
                records = read_entry_records(cut_entry(self.data, batches[index]))
            except InputError:
                batches["flaw"][index] = Flaw.PAYLOAD
                continue
            rows += [_to_row(record, int(index)) for record in records]
            keys += [record.key or b"" for record in records] if want_keys else []
        table = np.array(rows, RECORD_ROW)
        if not want_keys:
            return DecodedRecords(rows=table, key_offsets=None, key_data=None)
        key_offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(key) for key in keys], out=key_offsets[1:])
        return DecodedRecords(rows=table, key_offsets=key_offsets, key_data=np.frombuffer(b"".join(keys), np.uint8))


def _to_row(record: Record, batch_index: int) -> RecordTuple:
    key_length = -1 if record.key is None else len(record.key)
    value_length = -1 if record.value is None else len(record.value)
    return (
        record.offset, record.timestamp_ms, key_length, value_length, record.size_bytes, len(record.headers), batch_index
    )  # fmt: skip


def read_entry_records(entry: bytes) -> list[Record]:
    """Reads the records of one whole batch of any magic (of its inner set, for a compressed legacy message).

    Raises:
        InputError: They do not decompress or parse.
    """
    if entry[MAGIC_AT] < 2:
        message = read_message(entry, 0)
        return unwrap(message) if message.codec else [message.record]
    header = read_batch_header(entry)
    payload = memoryview(entry)[BATCH_HEADER_BYTES:]
    return list(read_records(header, decompress(header.codec, payload) if header.codec else payload))


def cut_entry(data: Bytes, row: np.void) -> bytes:
    """Returns the bytes of the batch that a `HEADER_ROW` describes; `data` are the whole file."""
    return data[int(row["position"]) : int(row["position"]) + int(row["size_bytes"])]
