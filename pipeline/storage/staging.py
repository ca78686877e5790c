"""Where a run's tasks leave what they read or measured, until its tables hold it: `_staging` below the warehouse.

A folder a run, of mode 700: parts hold pseudonyms of keys, and keys of clear topics. A run that was killed leaves its
folder behind; the next one deletes it. A folder whose run lives is known by the lock that the run holds; in an object
store, which has no locks, by its age.
"""

import contextlib
import fcntl
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pipeline.config.storage import Folder, RemoteFolder
from pipeline.storage.durability import StorageErrors

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
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
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
