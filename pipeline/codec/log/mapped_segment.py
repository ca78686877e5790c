"""A segment in a memory map, read by Numba kernels: large files, and small ones with many records.

The kernels run without the interpreter lock, so checksums of one window are verified by other threads while the next
window is walked. Windows that are done are given back to the system: memory does not grow with the file.

A map has one hazard: if another process truncates the file while it is read, the system kills the reader (SIGBUS). Kafka
deletes segments, which is harmless, and truncates one only where a follower drops records its new leader never had.
"""

from __future__ import annotations

import mmap
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.header_kernels import check_rows, walk_rows
from pipeline.codec.log.header_walk import Stop
from pipeline.codec.log.scans import HEADER_ROW
from pipeline.codec.records.record_decoder import RecordDecoder
from pipeline.environment import count_cores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.plain_segment import DecodedRecords

MADV_POPULATE_READ = 22  # Linux; the mmap module has no name for it
WINDOW_BYTES = 16 << 20
MIN_WINDOW_BYTES = 2 << 20
_BYTES_PER_ROW_GUESS = 128  # room for rows that are not filled is address space only
_WINDOWS_WAITING = 3


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
        window_bytes = min(WINDOW_BYTES, max(MIN_WINDOW_BYTES, (end - start) // 4))
        count, position, stop = 0, start, Stop.END
        with _Checks(self, keep_pages=keep_pages) as checks:
            while position < end and stop in {Stop.END, Stop.ROWS_FULL}:
                if stop is Stop.ROWS_FULL:
                    checks.finish()  # they hold parts of the array
                    rows.resize(2 * len(rows), refcheck=False)
                window_end = min(end, position + window_bytes)
                self._populate(position, window_end)
                found, after, reason = walk_rows(self.array, position, window_end, rows[count:])
                checks.add(rows[count : count + found if check_crc else count], position, after)
                count, position, stop = count + found, after, Stop(reason)
        rows.resize(count, refcheck=False)
        return rows, position, stop

    def _populate(self, start: int, end: int) -> None:
        """Maps all pages of a window at once, which takes less time than one fault after another."""
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
        return RecordDecoder(self.data, self.array, batches, want_keys=want_keys).run()


class _Checks:
    """Checksums of windows, verified by as many helpers as there are further cores.

    Whoever has to wait for a window that no helper has begun verifies it itself, so a busy machine costs no idle time.
    """

    def __init__(self, segment: MappedSegment, *, keep_pages: bool) -> None:
        self._segment = segment
        self._keep_pages = keep_pages
        self._helpers = ThreadPoolExecutor(max(1, count_cores() - 1))
        self._waiting: deque[tuple[Future[None], NDArray[np.void], int, int]] = deque()

    def __enter__(self) -> _Checks:
        return self

    def __exit__(self, *exception: object) -> None:
        self.finish()
        self._helpers.shutdown()

    def add(self, rows: NDArray[np.void], start: int, end: int) -> None:
        """Puts a window's rows in the queue; `start` and `end` are its bytes."""
        self._waiting.append((self._helpers.submit(check_rows, self._segment.array, rows), rows, start, end))
        self.finish(_WINDOWS_WAITING)

    def finish(self, most: int = 0) -> None:
        """Sees to it that at most so many windows are left, and gives back the memory of those that are done."""
        while len(self._waiting) > most:
            check, rows, start, end = self._waiting.popleft()
            if check.cancel():
                check_rows(self._segment.array, rows)
            else:
                check.result()
            if not self._keep_pages:
                self._segment.release(start, end)
