"""Files that survive a power cut: what is written is on the disk before the next step begins.

References:
    fsync(2): syncing a file does not sync the folder that names it.
"""

from __future__ import annotations

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
