"""Statements typed into a terminal, with history and completion, or piped in; each ends with a semicolon."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from pipeline.environment import cache_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PROMPT = "sql> "
_MORE = "  -> "
_LEAVE = ("exit", "quit")
_HISTORY_LENGTH = 1000


def read_statements(names: Sequence[str]) -> Iterator[str]:
    """Statements from stdin until it ends or says `exit`.

    Args:
        names: Tables, offered by the tab key.
    """
    if sys.stdin.isatty():
        with _line_editing(names):
            yield from split_statements(_typed_lines())
    else:
        yield from split_statements(sys.stdin)


def split_statements(lines: Iterable[str | None]) -> Iterator[str]:
    r"""Cuts lines into statements at semicolons outside quotes; the last one needs none.

    Args:
        lines: Lines of text; None drops what was begun.

    >>> list(split_statements(["SELECT 1;", "SELECT ';'", "  AS x; exit", "SELECT 3"]))
    ['SELECT 1', "SELECT ';'\n  AS x"]
    >>> list(split_statements(["SELECT", "2"]))
    ['SELECT\n2']
    """
    statement = ""
    quote = ""
    for line in lines:
        if line is None:
            statement, quote = "", ""
            continue
        *ended, rest, quote = _cut(line.rstrip("\n"), quote)
        for part in ended:
            statement = (statement + part).strip()
            if statement.lower() in _LEAVE:
                return
            if statement:
                yield statement
            statement = ""
        if not quote and (statement + rest).strip().lower() in _LEAVE:
            return
        statement += rest + "\n"
    if statement.strip():
        yield statement.strip()


def _cut(line: str, quote: str) -> list[str]:
    """Parts of a line between semicolons outside quotes, and last the quote that stays open, or ""."""
    parts = [""]
    for letter in line:
        if letter == ";" and not quote:
            parts.append("")
            continue
        if letter in "'\"`" and quote in ("", letter):
            quote = "" if quote else letter
        parts[-1] += letter
    return [*parts, quote]


def _typed_lines() -> Iterator[str | None]:
    prompt = _PROMPT
    while True:
        try:
            line = input(prompt)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n(exit or Ctrl-D leaves)")
            prompt = _PROMPT
            yield None
            continue
        yield line
        prompt = _PROMPT if not line.strip() or line.rstrip().endswith(";") else _MORE


@contextlib.contextmanager
def _line_editing(names: Sequence[str]) -> Iterator[None]:
    try:
        import readline  # not everywhere
    except ImportError:
        yield
        return
    history = cache_directory() / "sql_history"
    history.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LENGTH)
    readline.set_completer_delims(" \t\n(,;=")
    readline.set_completer(lambda text, state: ([n for n in names if n.startswith(text.lower())] + [None])[state])
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(history)
