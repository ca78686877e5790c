"""Numbers of keys in arrivals: the first 64 bits of a key's id, or no more than whether there is a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from pipeline.codec.records.key_ids import make_key_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan
    from pipeline.codec.records.key_ids import KeySecret

NULL_KEY, SOME_KEY, EMPTY_KEY = 0, 1, 2
"""Numbers of keys that are not told apart; a null key has the first everywhere (an id's number is 0 once in 2**64)."""
MOST_KEYS = 1 << 20
"""Keys whose numbers are held at once."""
_DIGITS = 16


class KeyNumbers(Protocol):
    """Numbers keys."""

    def number(self, scan: RecordScan) -> NDArray[np.int64]:
        """The number of each record's key; `NULL_KEY` for a null one.

        Args:
            scan: A chunk that was scanned with keys.
        """


class UnnamedKeys:
    """Tells null keys, empty ones and others apart, and nothing else."""

    def number(self, scan: RecordScan) -> NDArray[np.int64]:
        """See `KeyNumbers`."""
        length = scan.key_length
        return np.where(length < 0, NULL_KEY, np.where(length == 0, EMPTY_KEY, SOME_KEY)).astype(np.int64)


class PlainKeyNumbers:
    """By id, in plain Python: for small files, and the oracle.

    Args:
        secret: Behind the ids.
        is_clear: Keys of the topic are stored in clear: their ids are others.
    """

    def __init__(self, secret: KeySecret, *, is_clear: bool) -> None:
        self._secret = secret
        self._is_clear = is_clear
        self._known: dict[bytes | None, int] = {None: NULL_KEY}

    def number(self, scan: RecordScan) -> NDArray[np.int64]:
        """See `KeyNumbers`."""
        return np.array([self._number_of(scan.key(row)) for row in range(len(scan))], np.int64)

    def _number_of(self, key: bytes | None) -> int:
        number = self._known.get(key)
        if number is None:
            if len(self._known) > MOST_KEYS:
                self._known = {None: NULL_KEY}
            number = self._known[key] = number_of_id(make_key_id(self._secret, key or b"", is_clear=self._is_clear))
        return number


def number_of_id(key_id: str) -> int:
    """The first 64 bits of a key's id, as a signed number.

    >>> number_of_id("a99694912f493eb5aa0255297fd8d299")
    -6226626083508633931
    """
    return int.from_bytes(bytes.fromhex(key_id[:_DIGITS]), "big", signed=True)
