"""Locks on folders: one process at a time delivers, judges a cluster or fills a cache. They end with their process.

Their files are for their owner alone: whoever may open a file can hold its lock.
"""

import contextlib
import fcntl
import logging
import math
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pipeline.storage.durability import StorageErrors

_log = logging.getLogger(__name__)
_MODE = stat.S_IRUSR | stat.S_IWUSR
_POLL_S = 0.1


@contextlib.contextmanager
def holding(folder: Path, name: str, *, wait_s: float = math.inf) -> Iterator[bool]:
    """Holds a lock of a folder; yields False where another process has it, and still has after so many seconds.

    One that waits warns of it. The folder is made where it is missing; a name is safe as the end of a file's.
    `StorageError` where one of them cannot be made, as on a file system that is read-only.
    """
    with StorageErrors(folder, "free space or repair the folder, then run again"):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f".{name}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, _MODE)
        if os.fstat(descriptor).st_mode & 0o077:  # of an earlier version
            os.fchmod(descriptor, _MODE)
    with os.fdopen(descriptor, "wb") as held:
        until_s = time.monotonic() + wait_s
        if not (is_ours := _try_to_hold(held)) and wait_s > 0:
            _log.warning("%s is held by another process: waiting until it ends", path)
            while not (is_ours := _try_to_hold(held)) and time.monotonic() < until_s:
                time.sleep(_POLL_S)
        yield is_ours


def _try_to_hold(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
