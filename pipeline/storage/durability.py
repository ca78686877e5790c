"""Commits that survive a power cut, and storage errors in one line.

Neither delta-rs nor Spark's local file system syncs: the newest files of a log may be empty, and readers skip them without a word.
"""

import errno
import json
import os
import re
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from pipeline.config.storage import Folder, RemoteFolder
from pipeline.errors import PipelineError, StorageError
from pipeline.files import MOST_TEXT_BYTES, read_small, sync_path

ON_READ = "restore this folder from a backup, or move it away and run its windows again"
ON_REMOTE = "see whether the object store answers, then run again"
NOT_DURABLE = "the commit may not survive a power cut: repair the disk, then run again"
_FOREIGN = re.compile(r"[Uu]nsupported (table features|minimum (reader|writer) version)|Feature .* is not supported")
_OLDER = re.compile(r"No field named")
_LACKS = "nothing is damaged: the table is of an older version; run the newest window, which adds its columns"
_UNKNOWN = "nothing is damaged: another program gave the table what this version does not know; use a version that does"
_HARMLESS = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of readers that leave a data file what it is: tasks read files as they are, by the names that columns have here."""
_LOG = "_delta_log"
_CHECKPOINT, _LAST_CHECKPOINT, _END_OF_PARQUET = ".checkpoint.parquet", "_last_checkpoint", b"PAR1"
_SHOWN = 600
_MOST_KEPT = 64  # more than one warehouse has tables
# a copy that somebody put aside, such as `….json.bak`, is none
_OF_VERSION = re.compile(r"\d{20}\.(json|checkpoint\..*parquet)", re.ASCII)
_TREE = re.compile(r"\x1b\[\d*m↳?")  # delta-rs draws the causes of an error as a coloured tree


class _LogState(NamedTuple):
    last: Path  # its newest commit
    marks: tuple[int, ...]  # inode, time of change and size of that file, and how many files there are


_kept: dict[Folder, tuple[_LogState | None, DeltaTable]] = {}
"""Tables by path, as they were read last: to replay a log of 10 commits costs 3 ms, and a run would do so 180 times."""


@dataclass(frozen=True)
class StorageErrors(AbstractContextManager["StorageErrors"]):
    """Context that turns what delta-rs and the operating system raise into a `StorageError` of one line."""

    path: Folder  # the table's
    advice: str  # what to do, after the cause

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        is_foreign = isinstance(error, DeltaError) and _FOREIGN.search(str(error)) is not None
        # conflicts of writers pass: they are tried again
        if isinstance(error, PipelineError) or (isinstance(error, CommitFailedError) and not is_foreign):
            return
        # delta-rs raises Exception itself for a Parquet file that is gone or cut, ValueError for statistics that are missing
        if isinstance(error, DeltaError | OSError | ValueError) or type(error) is Exception:
            text = str(error) if isinstance(self.path, RemoteFolder) else str(error).partition("\n")[0]
            cause = " ".join(_TREE.sub("", text).split())[:_SHOWN]
            advice = _LACKS if _OLDER.search(cause) else _UNKNOWN if is_foreign else self.advice
            raise StorageError(f"{self.path}: {cause}; {advice}") from error


def has_table(path: Folder) -> bool:
    """Whether a folder holds a table; `StorageError` if no store answers, or for data without a log: they stay."""
    if isinstance(path, Path):
        there = next((one for one in (path, *path.parents) if os.path.lexists(one)), Path("/"))
        if not there.is_dir():  # a file, or a link that leads nowhere
            advice = "correct `warehouse` of the configuration, or move the file away"
            raise StorageError(f"{there}: not a folder; {advice}")
    with StorageErrors(path, ON_REMOTE):
        if DeltaTable.is_deltatable(str(path), _options(path)):
            return True
        if isinstance(path, Path):
            has_data = any(path.rglob("*.parquet"))
        else:
            from pyarrow import fs  # noqa: PLC0415 - loaded where an object store is used

            below = fs.FileSelector(path.path, allow_not_found=True, recursive=True)
            has_data = any(one.path.endswith(".parquet") for one in path.file_system().get_file_info(below))
    if has_data:
        raise StorageError(f"{path}: data without a log ({_LOG}), as after half a restore; {ON_READ}")
    return False


def _options(path: Folder) -> dict[str, str] | None:
    return path.delta_options() if isinstance(path, RemoteFolder) else None


def open_table(path: Folder) -> DeltaTable:
    """The newest version of a table, an object others may hold, too; `StorageError` if there is none, or its log is damaged."""
    table = take_table(path)
    keep_table(path, table)
    return table


def take_table(path: Folder) -> DeltaTable:
    if isinstance(path, RemoteFolder):
        _, table = _kept.pop(path, (None, None))
        with StorageErrors(path, ON_REMOTE):
            if table is None:
                table = DeltaTable(str(path), storage_options=_options(path))
            else:
                table.update_incremental()
            _refuse_features(path, table)
        return table
    state = _find_state(path)
    if state is None and not has_table(path):
        raise StorageError(f"{path}: no table, as in an older warehouse: run the newest window, which makes it")
    with StorageErrors(path, ON_READ):
        if state is not None and state.last.suffix == ".json" and not _is_whole(state.last):
            raise StorageError(
                f"{state.last}: the last commit is empty or cut, or its data are, as after a power cut; delete that file to go on from the "
                "commit before, then run the newest windows again (--force)"
            )
        kept_state, table = _kept.pop(path, (None, None))
        return _read_table(path) if table is None or state is None or state != kept_state else table


def _read_table(path: Path) -> DeltaTable:
    for entry in [*os.scandir(path / _LOG)]:  # delta-rs would wait for a FIFO, and hold a commit however large
        with suppress(FileNotFoundError):  # another writer's, which has its name meanwhile
            size_bytes = entry.stat().st_size if entry.name.endswith(".json") else 0
            if "#" not in entry.name and not entry.is_dir() and (not entry.is_file() or size_bytes > MOST_TEXT_BYTES):
                raise OSError(errno.EINVAL, "not a regular file, or larger than any commit", entry.path)
    try:
        table = DeltaTable(path)
    except DeltaError:
        if not _drop_torn_checkpoint(path / _LOG):
            raise
        table = DeltaTable(path)
    _refuse_features(path, table)
    for file in table.file_uris():
        if not os.path.isfile(file) and os.path.exists(file):  # noqa: PTH110, PTH113 - there may be thousands
            raise OSError(errno.EINVAL, "not a regular file", file)
    return table


def _refuse_features(path: Folder, table: DeltaTable) -> None:
    """Refuses a table whose files do not say which rows it has, or what their columns are: others' rows would be counted twice."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ["columnMapping"] if protocol.min_reader_version > 1 else ())}
    if wrong := sorted(features - _HARMLESS):
        advice = "nothing is damaged: have that program take it away (ALTER TABLE ... DROP FEATURE), then run again"
        raise StorageError(f"{path}: another program gave the table {', '.join(wrong)}; {advice}")


def _drop_torn_checkpoint(log: Path) -> bool:
    """Drops the newest checkpoint if a power cut tore it: the commits it sums up are still there."""
    checkpoint = max(log.glob(f"*{_CHECKPOINT}"), default=None)
    if checkpoint is None or checkpoint.read_bytes()[-4:] == _END_OF_PARQUET:
        return False
    (log / _LAST_CHECKPOINT).unlink(missing_ok=True)
    checkpoint.unlink()
    return True


def keep_table(path: Folder, table: DeltaTable) -> None:
    state = None if isinstance(path, RemoteFolder) else _find_state(path)
    if isinstance(path, RemoteFolder) or (state is not None and int(state.last.name[:20]) == table.version()):
        _kept[path] = state, table
        while len(_kept) > _MOST_KEPT:
            _kept.pop(next(iter([*_kept])), None)  # a copy: other threads keep tables too


def find_version(path: Folder) -> int:
    if isinstance(path, RemoteFolder):
        return open_table(path).version() if path in _kept or has_table(path) else -1
    state = _find_state(path)
    return -1 if state is None else int(state.last.name[:20])


def _find_state(path: Path) -> _LogState | None:
    try:
        names = os.listdir(path / _LOG)  # noqa: PTH208 - names only: this is asked before each read
    except FileNotFoundError:
        return None
    # A commit is written as `….json#1` before it has its name: another writer's may be gone a moment later.
    dated = [name for name in names if _OF_VERSION.fullmatch(name)]
    if not dated:
        return None
    # The newest commit; where it was cleaned up, the checkpoint that stands for it: `checkpoint` sorts before `json`.
    last = path / _LOG / max(dated)
    status = last.stat()
    return _LogState(last, (status.st_ino, status.st_mtime_ns, status.st_size, len(dated)))


def sync_commits(path: Folder, *, after: int, to: int) -> None:
    """Waits until a table's commits `after` a version (-1: a new table) up `to` one, and their files, are on disk."""
    if isinstance(path, RemoteFolder):  # needs no waiting
        return
    names = [f"{version:020d}" for version in range(after + 1, to + 1)]
    checkpoints = [path / _LOG / name for name in (*(f"{one}{_CHECKPOINT}" for one in names), _LAST_CHECKPOINT)]
    checkpoints = [file for file in checkpoints if file.exists()]
    commits = [path / _LOG / f"{name}.json" for name in names]
    commits = [commit for commit in commits if commit.exists()]  # else cleaned up since, so on disk in a checkpoint
    data = [file for commit in commits for file, _ in _list_added(commit) if file.exists()]
    folders = {folder for file in data for folder in file.parents if folder.is_relative_to(path)} | {path}
    # No commit is on the disk before what it names: files, their names, the commit, its name.
    for one in (*data, *sorted(folders, reverse=True), *checkpoints, *commits, path / _LOG):
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
    actions = [json.loads(line) for line in read_small(commit, MOST_TEXT_BYTES).splitlines()]
    added = [action["add"] for action in actions if "add" in action]
    return [(commit.parent.parent / unquote(add["path"]), add["size"]) for add in added]
