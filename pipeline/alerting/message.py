"""Content of a mail to the bytes that are queued, stored and sent.

References:
    RFC 5322 (Message-ID, References), RFC 2046 (alternative), RFC 2387 (related), RFC 3834 (Auto-Submitted).
"""

from __future__ import annotations

import hashlib
import re
import textwrap
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

from pipeline.alerting.blind import describe_blind
from pipeline.alerting.broker_share import describe_broker_share
from pipeline.alerting.content import render_table
from pipeline.alerting.numbers import format_name, format_slug
from pipeline.model.window import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.alerting.blind import BlindEvidence
    from pipeline.alerting.content import Content
    from pipeline.alerting.evidence import BrokerShareEvidence
    from pipeline.model.incident import IncidentState

ID_DOMAIN = "partition-health.local"
WINDOW_HEADER = "X-Partition-Health-Window"
_SUBJECT_LIMIT = 200
_TEXT_WIDTH = 76
_NBSP = "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|h|min|UTC|[kMGTP]?B)\b|%)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_CODE_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A message to deliver: a row of `gold.alert_outbox` without what happens to it later.

    Attributes:
        message_id: Message-ID without brackets, the same whenever this state of this incident is told.
        cluster: Name of the cluster.
        incident_id: Incident it is about.
        state: State it tells.
        window_start_ms: Window that brought the state, UTC milliseconds.
        subject_line: Subject.
        recipients: Addresses.
        payload: The whole message, RFC 5322.
    """

    message_id: str
    cluster: str
    incident_id: str
    state: IncidentState
    window_start_ms: int
    subject_line: str
    recipients: tuple[str, ...]
    payload: bytes


def message_id_of(cluster: str, incident_id: str, state: IncidentState) -> str:
    """The Message-ID of an incident's state, without brackets.

    Short enough to stand on one header line: some mail programs lose a thread whose ids are folded. The incident's id
    tells clusters apart, also where their names look alike here.

    >>> message_id_of("demo", "K-JKT62CWA", "new")
    'K-JKT62CWA-new.demo@partition-health.local'
    """
    return f"{format_slug(incident_id)}-{state}.{format_slug(cluster, 16)}@{ID_DOMAIN}"


def render_broker_share(
    evidence: BrokerShareEvidence, *, sender: str, recipients: Sequence[str], now_ms: int
) -> AlertMessage:
    """Renders the mail of an incident of the rule `broker_share`.

    Args:
        evidence: What is known.
        sender: Address it comes from.
        recipients: Addresses it goes to.
        now_ms: The date it carries, UTC milliseconds.

    Raises:
        ValueError: if the evidence lacks the broker concerned, or an address holds a line break.
    """
    return render_message(describe_broker_share(evidence), sender=sender, recipients=recipients, now_ms=now_ms)


def render_blind(evidence: BlindEvidence, *, sender: str, recipients: Sequence[str], now_ms: int) -> AlertMessage:
    """Renders the mail of an incident of the rule `source_arrival`.

    Args:
        evidence: What is known.
        sender: Address it comes from.
        recipients: Addresses it goes to.
        now_ms: The date it carries, UTC milliseconds.

    Raises:
        ValueError: if an address holds a line break.
    """
    return render_message(describe_blind(evidence), sender=sender, recipients=recipients, now_ms=now_ms)


def render_message(content: Content, *, sender: str, recipients: Sequence[str], now_ms: int) -> AlertMessage:
    """Renders content as `alternative(text/plain, related(text/html, image/png ...))`.

    The same arguments give the same bytes. Mails of one incident form a thread: each refers to the mail that opened it.

    Args:
        content: What to say.
        sender: Address it comes from.
        recipients: Addresses it goes to.
        now_ms: The date it carries, UTC milliseconds.

    Raises:
        ValueError: if an address holds a line break.
    """
    message_id = message_id_of(content.cluster, content.incident_id, content.state)
    subject_line = format_name(content.subject_line, _SUBJECT_LIMIT)
    message = EmailMessage(policy=SMTP)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Subject"] = subject_line
    message["Date"] = format_datetime(datetime.fromtimestamp(now_ms // 1000, UTC))
    message["Message-ID"] = f"<{message_id}>"
    opened_by = message_id_of(content.cluster, content.incident_id, "new")
    if opened_by != message_id:
        message["In-Reply-To"] = f"<{opened_by}>"
        message["References"] = f"<{opened_by}>"
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message["X-Partition-Health-Incident"] = content.incident_id
    message["X-Partition-Health-State"] = content.state
    message[WINDOW_HEADER] = format_instant(content.window_start_ms)
    _set_body(message, content, message_id)
    return AlertMessage(
        message_id=message_id,
        cluster=content.cluster,
        incident_id=content.incident_id,
        state=content.state,
        window_start_ms=content.window_start_ms,
        subject_line=subject_line,
        recipients=tuple(recipients),
        payload=message.as_bytes(),
    )


def render_text(content: Content) -> str:
    """The plain-text part: all of the content but the pictures."""
    return _templates().get_template("mail.txt.j2").render(content=content)


def render_html(content: Content, cids: dict[str, str]) -> str:
    """The HTML part.

    Args:
        content: What to say.
        cids: Content-ID of each picture, without brackets, by its name.
    """
    return _templates().get_template("mail.html.j2").render(content=content, cids=cids)


def _set_body(message: EmailMessage, content: Content, message_id: str) -> None:
    pictures = [section.picture for section in content.sections if section.picture is not None]
    digest = hashlib.blake2b(message_id.encode(), digest_size=8).hexdigest()
    cids = {picture.name: f"{picture.name}.{digest}@{ID_DOMAIN}" for picture in pictures}
    message.set_content(render_text(content), cte="quoted-printable")
    message.add_alternative(render_html(content, cids), subtype="html", cte="quoted-printable")
    html = _parts(message)[1]
    for picture in pictures:
        html.add_related(
            picture.png,
            "image",
            "png",
            cid=f"<{cids[picture.name]}>",
            filename=f"{picture.name}.png",
            disposition="inline",
        )
    message.set_boundary(f"alternative-{digest}")
    if pictures:
        html.set_boundary(f"related-{digest}")


def _parts(message: EmailMessage) -> list[EmailMessage]:
    return [part for part in message.iter_parts() if isinstance(part, EmailMessage)]


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline.alerting"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(wrap=_wrap, text_table=render_table, dated=_dated, rich=_rich)
    return environment


def _wrap(text: str) -> str:
    wrapped = textwrap.fill(_unbroken(text), _TEXT_WIDTH, break_long_words=False, break_on_hyphens=False)
    return wrapped.replace(_NBSP, " ")


def _unbroken(text: str) -> str:
    """Keeps numbers and their units on one line."""
    return _UNIT.sub(_NBSP, text)


def _dated(text: str) -> Markup:
    """Escapes a paragraph and keeps dates, and numbers with their units, on one line."""
    safe = str(escape(_unbroken(text)))
    return Markup(_DATE.sub(r'<span style="white-space:nowrap;">\g<0></span>', safe))  # noqa: S704


def _rich(text: str) -> Markup:
    """The same, and what stands between back-ticks in a fixed-width face: for words of ours, not for names."""
    return Markup(_CODE_SPAN.sub(r'<code style="font-size:13px;">\1</code>', str(_dated(text))))  # noqa: S704


def addresses(text: str) -> tuple[str, ...]:
    """Reads back the recipients column of the outbox: addresses, comma-separated."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def join_addresses(recipients: Iterable[str]) -> str:
    """Writes the recipients column of the outbox."""
    return ",".join(recipients)
