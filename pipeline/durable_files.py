"""Files that survive a power cut: what is written is on the disk before the next step begins.

References:
    fsync(2): syncing a file does not sync the folder that names it.
"""

import os
import tempfile
from pathlib import Path


def sync_path(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Writes a file as a whole, on the disk when this returns; a reader finds the old content or the new one.

    Raises:
        OSError: if it cannot be written; nothing is left behind.
    """
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
