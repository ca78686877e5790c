"""Content of a mail, free of any format: `pipeline.alerting` fills these values, the templates render them."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Final, Literal

from pipeline.evidence.brief import Brief
from pipeline.model.incident import IncidentState
from pipeline.model.number_text import format_name

DIGEST: Final = "digest"  # in place of a state: the mail reports many changes
TABLE_WIDTH: Final = 78
_LEAST_WORDS: Final = 20


@dataclass(frozen=True, slots=True)
class MailColumn:
    """A column of a table: a number is set to the right; short ones (ids, states, nothing others chose) keep to one line."""

    title: str
    is_number: bool = False
    is_short: bool = False


def number_columns(*titles: str) -> tuple[MailColumn, ...]:
    return tuple(MailColumn(title, is_number=True) for title in titles)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailTable:
    """Rows of finished text, a cell per column; `marked` are positions of rows to highlight, `note` a line below.

    `bars`: of each row a part of 1, drawn as a bar behind the first column; none in plain text, whose cells say the same.
    """

    columns: tuple[MailColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[int] = frozenset()
    bars: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSection:
    """A titled part of a mail: paragraphs, a table, text to copy line by line; whatever is empty is left out."""

    title: str
    text: tuple[str, ...] = ()
    table: MailTable | None = None
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    name: str
    subtype: Literal["csv", "html", "json", "plain"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A whole mail; `key` is that of the change it reports, `tells` are those of all; `figures` are two to four numbers by what they are."""

    cluster: str
    key: str
    tells: tuple[str, ...]
    incident_id: str
    state: IncidentState | Literal["digest"]
    window_start_ms: int
    tone: Literal["alarm", "calm"]
    badge: str
    subject_line: str
    brief: Brief
    figures: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[MailSection, ...] = ()
    footer: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    report: str = ""  # path or address of the report about its window

    @property
    def details(self) -> str:
        return f"in the report of this window, attached or at {self.report}" if self.report else ""

    @property
    def headline(self) -> str:
        facts = " ".join(f"{question}: {answer}." for question, answer in self.brief.facts)
        return f"{format_name(self.cluster)}: {self.brief.headline}. {facts}"


def render_table(table: MailTable, width: int = TABLE_WIDTH) -> str:
    """Sets a table in plain text: columns aligned, marked rows led by `>`, the widest words wrapped where it is too wide.

    >>> print(render_table(MailTable(
    ...     columns=(MailColumn("broker"), MailColumn("share", is_number=True)),
    ...     rows=(("1", "50.9 %"), ("2", "9.1 %")), marked=frozenset({0}))))
      broker   share
    > 1       50.9 %
      2        9.1 %
    """
    lines = [tuple(column.title for column in table.columns), *table.rows]
    limits = _cell_limits(lines, table.columns, width)
    wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
    cells = [
        [wrap(cell, limit) or [""] if limit else [cell] for cell, limit in zip(line, limits, strict=True)]
        for line in lines
    ]
    widths = [max(len(part) for line in cells for part in line[at]) for at in range(len(table.columns))]
    drawn = []
    for at, line in enumerate(cells):
        for part, words in enumerate(zip_longest(*line, fillvalue="")):
            aligned = (
                word.rjust(length) if column.is_number else word.ljust(length)
                for word, length, column in zip(words, widths, table.columns, strict=True)
            )
            mark = "> " if at - 1 in table.marked and part == 0 else "  "
            drawn.append((mark + "  ".join(aligned)).rstrip())
    return "\n".join(drawn)


def _cell_limits(lines: Sequence[tuple[str, ...]], columns: Sequence[MailColumn], width: int) -> list[int | None]:
    """Most characters of a column's lines; None for as many as it has. Of columns of words the widest gives way."""
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    excess = sum(widths) + 2 * len(columns) - width
    wordy = [at for at, column in enumerate(columns) if not (column.is_number or column.is_short)]
    limits: list[int | None] = [None] * len(columns)
    if excess > 0 and wordy:
        widest = max(wordy, key=lambda at: widths[at])
        limits[widest] = max(_LEAST_WORDS, widths[widest] - excess)
    return limits
