"""Commits that survive a power cut, and storage errors in one line.

References:
    Neither delta-rs nor Spark's local file system syncs what it writes: after a power cut the newest files of a Delta
    log may be empty or cut, and a reader that skips them answers from an older version without a word.
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
                f"{last}: the last commit is empty or cut, as after a power cut; delete that file to go on from the commit "
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
    folders = set()
    for version in range(after + 1, to + 1):
        commit = path / _LOG / f"{version:020d}.json"
        if not commit.exists():  # cleaned up since, so on disk in a checkpoint
            continue
        actions = (json.loads(line) for line in commit.read_text().splitlines())
        added = [path / unquote(action["add"]["path"]) for action in actions if "add" in action]
        for file in (*(file for file in added if file.exists()), commit):
            sync_path(file)
            folders |= {folder for folder in file.parents if folder.is_relative_to(path)}
    for folder in sorted(folders, reverse=True):
        sync_path(folder)


def _is_whole(commit: Path) -> bool:
    """Whether a commit's file ends as a commit does: with the last line of a JSON object."""
    lines = commit.read_bytes().splitlines()
    try:
        return bool(lines) and isinstance(json.loads(lines[-1]), dict)
    except ValueError:
        return False
