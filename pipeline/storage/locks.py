"""Folders that one process holds at a time: locks, which end with their process, and `_staging`, where a run's tasks leave what they read.

Locks are files for their owner alone: whoever may open one can hold it. Folders in `_staging` have mode 700, since parts hold pseudonyms
of keys and clear keys; the next run deletes those of killed ones, known by their lock, in an object store by their age.
"""

import contextlib
import fcntl
import logging
import math
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from pipeline.config.storage import Folder, RemoteFolder
from pipeline.storage.durability import StorageErrors

_log = logging.getLogger(__name__)
_MODE = stat.S_IRUSR | stat.S_IWUSR
_POLL_S = 0.1


@contextlib.contextmanager
def holding(folder: Path, name: str, *, wait_s: float = math.inf) -> Iterator[bool]:
    """Holds a lock of a folder, made if missing; yields False where another process still has it after `wait_s`; `StorageError` if it cannot be."""
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


def _try_to_hold(file: IO[Any]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


FOLDER = "_staging"
_LOCK = "lock"
_OLD = timedelta(days=1)  # no run takes that long
_ADVICE = "free space or repair the folder, then run again"


@contextlib.contextmanager
def open_staging_folder(warehouse: Folder) -> Iterator[Folder]:
    """A folder for one run's parts; deleted at the end, like those of killed runs; `StorageError` if it cannot be made."""
    root = warehouse.joinpath(FOLDER)
    if isinstance(root, Path):
        with own_folder(root) as folder:
            yield folder
        return
    with StorageErrors(root, _ADVICE):
        _delete_old_remote(root)
    remote = root.joinpath(uuid.uuid4().hex)
    try:
        yield remote
    finally:
        with StorageErrors(root, _ADVICE), contextlib.suppress(FileNotFoundError):
            remote.file_system().delete_dir(remote.path)


@contextlib.contextmanager
def own_folder(root: Path) -> Iterator[Path]:
    """A folder of this process alone, below a root of mode 700; those of killed processes are deleted; `StorageError` as above."""
    with StorageErrors(root, _ADVICE):
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(stat.S_IRWXU)
        _delete_unlocked(root)
    folder = root / uuid.uuid4().hex
    with contextlib.ExitStack() as stack:
        is_held = False
        with StorageErrors(folder, _ADVICE):
            while not is_held:  # another run may delete the folder between the file and its lock
                folder.mkdir(mode=stat.S_IRWXU, exist_ok=True)
                lock = stack.enter_context((folder / _LOCK).open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
                with contextlib.suppress(FileNotFoundError):
                    is_held = os.path.samestat(os.fstat(lock.fileno()), (folder / _LOCK).stat())
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _delete_unlocked(root: Path) -> None:
    for folder in root.iterdir():
        # whether a run made it: the root may be a link to a folder that holds others' files
        if re.fullmatch("[0-9a-f]{32}", folder.name) is None or folder.is_symlink():
            continue
        try:
            lock = (folder / _LOCK).open("r+")
        except OSError:  # another run deletes it, or has not made its lock yet
            with contextlib.suppress(OSError):
                written_at = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
                if datetime.now(UTC) - written_at > _OLD:  # noqa: TID251 - the file system's clock
                    shutil.rmtree(folder, ignore_errors=True)
            continue
        with lock:
            if _try_to_hold(lock):
                shutil.rmtree(folder, ignore_errors=True)


def _delete_old_remote(root: RemoteFolder) -> None:
    from pyarrow import fs  # noqa: PLC0415 - loaded where a store is used

    files, place = root.file_system(), root.path
    newest: dict[str, datetime] = {}
    for one in files.get_file_info(fs.FileSelector(place, allow_not_found=True, recursive=True)):
        name = one.path.removeprefix(f"{place}/").partition("/")[0]
        if one.type == fs.FileType.File:
            newest[name] = max(one.mtime, newest.get(name, one.mtime))
    for name, written_at in newest.items():
        if datetime.now(UTC) - written_at > _OLD:  # noqa: TID251 - the store's clock
            files.delete_dir(f"{place}/{name}")
