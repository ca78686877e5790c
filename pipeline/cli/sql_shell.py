"""Statements typed into a terminal, with history and completion, or piped in; each ends with a semicolon."""

import contextlib
import pydoc
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence

from pipeline.environment import cache_directory, provide_secrets
from pipeline.errors import ConfigError

_PROMPT = "sql> "
_MORE = "  -> "
_LEAVE = ("exit", "quit")
_HISTORY_LENGTH = 1000


def read_statements(names: Sequence[str]) -> Iterator[str]:
    """Reads statements from stdin until it ends or `exit`; the tab key completes these names of tables and columns."""
    if sys.stdin.isatty():
        with _line_editing(names):
            yield from split_statements(_typed_lines())
    else:
        yield from split_statements(sys.stdin)


def show_answer(text: str) -> None:
    """Prints an answer; one longer than the terminal through `$PAGER`, else `less`."""
    if sys.stdin.isatty() and sys.stdout.isatty() and text.count("\n") >= shutil.get_terminal_size().lines:
        # less ends by itself where all fits, keeps colours, and leaves the answer there
        provide_secrets({"LESS": "FRX"})
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def split_statements(lines: Iterable[str | None]) -> Iterator[str]:
    """Cuts lines into statements at semicolons outside quotes; the last one needs none, and None drops what was begun."""
    statement = ""
    for line in lines:
        if line is None:
            statement = ""
            continue
        if "\0" in line:
            raise ConfigError("a NUL in a statement: no table and no text of SQL holds one")
        for part in re.split("(?<=;)", line.rstrip("\n") + "\n"):
            statement += part
            if sqlite3.complete_statement(statement):  # its last semicolon is outside quotes and comments
                found, statement = statement.strip().removesuffix(";").strip(), ""
                if found.lower() in _LEAVE:
                    return
                if found:
                    yield found
        if statement.strip().lower() in _LEAVE:
            return
    if statement.strip():
        yield statement.strip()


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
