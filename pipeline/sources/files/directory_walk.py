"""Listing directories without leaving the path given, without reading anything twice, and without stopping at errors."""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

from pipeline.errors import InputError
from pipeline.files import open_regular, read_small
from pipeline.model.log import Problem

SEGMENT_NAME = re.compile(r"(?P<offset>[0-9]{20})\.log")
_T = TypeVar("_T")
HIDDEN = "a name with characters that are hidden or not UTF-8: not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Entries of a directory: files by name, directories, both sorted; links followed or refused."""

    path: Path
    files: Mapping[str, Path]
    directories: tuple[Path, ...]


class DirectoryWalk:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.met_again = False  # a directory below the path entered last had been listed before, so was left out
        self._root = Path()
        self._seen: set[str] = set()  # real paths of directories
        self._siblings: dict[Path, tuple[Mapping[str, Path], str]] = {}
        self._peeked: dict[str, Listing | None] = {}  # by real path, below the path entered last
        self._links: set[Path] = set()  # to files, and looked at: one put in place of a file later is not followed

    def enter(self, path: Path) -> bool:
        """Goes to a path that links below must not leave; False, with a problem noted, where it cannot be used."""
        self.met_again = False
        try:
            real = path.resolve(strict=True)
        except OSError as error:
            self.problem(path, error.strerror or "cannot be reached")
            return False
        except RuntimeError:  # before Python 3.13
            self.problem(path, "a loop of links")
            return False
        self._root = real if real.is_dir() else real.parent
        self._peeked.clear()
        self._links |= {path} if path.is_symlink() else set()  # whoever gives it means it
        return True

    def problem(self, path: Path, reason: str, *, position: int | None = None, severity: str = "refused") -> None:
        self.problems.append(Problem(path=str(path), position=position, reason=reason, severity=severity))

    def list(self, path: Path) -> Listing | None:
        """Lists a directory; None, with a problem noted, where that cannot be done, and None where it was done before."""
        real = os.path.realpath(path)
        if real in self._seen:
            self.met_again = True
            return None
        self._seen.add(real)
        return self._scan(path, notes=True)

    def peek(self, path: Path) -> Listing | None:
        """Lists a directory that will be listed again, once whatever links lead to it; notes no problem."""
        real = os.path.realpath(path)
        if real not in self._peeked:
            self._peeked[real] = self._scan(path, notes=False)
        return self._peeked[real]

    def siblings(self, path: Path) -> tuple[Mapping[str, Path], str]:
        """Files of a directory of which some are given one by one, and the highest segment name; listed once."""
        if path not in self._siblings:
            listing = self.peek(path)
            files = {} if listing is None else listing.files
            self._siblings[path] = (files, max(filter(SEGMENT_NAME.fullmatch, files), default=""))
        return self._siblings[path]

    def named(self, folder: Path, names: Iterable[str]) -> dict[str, Path]:
        """Those of some files that are in a directory above the path entered; no link may lead out of it."""
        found = {name: folder / name for name in sorted(names) if is_file(folder / name)}
        links = {name for name, path in found.items() if path.is_symlink()}
        root = folder.resolve()
        return {n: path for n, path in found.items() if n not in links or self._may_follow(path, root, notes=True)}

    def parse(self, path: Path | None, parse: Callable[[bytes], _T], otherwise: _T) -> _T:
        """Parses a small text file; `otherwise` where there is none, or, with a problem noted, where that fails."""
        if path is None:
            return otherwise
        try:
            data = read_small(path, follows=path in self._links)
            if b"\r\n" in data:  # the parsers take them, but the file did not come from a broker as it is
                self.problem(path, "CRLF line ends; it is read all the same", position=1, severity="suspect")
            return parse(data)
        except (OSError, InputError) as error:
            self.problems.append(Problem.of_error(path, error))
            return otherwise

    def read_start(self, path: Path, size: int) -> tuple[bytes, int] | None:
        try:
            with open_regular(path, follows=path in self._links) as file:
                return file.read(size), os.fstat(file.fileno()).st_size
        except OSError as error:
            self.problems.append(Problem.of_error(path, error))
            return None

    def _scan(self, path: Path, *, notes: bool) -> Listing | None:
        try:
            with os.scandir(path) as entries:
                ordered = sorted(entries, key=lambda entry: (entry.is_symlink(), entry.name))
        except OSError as error:
            if notes:
                self.problem(path, f"cannot be listed: {error.strerror}")
            return None
        files: dict[str, Path] = {}
        directories: list[Path] = []
        for entry in ordered:
            if not entry.name.isprintable():
                if notes:
                    self.problem(Path(entry.path), HIDDEN)
                continue
            if entry.is_symlink() and not self._may_follow(Path(entry.path), self._root, notes=notes):
                continue
            if entry.is_dir():
                directories.append(Path(entry.path))
            else:
                files[entry.name] = Path(entry.path)
        return Listing(path=path, files=files, directories=tuple(directories))

    def _may_follow(self, link: Path, root: Path, *, notes: bool) -> bool:
        try:
            real = link.resolve(strict=True)
        except (OSError, RuntimeError):
            reason = "a link that leads nowhere"
        else:
            if real.is_relative_to(root):
                self._links.add(link)
                return True
            reason = f"a link that leads out of the source root {root}"
        if notes:
            self.problem(link, reason)
        return False


_EPOCH_MS = re.compile(r"(\d{13})(?=\D*$)")


def list_files(paths: Iterable[Path], patterns: Sequence[str], problems: list[Problem]) -> Iterator[Path]:
    """Files named, or that fit a pattern named, or `patterns` in a folder named; `problems` takes what is odd."""
    for root in paths:
        if is_folder(root):
            walked = walk_files(root, problems)
            matched = {path for path in walked if any(fnmatchcase(path.name, pattern) for pattern in patterns)}
            matched = set(refuse_odd_paths(root, matched, problems))
        else:
            beside = root.parent.iterdir() if is_folder(root.parent) else ()
            named = {path for path in beside if fnmatchcase(path.name, root.name) and path.name.isprintable()}
            matched = {root} if is_there(root) else named
        files = sorted(path for path in matched if is_file(path))
        if not files:
            problems.append(Problem(path=str(root), position=None, reason="no such file, or an empty folder"))
        yield from files


# Methods of `Path` raise for a link whose target cannot be looked at: too long a name, a closed folder.
is_there, is_file, is_folder = os.path.exists, os.path.isfile, os.path.isdir


def walk_files(root: Path, problems: list[Problem], *, most_levels: int = sys.maxsize) -> Iterator[Path]:
    """Everything below a folder that is no folder; links are not followed. `problems` takes folders that cannot be listed."""
    ahead = [(root, most_levels)]
    while ahead:
        folder, levels = ahead.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problems.append(Problem(path=str(folder), reason=f"cannot be listed: {error.strerror}"))
            continue
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                yield Path(entry.path)
            elif levels:
                ahead.append((Path(entry.path), levels - 1))


def refuse_odd_paths(root: Path, paths: Iterable[Path], problems: list[Problem]) -> Iterator[Path]:
    """The paths below a folder; `problems` takes those with hidden characters, and links that lead out of it."""
    inside = os.path.realpath(root)
    for path in sorted(paths):
        if not str(path.relative_to(root)).isprintable():
            problems.append(Problem(path=str(path), reason=HIDDEN))
        elif not is_below(path, inside):
            problems.append(Problem(path=str(path), reason=f"a link that leads out of {root}"))
        else:
            yield path


def is_below(path: Path, inside: str) -> bool:
    try:
        return Path(os.path.realpath(path)).is_relative_to(inside)
    except OSError:  # of a link in a folder that may not be entered
        return False


def split_instant(stem: str) -> tuple[str, int | None]:
    """A file's name without the instant that it ends in, and that instant, UTC milliseconds."""
    instant = _EPOCH_MS.search(stem)
    return _EPOCH_MS.sub("", stem).strip("-_."), None if instant is None else int(instant[1])
