"""What a mail says, free of any format: rules fill these values, the templates draw every one of them alike."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.model.incident import IncidentState

Tone = Literal["alarm", "calm"]
DIGEST: Final = "digest"
"""In place of a state: the mail tells many changes."""
TABLE_WIDTH: Final = 78
_LEAST_WORDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its head.
        is_number: Set to the right.
        is_text_only: Left out of the HTML part, such as a bar of characters beside a picture.
        is_short: Kept on one line: ids, states, nothing that others chose.
    """

    title: str
    is_number: bool = False
    is_text_only: bool = False
    is_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of finished text.

    Attributes:
        columns: Its columns.
        rows: Cells, one per column.
        marked: Places of the rows to highlight.
        note: A line below, such as what was left out; may be empty.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An inline picture of the HTML part.

    Attributes:
        name: File name without ending, letters, digits and `_`.
        png: The picture.
        alt: What it shows, for those who do not see it.
    """

    name: str
    png: bytes
    alt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A titled part of a mail; whatever is empty is left out.

    Attributes:
        title: Its head.
        text: Paragraphs.
        picture: A picture.
        table: A table.
        code: Text to copy, kept line by line.
    """

    title: str
    text: tuple[str, ...] = ()
    picture: Picture | None = None
    table: Table | None = None
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number worth large type.

    Attributes:
        label: What it is.
        value: The number with its unit.
    """

    label: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that comes with a mail.

    Attributes:
        name: File name: letters, digits, `-`, `_`, `.`.
        subtype: Of `text/`, or of `application/` where that is what it is: `csv`, `json`, `plain`.
        text: What is in it.
    """

    name: str
    subtype: Literal["csv", "json", "plain"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A whole mail.

    Attributes:
        cluster: Name of the cluster, as configured.
        key: Of the change it tells, see `IncidentChange.key`; of a digest its own.
        tells: Keys of all changes it tells.
        incident_id: Incident it is about; of a digest its own id.
        state: State the incident entered, or `digest`.
        window_start_ms: Window that brought the state, UTC milliseconds.
        tone: Colour of the head.
        badge: One word: `FAIL`, `RESOLVED`.
        subject_line: The mail's subject.
        title: What it is about, in a few words.
        headline: First sentences, in plain words.
        figures: The numbers that matter most, two to four.
        sections: The rest, most useful first.
        footer: Small print.
        attachments: Files that come with it.
    """

    cluster: str
    key: str
    tells: tuple[str, ...]
    incident_id: str
    state: IncidentState | Literal["digest"]
    window_start_ms: int
    tone: Tone
    badge: str
    subject_line: str
    title: str
    headline: str
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]
    footer: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()


def render_table(table: Table, width: int = TABLE_WIDTH) -> str:
    """Sets a table in plain text: columns aligned, marked rows led by `>`, the widest words wrapped where it is too wide.

    Args:
        table: The table.
        width: Characters of a line that it should keep to; numbers and words as long as a name are not broken for it.

    >>> print(render_table(Table(
    ...     columns=(Column(title="broker"), Column(title="share", is_number=True)),
    ...     rows=(("1", "50.9 %"), ("2", "9.1 %")), marked=frozenset({0}))))
      broker   share
    > 1       50.9 %
      2        9.1 %
    """
    lines = [tuple(column.title for column in table.columns), *table.rows]
    limits = _cell_limits(lines, table.columns, width)
    cells = [
        [textwrap.wrap(cell, limit, break_long_words=False, break_on_hyphens=False) or [""] if limit else [cell]
         for cell, limit in zip(line, limits, strict=True)]
        for line in lines
    ]  # fmt: skip
    widths = [max(len(part) for line in cells for part in line[place]) for place in range(len(table.columns))]
    drawn = []
    for place, line in enumerate(cells):
        for part, words in enumerate(zip_longest(*line, fillvalue="")):
            said = (
                word.rjust(length) if column.is_number else word.ljust(length)
                for word, length, column in zip(words, widths, table.columns, strict=True)
            )
            mark = "> " if place - 1 in table.marked and part == 0 else "  "
            drawn.append((mark + "  ".join(said)).rstrip())
    return "\n".join(drawn)


def _cell_limits(lines: Sequence[tuple[str, ...]], columns: Sequence[Column], width: int) -> list[int | None]:
    """Most characters of a column's lines; None for as many as it has. Of columns of words the widest gives way."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    excess = sum(widths) + 2 * len(columns) - width
    wordy = [
        place
        for place, column in enumerate(columns)
        if not (column.is_number or column.is_short or column.is_text_only)
    ]
    limits: list[int | None] = [None] * len(columns)
    if excess > 0 and wordy:
        widest = max(wordy, key=lambda place: widths[place])
        limits[widest] = max(_LEAST_WORDS, widths[widest] - excess)
    return limits
