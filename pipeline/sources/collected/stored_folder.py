"""Files in a folder or under a prefix of an object store, read and replaced as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.storage import NO_STORAGE, RemoteFolder, Storage, is_remote
from pipeline.errors import InputError, StorageError
from pipeline.files import read_small, replace_file
from pipeline.sources.files.directory_walk import is_below, is_file, is_folder, is_there, walk_files

if TYPE_CHECKING:
    from pyarrow import fs

MOST_BYTES = 1 << 30  # of a file: a collector commits after half a gigabyte of log, which takes a tenth of that


@dataclass(frozen=True)
class StoredFolder:
    """A folder by path or URI, whose files appear whole or not at all (a rename, or one PUT); `StorageError` where storage fails."""

    location: str
    storage: Storage = NO_STORAGE

    def read(self, name: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """Reads a file, None where there is none; `InputError`: too large, no regular file, denied, not read, or a link out of the folder."""
        try:
            if not is_remote(self.location):
                return self._read_local(name, most_bytes)
            with self._system.open_input_file(self._path(name)) as file:
                if file.size() > most_bytes:
                    raise InputError(f"more than {most_bytes >> 20} MiB", path=f"{self.location}/{name}")
                content: bytes = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            if "ACCESS_DENIED" in str(error):  # a host may write with credentials of another account
                reason = "the store denies access to it: let the pipeline's credentials read it"
                raise InputError(reason, path=f"{self.location}/{name}") from error
            raise self._error(name, error) from error
        return content

    def _read_local(self, name: str, most_bytes: int) -> bytes:
        path = Path(self._path(name))
        if is_there(path) and self.leads_out(name):
            raise InputError("a link that leads out of its folder", path=path)
        try:
            return read_small(path, most_bytes)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error

    def leads_out(self, name: str) -> bool:
        if is_remote(self.location):
            return False
        return not is_below(Path(self._path(name)), os.path.realpath(self.location))

    def write(self, name: str, content: bytes) -> None:
        try:
            if not is_remote(self.location):
                path = Path(self._path(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, content)
                return
            with self._system.open_output_stream(self._path(name), compression=None) as file:
                file.write(content)
        except OSError as error:
            raise self._error(name, error) from error

    def files(self, name: str) -> list[tuple[str, int, int]]:
        """Lists the files below a folder: relative name, time it was written (ms) and size; empty without it."""
        if not is_remote(self.location):
            return sorted(self._iter_local_files(name))
        from pyarrow import fs  # noqa: PLC0415 - loaded where files are stored

        below = fs.FileSelector(self._path(name), allow_not_found=True, recursive=True)
        try:
            entries = self._system.get_file_info(below)
        except OSError as error:
            raise self._error(name, error) from error
        start = len(self._path("").rstrip("/")) + 1
        return sorted((info.path[start:], info.mtime_ns // 1_000_000, info.size) for info in entries if info.is_file)

    def _iter_local_files(self, name: str) -> Iterator[tuple[str, int, int]]:
        """Files, each by one of its names; links are left out where they lead out of this folder or nowhere."""
        if self.leads_out(name):
            return
        seen: set[tuple[int, int]] = set()
        for path in walk_files(Path(self._path(name)), []):
            relative = os.path.relpath(path, self.location)
            if is_file(path) and not self.leads_out(relative):
                status = path.stat()
                if status.st_ino and (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                yield relative, status.st_mtime_ns // 1_000_000, status.st_size

    def folders(self) -> list[str]:
        """Lists the folders in this one; empty without it. A name that is not UTF-8 has lone surrogates."""
        try:
            if not is_remote(self.location):
                with os.scandir(self.location) as entries:
                    return sorted(entry.name for entry in entries if is_folder(Path(entry.path)))
            from pyarrow import fs  # noqa: PLC0415 - loaded where files are stored

            infos = self._system.get_file_info(fs.FileSelector(self._path(""), allow_not_found=True))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error("", error) from error
        return sorted(info.base_name for info in infos if info.type is fs.FileType.Directory)

    def delete(self, name: str) -> None:
        try:
            self._system.delete_file(self._path(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._error(name, error) from error

    @cached_property
    def _system(self) -> fs.FileSystem:
        from pyarrow import fs  # noqa: PLC0415 - loaded where files are stored

        if not is_remote(self.location):
            return fs.LocalFileSystem()
        return RemoteFolder(self.location, self.storage).file_system()

    def _path(self, name: str) -> str:
        root = self.location.partition("://")[2] if is_remote(self.location) else self.location
        return f"{root.rstrip('/')}/{name}"

    def _error(self, name: str, error: OSError) -> StorageError:
        cause = " ".join(str(error).partition("\n")[0].split())
        return StorageError(f"{self.location.rstrip('/')}/{name}: {cause}")
