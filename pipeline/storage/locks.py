"""Locks on folders: one process at a time delivers, judges a cluster or fills a cache. They end with their process."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from pipeline.storage.durability import StorageErrors


@contextlib.contextmanager
def holding(folder: Path, name: str, *, wait: bool) -> Iterator[bool]:
    """Holds a lock of a folder; yields False where another process has it and this one does not wait.

    Args:
        folder: Made where it is missing.
        name: Of the lock; safe as the end of a file's name.
        wait: Whether to wait until it is free.

    Raises:
        StorageError: The folder or the lock cannot be made, as on a file system that is read-only.
    """
    with StorageErrors(folder, "free space or repair the folder, then run again"):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f".{name}").open("w")
    with lock as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
