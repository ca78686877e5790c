"""A segment in a memory map, read by Numba kernels: large files, and small ones with many records.

The kernels run without the interpreter lock, so checksums of one window are verified by worker threads while the next
window is walked. Windows that are done are given back to the system: memory does not grow with the file.

A map has one hazard: if another process truncates the file while it is read, the system kills the reader (SIGBUS). Kafka
deletes segments, which is harmless, and truncates one only where a follower drops records its new leader never had.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.codec.compression import bound_output_bytes, decompress_into
from pipeline.codec.header_kernels import check_rows, walk_rows
from pipeline.codec.header_walk import BATCH_HEADER_BYTES, MIN_RECORD_BYTES, Stop
from pipeline.codec.plain_segment import DecodedRecords, PlainSegment
from pipeline.codec.record_kernels import decode_batches
from pipeline.codec.scans import HEADER_ROW, RECORD_ROW, Flaw
from pipeline.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MADV_POPULATE_READ = 22  # Linux; the mmap module has no name for it
WINDOW_BYTES = 16 << 20
GROUP_BYTES = 1 << 20  # decompressed before the decoder runs over it: small enough to be still in the cache
_BYTES_PER_ROW_GUESS = 128  # room for rows that are not filled is address space only
_RECORDS_GUESS = 1 << 20


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A whole file as a map and as an array over it."""

    data: mmap.mmap
    array: NDArray[np.uint8]

    @classmethod
    def map(cls, file_number: int, file_bytes: int) -> MappedSegment:
        """Maps an open file, read-only.

        Raises:
            OSError: It cannot be mapped.
        """
        try:
            data = mmap.mmap(file_number, file_bytes, prot=mmap.PROT_READ)
        except ValueError as error:
            raise OSError(f"the file was truncated while it was opened: {error}") from error
        return cls(data, np.frombuffer(data, np.uint8))

    def walk(
        self, start: int, end: int, *, check_crc: bool, keep_pages: bool = False
    ) -> tuple[NDArray[np.void], int, Stop]:
        """Reads the headers of the batches that begin in `[start, end)`; see `header_walk.walk_batches`.

        With `keep_pages` what was read stays in memory until `release`.
        """
        rows = np.empty(1024 + (end - start) // _BYTES_PER_ROW_GUESS, HEADER_ROW)
        count, position, stop = 0, start, Stop.END
        thread_count = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(thread_count) as pool:
            pending: deque[tuple[Future[None], int, int]] = deque()
            while position < end and stop in {Stop.END, Stop.ROWS_FULL}:
                window_end = min(end, position + WINDOW_BYTES)
                self._populate(position, window_end)
                found, after, reason = walk_rows(self.array, position, window_end, rows[count:])
                check = rows[count : count + found] if check_crc else rows[:0]
                pending.append((pool.submit(check_rows, self.array, check), position, after))
                count, position, stop = count + found, after, Stop(reason)
                self._finish(pending, 0 if stop is Stop.ROWS_FULL else thread_count, keep_pages=keep_pages)
                if stop is Stop.ROWS_FULL:
                    rows.resize(2 * len(rows), refcheck=False)
            self._finish(pending, 0, keep_pages=keep_pages)
        rows.resize(count, refcheck=False)
        return rows, position, stop

    def _finish(self, pending: deque[tuple[Future[None], int, int]], keep: int, *, keep_pages: bool) -> None:
        """Waits until no more than `keep` checks are under way, and gives back the memory of those that are done."""
        while len(pending) > keep:
            check, start, end = pending.popleft()
            check.result()
            if not keep_pages:
                self.release(start, end)

    def _populate(self, start: int, end: int) -> None:
        """Maps all pages of a window at once, which takes a tenth of the time of one fault after another."""
        first = start - start % mmap.PAGESIZE
        if sys.platform == "linux":
            with suppress(OSError):  # kernels before 5.14 do not know it
                self.data.madvise(MADV_POPULATE_READ, first, end - first)

    def release(self, start: int, end: int) -> None:
        """Gives back the pages of `[start, end)`; they stay in the system's cache and are mapped again if read again."""
        first = start - start % mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and end > first:
            self.data.madvise(mmap.MADV_DONTNEED, first, end - first)

    def decode(self, batches: NDArray[np.void], *, want_keys: bool) -> DecodedRecords:
        """Reads the records of the batches; sets the flaw of a batch whose records do not parse and leaves those out."""
        return _Decoder(self, batches, want_keys=want_keys).run()


class _Decoder:
    """Decodes batches in file order, in runs of the same kind, into arrays that grow."""

    def __init__(self, segment: MappedSegment, batches: NDArray[np.void], *, want_keys: bool) -> None:
        self._segment = segment
        self._batches = batches
        claimed = int(batches["record_count"][batches["flaw"] == Flaw.NONE].sum())
        self._records = np.empty(min(claimed, _RECORDS_GUESS), RECORD_ROW)
        self._count = 0
        self._key_offsets = np.zeros(1 if want_keys else 0, np.int64)
        self._keys = np.empty(0, np.uint8)
        self._key_end = 0
        self._output = np.empty(0, np.uint8)

    def run(self) -> DecodedRecords:
        sound = self._batches["flaw"] == Flaw.NONE
        kinds = np.where(self._batches["magic"] < 2, 2, np.minimum(self._batches["attributes"] & 7, 1))
        edges = np.flatnonzero(np.diff(kinds)) + 1
        for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(kinds)], strict=True):
            if sound[first:last].any():
                (self._decode_plain, self._decode_compressed, self._decode_legacy)[int(kinds[first])](first, last)
        self._records.resize(self._count, refcheck=False)
        if not len(self._key_offsets):
            return DecodedRecords(rows=self._records, key_offsets=None, key_data=None)
        self._key_offsets.resize(self._count + 1, refcheck=False)
        self._keys.resize(self._key_end, refcheck=False)
        return DecodedRecords(rows=self._records, key_offsets=self._key_offsets, key_data=self._keys)

    def _decode_plain(self, first: int, last: int) -> None:
        positions = self._batches["position"][first:last]
        ends = positions + self._batches["size_bytes"][first:last]
        self._decode(self._segment.array, np.stack([positions + BATCH_HEADER_BYTES, ends], axis=1), first, last)

    def _decode_compressed(self, first: int, last: int) -> None:
        spans = np.zeros((last - first, 2), np.int64)
        written, group_first = 0, first
        for index in range(first, last):
            if self._batches["flaw"][index] == Flaw.NONE:
                end = self._decompress(index, written)
                spans[index - first] = written, end
                written = end
            if written >= GROUP_BYTES or index == last - 1:
                group = spans[group_first - first : index + 1 - first]
                self._decode(self._output, group, group_first, index + 1)
                written, group_first = 0, index + 1

    def _decompress(self, index: int, written: int) -> int:
        batch = self._batches[index]
        start = int(batch["position"]) + BATCH_HEADER_BYTES
        end = int(batch["position"]) + int(batch["size_bytes"])
        room = bound_output_bytes(end - start)
        if len(self._output) < written + room:
            self._output = _grow(self._output, written, written + room)
        try:
            source, target = self._segment.array.data[start:end], self._output.data[written : written + room]
            after = written + decompress_into(int(batch["attributes"]) & 7, source, target)
        except InputError:
            batch["flaw"] = Flaw.PAYLOAD
            return written
        if int(batch["record_count"]) > (after - written) // MIN_RECORD_BYTES:
            batch["flaw"] = Flaw.PAYLOAD
            return written
        return after

    def _decode(self, source: NDArray[np.uint8], spans: NDArray[np.int64], first: int, last: int) -> None:
        batches = self._batches[first:last]
        sound = batches["flaw"] == Flaw.NONE
        self._make_room(int(batches["record_count"][sound].sum()), int((spans[sound, 1] - spans[sound, 0]).sum()))
        self._count, self._key_end = decode_batches(
            source, spans, batches, first, self._records, self._count, self._key_offsets, self._keys, self._key_end
        )

    def _make_room(self, record_count: int, key_bytes: int) -> None:
        wanted = self._count + record_count
        self._records = _grow(self._records, self._count, wanted)
        if len(self._key_offsets):
            self._key_offsets = _grow(self._key_offsets, self._count + 1, wanted + 1)
            self._keys = _grow(self._keys, self._key_end, self._key_end + key_bytes)

    def _decode_legacy(self, first: int, last: int) -> None:
        """Leaves message sets of before 2017 to plain Python."""
        batches = self._batches[first:last]
        decoded = PlainSegment(self._segment.data).decode(batches, want_keys=len(self._key_offsets) > 0)
        count = len(decoded.rows)
        self._make_room(count, 0 if decoded.key_data is None else len(decoded.key_data))
        decoded.rows["batch_index"] += first
        self._records[self._count : self._count + count] = decoded.rows
        if decoded.key_offsets is not None and decoded.key_data is not None:
            ends = decoded.key_offsets[1:] + self._key_end
            self._key_offsets[self._count + 1 : self._count + 1 + count] = ends
            self._keys[self._key_end : self._key_end + len(decoded.key_data)] = decoded.key_data
            self._key_end += len(decoded.key_data)
        self._count += count


def _grow(array: NDArray[Any], used: int, wanted: int) -> NDArray[Any]:
    """Returns the array, or a larger one with its used part copied; `ndarray.resize` would fill the rest with zeros."""
    if wanted <= len(array):
        return array
    grown = np.empty(max(wanted, 2 * len(array)), array.dtype)
    grown[:used] = array[:used]
    return grown
