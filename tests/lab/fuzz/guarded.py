"""Bytes and arrays next to pages that nobody may read or write: an access beyond them ends the process."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

_NOTHING = 0  # PROT_NONE
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIZE, _POINTER = ctypes.c_size_t, ctypes.c_void_p
_SET_HANDLER = 304  # `PyDataMem_SetHandler` in NumPy's table of functions (numpy/_core/code_generators/numpy_api.py)


class GuardedBytes:
    """Room for some bytes between two pages that cannot be read; used again for one specimen after the other."""

    def __init__(self, room_bytes: int) -> None:
        self._page = mmap.PAGESIZE
        self.room_bytes = -(-room_bytes // self._page) * self._page
        self._map = mmap.mmap(-1, self.room_bytes + 2 * self._page)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for guard in (self._start, self._start + self._page + self.room_bytes):
            if _LIBC.mprotect(_POINTER(guard), _SIZE(self._page), _NOTHING):
                raise OSError(ctypes.get_errno(), "mprotect")

    def hold(self, data: bytes, *, at_end: bool) -> memoryview:
        """The bytes next to the page behind them, or to the page before them; until the next call."""
        first = self._first(len(data), at_end=at_end)
        self._map[first : first + len(data)] = data
        return memoryview(self._map)[first : first + len(data)].toreadonly()

    def address(self, size_bytes: int, *, at_end: bool) -> int:
        """Where so many bytes lie in memory."""
        return self._start + self._first(size_bytes, at_end=at_end)

    def _first(self, size_bytes: int, *, at_end: bool) -> int:
        return self._page + (self.room_bytes - size_bytes if at_end else 0)


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler` of NumPy's C API."""

    MALLOC = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE)
    CALLOC = ctypes.CFUNCTYPE(_POINTER, _POINTER, _SIZE, _SIZE)
    REALLOC = ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _SIZE)
    FREE = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _SIZE)
    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", _POINTER),
        ("malloc", MALLOC),
        ("calloc", CALLOC),
        ("realloc", REALLOC),
        ("free", FREE),
    )


class GuardedArrays:
    """Has NumPy put every array next to such a page, what kernels fill among them (NEP 49)."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[GuardedBytes, int]] = {}
        self._at_end = True
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype, api.PyCapsule_New.restype = _POINTER, ctypes.py_object
        table = api.PyCapsule_GetPointer(ctypes.py_object(np._core._multiarray_umath._ARRAY_API), None)
        entry = ctypes.cast(table, ctypes.POINTER(_POINTER))[_SET_HANDLER]
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(entry)
        self._handler = _Handler(
            b"guarded",
            1,
            None,
            _Handler.MALLOC(lambda _, size: self._take(size)),
            _Handler.CALLOC(lambda _, count, size: self._take(count * size)),  # a new map is zeros
            _Handler.REALLOC(lambda _, old, size: self._resize(old, size)),
            _Handler.FREE(lambda _, at, __: self._drop(at)),
        )
        self._capsule = api.PyCapsule_New(ctypes.byref(self._handler), b"mem_handler", None)

    @contextlib.contextmanager
    def of_all(self, *, at_end: bool) -> Iterator[None]:
        """Until the end of the block; what was made in it stays where it is."""
        self._at_end = at_end
        before = self._set(self._capsule)
        try:
            yield
        finally:
            self._set(before)

    def _take(self, size: int) -> int:
        room = GuardedBytes(max(size, 1))
        at = room.address(size, at_end=self._at_end)
        self._held[at] = room, size
        return at

    def _resize(self, old: int, size: int) -> int:
        at = self._take(size)
        ctypes.memmove(at, old, min(self._held[old][1], size))
        self._drop(old)
        return at

    def _drop(self, at: int) -> None:
        self._held.pop(at, None)
