"""Texts of series met before, by which the lines of a page are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.metrics.exposition_kernels import EMPTY, enter_texts, match_lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST_SLOTS = 1024
_FIRST_BYTES = 1 << 16


class SeriesTable:
    """Texts and the place of each; grows as they come."""

    def __init__(self, prefixes: tuple[str, ...] = ()) -> None:
        """Starts empty.

        Args:
            prefixes: What the names of wanted metrics begin with, in lower case; any name may be wanted by default.
        """
        self._prefixes = np.frombuffer("".join(f"{prefix}\n" for prefix in prefixes).encode(), np.uint8)
        self._count = 0
        self._used_bytes = 0
        self._arena = np.empty(_FIRST_BYTES, np.uint8)
        self._hashes = np.zeros(_FIRST_SLOTS, np.uint64)
        self._slots = np.full(3 * _FIRST_SLOTS, EMPTY, np.int64)
        self._new_texts: list[bytes] = []
        self._new_places: list[int] = []

    def __len__(self) -> int:
        """How many texts there are."""
        return self._count + len(self._new_texts)

    def remember(self, text: bytes, place: int) -> None:
        """Enters a text that is not there yet, in time for the next page.

        Args:
            text: As it stands before the value's blank.
            place: What `match` gives for it.
        """
        self._new_texts.append(text)
        self._new_places.append(place)

    def match(self, page: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Finds the lines of a page.

        Args:
            page: With a line end after each line; what follows the last one is left out.

        Returns:
            Start and end of each line (two columns), its place and its value, as `match_lines` gives them.
        """
        self._enter_new()
        count = page.count(b"\n")
        bounds, places, values = np.empty(2 * count, np.int64), np.empty(count, np.int64), np.empty(count, np.float64)
        data = np.frombuffer(page, np.uint8)
        match_lines(data, self._prefixes, self._arena, self._hashes, self._slots, bounds, places, values)
        return bounds.reshape(count, 2), places, values

    def _enter_new(self) -> None:
        if not self._new_texts:
            return
        data = b"".join(self._new_texts)
        end = self._used_bytes + len(data)
        if end > len(self._arena):
            larger = np.empty(max(2 * len(self._arena), end), np.uint8)
            larger[: self._used_bytes] = self._arena[: self._used_bytes]
            self._arena = larger
        self._arena[self._used_bytes : end] = np.frombuffer(data, np.uint8)
        self._make_room(self._count + len(self._new_texts))
        ends = self._used_bytes + np.cumsum([len(text) for text in self._new_texts])
        starts = np.concatenate([[self._used_bytes], ends[:-1]])
        texts = np.column_stack([starts, ends, self._new_places]).astype(np.int64)
        self._count += enter_texts(self._arena, texts.ravel(), self._hashes, self._slots)
        self._used_bytes = end
        self._new_texts.clear()
        self._new_places.clear()

    def _make_room(self, count: int) -> None:
        """Makes the table so large that half of it stays empty."""
        slot_count = len(self._hashes)
        while slot_count < 2 * count:
            slot_count *= 2
        if slot_count > len(self._hashes):
            old = self._slots
            self._hashes = np.zeros(slot_count, np.uint64)
            self._slots = np.full(3 * slot_count, EMPTY, np.int64)
            enter_texts(self._arena, old, self._hashes, self._slots)
