"""What a mail says, free of any format: rules fill these values, the templates draw every one of them alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from pipeline.model.incident import IncidentState

Tone = Literal["alarm", "calm"]
DIGEST: Final = "digest"
"""In place of a state: the mail tells many changes."""


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


def render_table(table: Table) -> str:
    """Sets a table in plain text: columns aligned, marked rows led by `>`.

    >>> print(render_table(Table(
    ...     columns=(Column(title="broker"), Column(title="share", is_number=True)),
    ...     rows=(("1", "50.9 %"), ("2", "9.1 %")), marked=frozenset({0}))))
      broker   share
    > 1       50.9 %
      2        9.1 %
    """
    lines = [tuple(column.title for column in table.columns), *table.rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.columns))]
    drawn = []
    for place, line in enumerate(lines):
        cells = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        )
        drawn.append((("> " if place - 1 in table.marked else "  ") + "  ".join(cells)).rstrip())
    return "\n".join(drawn)
