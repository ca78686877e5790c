"""Files: written so that they survive a power cut, and read only where they are regular ones."""

import errno
import os
import stat
import tempfile
from io import FileIO
from pathlib import Path


def sync_path(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Writes a file as a whole, on the disk when this returns, or nothing of it; a reader finds the old content or the new."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as part:
        written = Path(part.name)
        try:
            part.write(content)
            part.flush()
            os.fchmod(part.fileno(), mode)
            os.fsync(part.fileno())
            written.replace(path)
            sync_path(path.parent)
        except BaseException:
            written.unlink(missing_ok=True)
            raise


MOST_SMALL_BYTES = 16 << 20  # checkpoints, snapshots and transaction indexes are kilobytes
MOST_TEXT_BYTES = 256 << 20  # ten times what Kafka's tools print of a cluster of 200,000 partitions


def open_regular(path: Path | str, *, follows: bool = True) -> FileIO:
    """Opens a regular file, without waiting as `open` does at a FIFO; `follows` a link; `OSError` for anything else."""
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
    """The bytes of a file that is small wherever a broker or tool wrote it, as it is now; `OSError` if it is larger, or no file."""
    with open_regular(path, follows=follows) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > most_bytes:
            raise OSError(errno.EFBIG, f"more than {most_bytes >> 20} MiB, far more than it ever has", str(path))
        return file.read(size_bytes)
