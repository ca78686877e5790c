"""Record batches in memory, as a Fetch reply holds them, read by Numba kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.header_kernels import check_rows, walk_rows
from pipeline.codec.log.header_walk import Stop
from pipeline.codec.log.scans import HEADER_ROW
from pipeline.codec.records.record_decoder import RecordDecoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.plain_segment import DecodedRecords

_BYTES_PER_ROW_GUESS = 128


@dataclass(frozen=True, slots=True)
class BufferSegment:
    """Batches one after another, the last one perhaps cut, and the same bytes as an array."""

    data: bytes
    array: NDArray[np.uint8]

    @classmethod
    def of(cls, data: bytes) -> BufferSegment:
        """Looks at the bytes; nothing is copied."""
        return cls(data, np.frombuffer(data, np.uint8))

    def walk(self, start: int, end: int, *, check_crc: bool) -> tuple[NDArray[np.void], int, Stop]:
        """Reads the headers of the batches that begin in `[start, end)`; see `header_walk.walk_batches`."""
        rows = np.empty(64 + (end - start) // _BYTES_PER_ROW_GUESS, HEADER_ROW)
        count, position, stop = 0, start, Stop.ROWS_FULL
        while stop is Stop.ROWS_FULL:
            if count == len(rows):
                rows.resize(2 * len(rows), refcheck=False)
            found, position, reason = walk_rows(self.array, position, end, rows[count:])
            count, stop = count + found, Stop(reason)
        rows.resize(count, refcheck=False)
        if check_crc:
            check_rows(self.array, rows)
        return rows, position, stop

    def decode(self, batches: NDArray[np.void], *, want_keys: bool) -> DecodedRecords:
        """Reads the records of the batches; sets the flaw of a batch whose records do not parse and leaves those out."""
        return RecordDecoder(self.data, self.array, batches, want_keys=want_keys).run()
