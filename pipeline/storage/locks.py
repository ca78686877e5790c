"""Locks on the warehouse: one process at a time delivers, one judges a cluster. They end with their process, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def holding(warehouse: Path, name: str, *, wait: bool) -> Iterator[bool]:
    """Holds a lock of the warehouse; yields False where another process has it and this one does not wait.

    Args:
        warehouse: Folder of all tables; made where it is missing.
        name: Of the lock; safe as the end of a file's name.
        wait: Whether to wait until it is free.
    """
    warehouse.mkdir(parents=True, exist_ok=True)
    with (warehouse / f".{name}").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
