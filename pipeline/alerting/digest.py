"""One mail for many changes of one window: nobody reads a hundred mails at 3 a.m."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from typing import TYPE_CHECKING

from pipeline.alerting.content import DIGEST, Attachment, Column, Content, Figure, Section, Table
from pipeline.alerting.queries import sql_instant, sql_text
from pipeline.alerting.rule_words import format_measure
from pipeline.model.number_text import format_clock, format_count, format_name
from pipeline.model.rule import times_worse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.model.incident import IncidentChange

MOST_ROWS = 25
_ORDER = {"new": 0, "worse": 1, "continuing": 2, "resolved": 3}


def describe_digest(cluster: str, changes: Sequence[IncidentChange], *, owner: str = "") -> Content:
    """Words and tables of a digest: the gravest first, all of them as a file.

    Args:
        cluster: Name of the cluster.
        changes: Of one window, more than one.
        owner: Who looks after the cluster; may be empty.
    """
    ordered = sorted(changes, key=lambda change: (_ORDER[change.state], -_over_limit(change), change.subject))
    window_start_ms = ordered[0].window_start_ms
    counts = {state: sum(change.state == state for change in ordered) for state in _ORDER}
    told = ", ".join(f"{format_count(count)} {state}" for state, count in counts.items() if count)
    digest_id = _digest_id(cluster, ordered)
    worst = ordered[0]
    open_count = len(ordered) - counts["resolved"]
    name = format_name(cluster)
    return Content(
        cluster=cluster,
        key=f"{digest_id}-{DIGEST}",
        tells=tuple(change.key for change in ordered),
        incident_id=digest_id,
        state=DIGEST,
        window_start_ms=window_start_ms,
        tone="alarm" if open_count else "calm",
        badge="DIGEST",
        subject_line=f"[DIGEST] {format_name(cluster, 60)}: {told} incidents in the window from "
        f"{format_clock(window_start_ms)} #{digest_id}",
        title=f"{name} · {format_count(len(ordered))} changes",
        headline=(
            f"{format_count(len(ordered))} incidents of cluster {name} changed in the window from "
            f"{format_clock(window_start_ms)}: {told}. So many at once usually have one cause: a broker that is down, a "
            f"reassignment, a source that does not arrive. The gravest is {format_name(worst.subject)}."
        ),
        figures=tuple(Figure(label=state, value=format_count(count)) for state, count in counts.items() if count),
        sections=(_table_section(ordered), _rows_section(cluster, window_start_ms)),
        footer=(
            f"{f'Owner: {format_name(owner)}. ' if owner else ''}You get one mail instead of {format_count(len(ordered))}; "
            "mail.digest_above in the configuration says from how many on. All times are UTC.",
        ),
        attachments=(Attachment(name="incidents.csv", subtype="csv", text=_csv(ordered)),),
    )


def _over_limit(change: IncidentChange) -> float:
    return 0.0 if change.value is None else times_worse(change.rule, change.value, change.limit_value)


def _digest_id(cluster: str, changes: Sequence[IncidentChange]) -> str:
    told = "\0".join((cluster, *sorted(change.key for change in changes)))
    digest = hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return f"D-{base64.b32encode(digest).decode('ascii')}"


def _table_section(ordered: Sequence[IncidentChange]) -> Section:
    columns = (
        Column(title="incident", is_short=True),
        Column(title="state", is_short=True),
        Column(title="what"),
        Column(title="measure", is_number=True),
        Column(title="limit", is_number=True),
    )
    rows = tuple(
        (
            change.incident_id,
            change.state,
            f"{format_name(change.subject, 40)} ({format_name(change.rule, 24)})",
            "" if change.value is None else format_measure(change.rule, change.value),
            format_measure(change.rule, change.limit_value),
        )
        for change in ordered[:MOST_ROWS]
    )
    left = len(ordered) - len(rows)
    note = f"{format_count(left)} more are in the attached incidents.csv." if left else ""
    return Section(title="The gravest first", table=Table(columns=columns, rows=rows, note=note))


def _rows_section(cluster: str, window_start_ms: int) -> Section:
    query = "\n".join(
        (
            "SELECT incident_id, state, rule, subject, since, value, limit_value",
            "FROM gold.incidents",
            f"WHERE cluster = {sql_text(cluster)} AND window_start = {sql_instant(window_start_ms)}",
            "ORDER BY state, value DESC;",
        )
    )
    return Section(title="See the rows", text=("Paste into `partition-health sql`:",), code=query)


def _csv(ordered: Sequence[IncidentChange]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("incident_id", "state", "rule", "subject", "since", "value", "peak_value", "limit_value"))
    for change in ordered:
        row = (change.incident_id, change.state, change.rule, _harmless(change.subject), format_clock(change.since_ms))
        writer.writerow((*row, change.value, change.peak_value, change.limit_value))
    return text.getvalue()


def _harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    shown = format_name(text, 300)
    return f"'{shown}" if shown[:1] in {"=", "+", "-", "@"} else shown
