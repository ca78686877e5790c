"""Files in a folder or under a prefix of an object store, read and replaced as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.storage import NO_STORAGE, RemoteFolder, Storage, is_remote
from pipeline.durable_files import replace_file
from pipeline.errors import StorageError

if TYPE_CHECKING:
    from pyarrow import fs


@dataclass(frozen=True)
class StoredFolder:
    """A folder by path or URI. A file appears as a whole or not at all: by rename, or by one PUT.

    Every method raises `StorageError` in one line.
    """

    location: str
    storage: Storage = NO_STORAGE

    def read(self, name: str) -> bytes | None:
        """Reads a file; None where there is none."""
        try:
            with self._system.open_input_file(self._path(name)) as file:
                content: bytes = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error(name, error) from error
        return content

    def write(self, name: str, content: bytes) -> None:
        """Writes or replaces a file; it is durable when this returns."""
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
        from pyarrow import fs  # noqa: PLC0415 - loaded where files are stored

        try:
            found = self._system.get_file_info(fs.FileSelector(self._path(name), allow_not_found=True, recursive=True))
        except OSError as error:
            raise self._error(name, error) from error
        start = len(self._path("").rstrip("/")) + 1
        return sorted((info.path[start:], info.mtime_ns // 1_000_000, info.size) for info in found if info.is_file)

    def folders(self) -> list[str]:
        """Lists the folders in this one; empty without it."""
        from pyarrow import fs  # noqa: PLC0415 - loaded where files are stored

        try:
            found = self._system.get_file_info(fs.FileSelector(self._path(""), allow_not_found=True))
        except OSError as error:
            raise self._error("", error) from error
        return sorted(info.base_name for info in found if info.type is fs.FileType.Directory)

    def delete(self, name: str) -> None:
        """Deletes a file; a missing one is no error."""
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
