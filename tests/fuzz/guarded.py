"""Bytes that end where nothing may be read any more, or begin behind such a page: a read beyond them ends the process."""

from __future__ import annotations

import ctypes
import mmap

_NOTHING = 0  # PROT_NONE


class GuardedBytes:
    """Room for some bytes between two pages that cannot be read; used again for one specimen after the other."""

    def __init__(self, room_bytes: int) -> None:
        self._page = mmap.PAGESIZE
        self.room_bytes = -(-room_bytes // self._page) * self._page
        self._map = mmap.mmap(-1, self.room_bytes + 2 * self._page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (start, start + self._page + self.room_bytes):
            if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(self._page), _NOTHING):
                raise OSError(ctypes.get_errno(), "mprotect")

    def hold(self, data: bytes, *, at_end: bool) -> memoryview:
        """The bytes next to the page behind them, or to the page before them; until the next call."""
        first = self._page + (self.room_bytes - len(data) if at_end else 0)
        self._map[first : first + len(data)] = data
        return memoryview(self._map)[first : first + len(data)].toreadonly()
