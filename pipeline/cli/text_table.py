"""Aligned columns for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


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
