"""Content of a mail, free of any format, and the bytes that are queued, stored and sent (RFC 5322, 2046, 2047, 2387, 3834)."""

import hashlib
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache, partial
from itertools import zip_longest
from typing import Final, Literal

import jinja2
from markupsafe import Markup, escape

from pipeline.config.mail import MAIL_CHANNEL
from pipeline.evidence.brief import Brief
from pipeline.model.incident import AlertMessage, IncidentState
from pipeline.model.number_text import format_name, format_slug
from pipeline.model.window import format_instant

DIGEST: Final = "digest"  # in place of a state: the mail reports many changes
TABLE_WIDTH: Final = 78
_LEAST_WORDS: Final = 20
ID_DOMAIN = "partition-health.local"
WINDOW_HEADER = "X-Partition-Health-Window"
_SUBJECT_LIMIT = 200
_TEXT_WIDTH = 76
_QUESTION_WIDTH = 11
_NBSP = "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|h|min|UTC|[kMGTP]?B)\b|%)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_CODE_SPAN = re.compile(r"`([^`]+)`")


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


def format_subject(text: str) -> str:
    r"""A text as the header `Subject` holds it: one bounded line without encoded words, which would hide breaks (CVE-2024-6923).

    >>> format_subject("=?utf-8?q?=0D=0ABcc:_x?=")
    '=\\x3futf-8?q?=0D=0ABcc:_x?='
    """
    return format_name(text.replace("=?", r"=\x3f"), _SUBJECT_LIMIT)


def message_id_of(cluster: str, key: str, channel: str = MAIL_CHANNEL) -> str:
    """The Message-ID of a change on a channel, without brackets; short, as some mail programs lose a thread of folded ids.

    >>> message_id_of("demo", "K-JKT62CWA-new")
    'K-JKT62CWA-new.demo@partition-health.local'
    """
    way = "" if channel == MAIL_CHANNEL else f".{format_slug(channel)}"
    return f"{format_slug(key, 60)}.{format_slug(cluster, 16)}{way}@{ID_DOMAIN}"


def message_of(
    content: Content, payload: bytes, *, channel: str, now_ms: int, recipients: Sequence[str] = ()
) -> AlertMessage:
    return AlertMessage(
        message_id=message_id_of(content.cluster, content.key, channel),
        cluster=content.cluster,
        incident_id=content.incident_id,
        state=content.state,
        window_start_ms=content.window_start_ms,
        channel=channel,
        tells=",".join(content.tells),
        subject_line=format_subject(content.subject_line),
        recipients=",".join(recipients),
        payload=payload,
        queued_at_ms=now_ms,
    )


def render_message(content: Content, *, sender: str, recipients: Sequence[str], now_ms: int) -> AlertMessage:
    """Renders content as `mixed(alternative(text, html), attachments)`; `ValueError` for a bad address."""
    message_id = message_id_of(content.cluster, content.key)
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = format_subject(content.subject_line)
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ms // 1000, UTC))
    message["Message-ID"] = f"<{message_id}>"
    if content.state not in {"new", DIGEST}:
        opened_by = message_id_of(content.cluster, f"{content.incident_id}-new")
        message["In-Reply-To"] = f"<{opened_by}>"
        message["References"] = f"<{opened_by}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message["X-Partition-Health-Incident"] = content.incident_id
    message["X-Partition-Health-State"] = content.state
    message[WINDOW_HEADER] = format_instant(content.window_start_ms)
    digest = hashlib.blake2b(message_id.encode(), digest_size=8).hexdigest()
    message.set_content(render_text(content), cte="quoted-printable")
    html = _templates().get_template("mail.html.j2").render(content=content)
    message.add_alternative(html, subtype="html", cte="quoted-printable")
    message.set_boundary(f"alternative-{digest}")
    for one in content.attachments:
        maintype = "application" if one.subtype == "json" else "text"
        message.add_attachment(one.text.encode(), maintype, one.subtype, filename=one.name, cte="base64")
    if content.attachments:
        message.set_boundary(f"mixed-{digest}")
    return message_of(content, message.as_bytes(), channel=MAIL_CHANNEL, now_ms=now_ms, recipients=recipients)


def render_text(content: Content) -> str:
    return _templates().get_template("mail.txt.j2").render(content=content)


def attach_report(payload: bytes, html: bytes) -> bytes:
    """The mail with the report about its window as a file; the same arguments give the same bytes."""
    message: EmailMessage = message_from_bytes(payload, policy=SMTP)
    message.add_attachment(html, "text", "html", filename="report.html", cte="base64")
    message.set_boundary(f"mixed-{hashlib.blake2b(str(message['Message-ID']).encode(), digest_size=8).hexdigest()}")
    return message.as_bytes()


@cache
def load_templates(package: str, *, keep_trailing_newline: bool = False) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=keep_trailing_newline,
    )


def _templates() -> jinja2.Environment:
    environment = load_templates("pipeline.alerting", keep_trailing_newline=True)
    environment.filters |= {"name": format_name, "wrap": _wrap, "fact": _fact, "text_table": render_table}
    environment.filters |= {"dated": _dated, "rich": _rich}
    return environment


def _fact(question: str, answer: str) -> str:
    wrapped = _wrap(answer, _TEXT_WIDTH - _QUESTION_WIDTH).splitlines() or [""]
    pairs = zip_longest([question], wrapped, fillvalue="")
    return "\n".join(f"{word:<{_QUESTION_WIDTH}}{line}" for word, line in pairs)


def _wrap(text: str, width: int = _TEXT_WIDTH) -> str:
    wrapped = textwrap.fill(_UNIT.sub(_NBSP, text), width, break_long_words=False, break_on_hyphens=False)
    return wrapped.replace(_NBSP, " ")


def _dated(text: str) -> Markup:
    """Escapes a paragraph and keeps dates, and numbers with their units, on one line."""
    safe = str(escape(_UNIT.sub(_NBSP, text)))
    return Markup(_DATE.sub(r'<span style="white-space:nowrap;">\g<0></span>', safe))  # noqa: S704


def _rich(text: str) -> Markup:
    """The same, and what stands between back-ticks in a fixed-width face: for words of ours, not for names."""
    return Markup(_CODE_SPAN.sub(r'<code style="font-size:13px;">\1</code>', str(_dated(text))))  # noqa: S704
