"""Result of a scan of records: one row per record, 40 bytes each, and the keys."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import Field, HeaderScan

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordScan:
    headers: HeaderScan  # the batches of this chunk, to whose rows `batch_index` points; problems of both scans
    rows: NDArray[np.void]  # a `RECORD_ROW` per record, in file order; none of batches with a flaw
    # one more than records: key `i` is `key_data[key_offsets[i]:key_offsets[i + 1]]`; a null key is empty
    key_offsets: NDArray[np.int64]
    key_data: NDArray[np.uint8]  # all keys one after another
    offset = Field()
    timestamp_ms = Field()
    key_length = Field()
    value_length = Field()
    size_bytes = Field()
    header_count = Field()
    batch_index = Field()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_control(self) -> NDArray[np.bool_]:
        is_control: NDArray[np.bool_] = self.headers.is_control[self.batch_index]
        return is_control

    @property
    def keys(self) -> pa.LargeBinaryArray:
        """All keys as an Arrow column; a null key is empty in it."""
        buffers = [None, pa.py_buffer(self.key_offsets), pa.py_buffer(self.key_data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
