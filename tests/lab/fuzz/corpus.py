"""Cases that are kept: of each target the smallest found for each thing it says, and whatever once failed. A line of Base64 each."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError, InputError

if TYPE_CHECKING:
    from tests.lab.fuzz.targets import Target

FOLDER = Path(__file__).parent / "corpus"
MOST_BYTES = 1024
_MOST_CASES = 16


def load_cases(name: str) -> list[bytes]:
    """The kept cases of a target."""
    path = _path(name)
    return [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []


def keep_case(name: str, data: bytes) -> Path:
    """Adds a case."""
    lines = sorted(
        {base64.b64encode(one).decode() for one in (*load_cases(name), data)}, key=lambda one: (len(one), one)
    )
    FOLDER.mkdir(exist_ok=True)
    _path(name).write_text("".join(f"{line}\n" for line in lines))
    return _path(name)


def choose_cases(target: Target, cases: list[bytes]) -> list[bytes]:
    """The smallest case for each thing that the target says of them."""
    smallest: dict[str, bytes] = {}
    for data in sorted(cases, key=len):
        if 0 < len(data) <= MOST_BYTES:
            smallest.setdefault(_answer(target, data), data)
    return list(smallest.values())[:_MOST_CASES]


def _answer(target: Target, data: bytes) -> str:
    """The words of the error, or of what was wrong with parts of it, without numbers."""
    try:
        found = target.read(data)
    except (InputError, ConfigError) as error:
        said = [getattr(error, "reason", str(error))]
    else:
        said = sorted({one.reason for one in getattr(found, "bad_lines", getattr(found, "problems", ()))})
    return re.sub(r"'[^']*'|\d+", "", " ".join(said))[:80]


def _path(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '-')}.txt"
