"""Locks on folders: one process at a time delivers, judges a cluster or fills a cache. They end with their process.

Their files are for their owner alone: whoever may open a file can hold its lock.
"""

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pipeline.storage.durability import StorageErrors

_log = logging.getLogger(__name__)
_MODE = stat.S_IRUSR | stat.S_IWUSR


@contextlib.contextmanager
def holding(folder: Path, name: str, *, wait: bool) -> Iterator[bool]:
    """Holds a lock of a folder; yields False where another process has it and this one does not wait.

    One that waits warns of it. The folder is made where it is missing; a name is safe as the end of a file's. `StorageError`
    where one of them cannot be made, as on a file system that is read-only.
    """
    with StorageErrors(folder, "free space or repair the folder, then run again"):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f".{name}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, _MODE)
        if os.fstat(descriptor).st_mode & 0o077:  # of an earlier version
            os.fchmod(descriptor, _MODE)
    with os.fdopen(descriptor, "wb") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                yield False
                return
            _log.warning("%s is held by another process: waiting until it ends", path)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield True
