"""Opening what others may write: a FIFO must not hang a reader, nor a giant fill the memory."""

import errno
import os
import stat
from io import FileIO
from pathlib import Path

MOST_SMALL_BYTES = 16 << 20
"""Checkpoints, producer snapshots and transaction indexes are kilobytes; a broker writes none as large as this."""
MOST_TEXT_BYTES = 256 << 20
"""What Kafka's tools print of a cluster of 200,000 partitions is a tenth of this, and so is an exporter's page."""


def open_regular(path: Path | str, *, follows: bool = True) -> FileIO:
    """Opens a file for reading, without waiting as `open` does at a FIFO; `follows` a link.

    Raises:
        OSError: It cannot be opened, or is a FIFO, socket or device, or a link that is not to be followed.
    """
    more = os.O_NONBLOCK if follows else os.O_NONBLOCK | os.O_NOFOLLOW
    file = open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | more))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def check_regular(*paths: Path | str | None) -> None:
    """Raises `OSError` where one of the files cannot be opened, or is a FIFO: OpenSSL would wait for it."""
    for path in paths:
        if path is not None:
            open_regular(path).close()


def read_small(path: Path | str, most_bytes: int = MOST_SMALL_BYTES, *, follows: bool = True) -> bytes:
    """The bytes of a file that is small wherever a broker or a tool wrote it; what is added meanwhile is left out.

    Raises:
        OSError: It cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path, follows=follows) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > most_bytes:
            raise OSError(errno.EFBIG, f"more than {most_bytes >> 20} MiB, far more than it ever has", str(path))
        return file.read(size_bytes)
