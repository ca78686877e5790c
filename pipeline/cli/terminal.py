"""What commands share: options, and aligned columns that fit a terminal, with colour for verdicts besides their words."""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.model.number_text import escape_hidden

_STYLES = {
    "fail": "bold red", "warn": "yellow", "ok": "green", "not_enough_traffic": "cyan", "incomplete": "cyan",
    "stale": "cyan", "given up": "bold red", "silenced": "yellow",
}  # fmt: skip  # a table: short fields share a line
"""Of words that mean a verdict or a state."""
_LEAST_WIDTH = 8  # of a column; where a terminal has less, a row becomes a list


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration; else $PARTITION_HEALTH_CONFIG")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")


def print_answer(args: argparse.Namespace, document: object, text: str | Callable[[], str]) -> None:
    """Prints what a command answers: with `--json` its document, else its text."""
    shown = json.dumps(document, indent=1) + "\n" if args.json else text if isinstance(text, str) else text()
    sys.stdout.write(shown)


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> str:
    """Writes rows of cells without line breaks in aligned columns; `right` are columns of numbers, by position.

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


def fields_of(value: object, names: str) -> dict[str, Any]:
    """A row of a document: fields of a value by their names, which stand between blanks."""
    return {name: getattr(value, name) for name in names.split()}


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, indent: int = 0) -> str:
    """Rows of a document as a table; `columns`: titles by field, whose unit says how it is written."""
    cells = [[format_field(name, row[name]) for name in columns] for row in rows]
    is_number = [all(isinstance(row[name], int | float | None) for row in rows) for name in columns]
    right = frozenset(at for at, is_right in enumerate(is_number) if is_right)
    return show_table(list(columns.values()), cells, right=right, indent=indent)


def format_field(name: str, value: Any) -> str:  # noqa: ANN401 - of any field
    """A value of a document's field.

    >>> format_field("max_timestamp_ms", 1700000000123), format_field("size_bytes", 12), format_field("is_active", True)
    ('2023-11-14T22:13:20.123Z', '12', 'yes')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("timestamp_ms"):
        return format_timestamp(value)
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or "-"
    return escape_hidden(str(value))  # such as a cluster id, which a file on a host holds


def format_timestamp(at_ms: int) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC; the number itself where a calendar does not reach."""
    try:
        text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return str(at_ms)
    return text.replace("+00:00", "Z")


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: int = 0
) -> str:
    """Formats a table for people: cells fold to a terminal's width, rows become lists where that does not suffice."""
    if not sys.stdout.isatty():
        return textwrap.indent(format_table(header, rows, right=right), " " * indent)
    if len(header) > 2 and len(header) * (_LEAST_WIDTH + 2) > shutil.get_terminal_size().columns - indent:
        pairs = [(name, cell) for row in rows for name, cell in zip((*header, ""), (*row, ""), strict=True)]
        return _draw(("", ""), pairs, frozenset(), indent)
    return _draw(header, rows, right, indent)


def print_error(text: str) -> None:
    """Prints to standard error; what names and servers' answers hold does not act on the terminal."""
    print(escape_hidden(text, keep="\n"), file=sys.stderr)


def paint(text: str, verdict: str) -> str:
    return _render(_styled(text, verdict), soft_wrap=True) if sys.stdout.isatty() else text


def text_width(most: int) -> int:
    return min(most, shutil.get_terminal_size().columns) if sys.stdout.isatty() else most


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
    from rich.console import Console

    console = Console(width=shutil.get_terminal_size().columns, highlight=False)
    with console.capture() as captured:
        console.print(drawn, soft_wrap=soft_wrap, end="")
    return captured.get()
