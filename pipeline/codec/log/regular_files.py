"""Opening what lies among the segments: a FIFO there must not hang a reader, nor a giant fill the memory."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

MOST_SMALL_BYTES = 16 << 20
"""Checkpoints, producer snapshots and transaction indexes are kilobytes; a broker writes none as large as this."""


def open_regular(path: Path | str) -> FileIO:
    """Opens a file for reading, without waiting as `open` does at a FIFO.

    Raises:
        OSError: It cannot be opened, or is a FIFO, socket or device.
    """
    file = open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_small(path: Path | str) -> bytes:
    """The bytes of a file that is small wherever a broker wrote it.

    Raises:
        OSError: It cannot be read, is no regular file, or larger than 16 MiB.
    """
    with open_regular(path) as file:
        data = file.read(MOST_SMALL_BYTES + 1)
    if len(data) > MOST_SMALL_BYTES:
        raise OSError(errno.EFBIG, f"more than {MOST_SMALL_BYTES >> 20} MiB, far more than a broker writes", str(path))
    return data
