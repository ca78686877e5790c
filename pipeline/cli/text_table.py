"""Aligned columns; on a terminal they fit its width, and verdicts have colour besides their words."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

_STYLES = {
    "fail": "bold red",
    "warn": "yellow",
    "ok": "green",
    "not_enough_traffic": "cyan",
    "incomplete": "cyan",
    "stale": "cyan",
    "given up": "bold red",
    "silenced": "yellow",
}
"""Of words that mean a verdict or a state."""
_LEAST_WIDTH = 8  # of a column; where a terminal has less, a row becomes a list


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """Writes rows in aligned columns under their names.

    `rows`: cells as text, without line breaks.
    `right`: columns (by position) to align on the right: numbers.

    >>> print(format_table(["name", "rows"], [["a", "12"], ["bcdef", "3"]], right=frozenset({1})), end="")
    name   rows
    a        12
    bcdef     3
    """
    lines = [list(header), *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in lines
    )


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: int = 0
) -> str:
    """Formats a table for people: cells fold to a terminal's width, rows become lists where that does not suffice."""
    if not sys.stdout.isatty():
        return textwrap.indent(format_table(header, rows, right=right), " " * indent)
    if len(header) > 2 and len(header) * (_LEAST_WIDTH + 2) > _terminal_width() - indent:
        pairs = [(name, cell) for row in rows for name, cell in zip((*header, ""), (*row, ""), strict=True)]
        return _draw(("", ""), pairs, frozenset(), indent)
    return _draw(header, rows, right, indent)


def paint(text: str, verdict: str) -> str:
    """Colours a text by its verdict, on a terminal."""
    return _render(_styled(text, verdict), soft_wrap=True) if sys.stdout.isatty() else text


def text_width(most: int) -> int:
    """Returns the width for a text: `most` characters, on a terminal at most its own."""
    return min(most, _terminal_width()) if sys.stdout.isatty() else most


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns


def _draw(header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int], indent: int) -> str:
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=any(header), header_style="bold")
    for at, name in enumerate(header):
        table.add_column(_styled(name, ""), justify="right" if at in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_styled(cell, cell) for cell in row))
    return _render(Padding(table, (0, 0, 0, indent), expand=False))


def _styled(text: str, verdict: str) -> Any:  # noqa: ANN401 - rich is imported where it is needed
    from rich.text import Text

    return Text(text, style=_STYLES.get(verdict, ""))


def _render(drawn: Any, *, soft_wrap: bool = False) -> str:  # noqa: ANN401
    """Renders with rich for this terminal; without colour where `NO_COLOR` is set or the terminal has none."""
    from rich.console import Console

    console = Console(width=_terminal_width(), highlight=False)
    with console.capture() as captured:
        console.print(drawn, soft_wrap=soft_wrap, end="")
    return captured.get()
