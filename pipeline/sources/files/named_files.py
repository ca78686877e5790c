"""Files that the configuration names: themselves, by patterns, or by their folders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline.model.log import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

_EPOCH_MS = re.compile(r"(\d{13})(?=\D*$)")


def list_files(paths: Iterable[Path], patterns: Sequence[str], problems: list[Problem]) -> Iterator[Path]:
    """The files named, by themselves or by a pattern, and at any depth of the folders named those that fit `patterns`.

    `problems` takes paths that lead to no file.
    """
    for root in paths:
        if root.is_dir():
            found = {path for pattern in patterns for path in root.rglob(pattern)}
        else:
            found = {root} if root.exists() else set(root.parent.glob(root.name))
        files = sorted(path for path in found if path.is_file())
        if not files:
            problems.append(Problem(path=str(root), position=None, reason="no such file, or nothing in it"))
        yield from files


def split_instant(stem: str) -> tuple[str, int | None]:
    """A file's name without the instant that it ends in, and that instant, UTC milliseconds.

    >>> split_instant("stats-1700000000001"), split_instant("run")
    (('stats', 1700000000001), ('run', None))
    """
    instant = _EPOCH_MS.search(stem)
    return _EPOCH_MS.sub("", stem).strip("-_."), None if instant is None else int(instant[1])
