"""Commits that survive a power cut, and storage errors in one line.

References:
    Neither delta-rs nor Spark's local file system syncs what it writes: after a power cut the newest files of a Delta
    log may be empty or cut, and a reader that skips them answers from an older version without a word. The newest commit
    may also be there without the data that it names.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from pipeline.durable_files import sync_path
from pipeline.errors import PipelineError, StorageError

ON_READ = "restore this folder from a backup, or move it away and run its windows again"
NOT_DURABLE = "the commit may not survive a power cut: mend the disk, then run again"
_LOG = "_delta_log"
_SHOWN = 600


class StorageErrors:
    """Context that turns what delta-rs and the operating system raise into a `StorageError` of one line.

    Args:
        path: The table's folder.
        advice: What to do, after the cause.
    """

    def __init__(self, path: Path, advice: str) -> None:
        self._path = path
        self._advice = advice

    def __enter__(self) -> None:
        """Begins."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Raises the error of one line; conflicts of writers pass, they are tried again."""
        if isinstance(error, PipelineError | CommitFailedError):
            return
        # delta-rs raises Exception itself for a Parquet file that is gone or cut
        if isinstance(error, DeltaError | OSError) or type(error) is Exception:
            cause = " ".join(str(error).partition("\n")[0].split())[:_SHOWN]
            raise StorageError(f"{self._path}: {cause}; {self._advice}") from error


def open_table(path: Path) -> DeltaTable:
    """Opens the newest version of a table.

    Raises:
        StorageError: if there is no table, or its log is damaged: its last commit may be lost.
    """
    log = path / _LOG
    last = max(log.glob("[0-9]*.json"), default=None)
    with StorageErrors(path, ON_READ):
        if last is not None and not _is_whole(last):
            raise StorageError(
                f"{last}: the last commit is empty or cut, or its data are, as after a power cut; delete that file to go on from the commit "
                "before, then run the newest windows again (--force)"
            )
        return DeltaTable(path)


def sync_commits(path: Path, *, after: int, to: int) -> None:
    """Waits until some commits of a table, and the files they added, are on the disk.

    Args:
        path: The table's folder.
        after: Version before the first of them; -1 for a new table.
        to: Version of the last.
    """
    commits = [path / _LOG / f"{version:020d}.json" for version in range(after + 1, to + 1)]
    commits = [commit for commit in commits if commit.exists()]  # else cleaned up since, so on disk in a checkpoint
    data = [file for commit in commits for file, _ in _list_added(commit) if file.exists()]
    folders = {folder for file in data for folder in file.parents if folder.is_relative_to(path)} | {path}
    # No commit is on the disk before what it names: files, their names, the commit, its name.
    for one in (*data, *sorted(folders, reverse=True), *commits, path / _LOG):
        sync_path(one)
    if after < 0:  # the table's own name, and those of the folders above that may have been made for it
        for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
            sync_path(folder)


def _is_whole(commit: Path) -> bool:
    """Whether a commit's file is one, and no file that it added is cut; one that is gone was not lost to a power cut."""
    try:
        added = _list_added(commit)
    except ValueError:
        return False
    return commit.stat().st_size > 0 and all(file.stat().st_size == size for file, size in added if file.exists())


def _list_added(commit: Path) -> list[tuple[Path, int]]:
    """Files that a commit added to its table, and their bytes; `ValueError` for a commit that is cut."""
    actions = [json.loads(line) for line in commit.read_bytes().splitlines()]
    added = [action["add"] for action in actions if "add" in action]
    return [(commit.parent.parent / unquote(add["path"]), add["size"]) for add in added]
