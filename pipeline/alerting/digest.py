"""One mail for many changes of one window, and one a day about all clusters: nobody reads a hundred mails at 3 a.m."""

import base64
import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.alerting.incident_mail import incidents_query
from pipeline.alerting.message import DIGEST, Attachment, Content, MailColumn, MailSection, MailTable, number_columns
from pipeline.evidence.brief import Brief
from pipeline.model.incident import IncidentChange
from pipeline.model.number_text import format_clock, format_count, format_name, join_names
from pipeline.rules import format_measure, times_worse

MOST_ROWS = 25
MOST_FILE_CHARS = 1_000_000  # mail servers refuse mails of ten megabytes
_FORMULA = re.compile(r"(^|;)(?=\W*?[=+\-@])")  # what a spreadsheet takes for one; some part lines at semicolons
_ORDER = {"new": 0, "worse": 1, "continuing": 2, "resolved": 3, "withdrawn": 4}
ALL_CLUSTERS = "all-clusters"  # in place of a cluster's name, in the outbox and the Message-ID
_MOST_NAMED = 3


def describe_digest(cluster: str, changes: Sequence[IncidentChange], *, owner: str = "") -> Content:
    worst = {
        one.key: 0.0 if one.value is None else times_worse(one.rule, one.value, one.limit_value) for one in changes
    }
    ordered = sorted(changes, key=lambda change: (_ORDER[change.state], -worst[change.key], change.subject))
    counts = {state: sum(change.state == state for change in ordered) for state in _ORDER}
    counted = ", ".join(f"{format_count(count)} {state}" for state, count in counts.items() if count)
    start_ms, keys = ordered[0].window_start_ms, "\0".join((cluster, *sorted(change.key for change in ordered)))
    digest = hashlib.blake2b(keys.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    digest_id = f"D-{base64.b32encode(digest).decode('ascii')}"
    name, since, count = format_name(cluster), format_clock(start_ms), format_count(len(ordered))
    file, left = _csv(ordered)
    is_open = any(change.is_open for change in ordered)
    to_do = "look for a broker that is down, a reassignment, a source without data"
    text, query = ("Paste into `partition-health sql`:",), incidents_query(cluster, start_ms)
    return Content(
        cluster=cluster,
        key=f"{digest_id}-{DIGEST}",
        tells=tuple(change.key for change in ordered),
        incident_id=digest_id,
        state=DIGEST,
        window_start_ms=start_ms,
        tone="alarm" if is_open else "calm",
        badge="DIGEST",
        subject_line=f"[DIGEST] {format_name(cluster, 60)}: {counted} incidents in the window from {since} #{digest_id}",
        brief=Brief(
            headline=f"{count} incidents of cluster {name} changed at once",
            facts=(
                ("Since", f"the window from {since}"),
                ("What", counted),
                ("Most severe", f"{format_name(ordered[0].subject)}, {ordered[0].rule.replace('_', ' ')}"),
                ("Why", "so many at once usually have one cause"),
                ("Do first", to_do if is_open else "nothing"),
            ),
        ),
        figures={state: format_count(count) for state, count in counts.items() if count},
        sections=(_table_section(ordered, left), MailSection(title="See the rows", text=text, code=query)),
        footer=(
            f"{f'Owner: {format_name(owner)}. ' if owner else ''}You get one mail instead of {count}; mail.digest_above in "
            "the configuration sets the number of incidents from which this is done. All times are UTC.",
        ),
        attachments=(Attachment(name="incidents.csv", subtype="csv", text=file),),
    )


def _table_section(ordered: Sequence[IncidentChange], not_in_file: int) -> MailSection:
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
    short = (MailColumn("incident", is_short=True), MailColumn("state", is_short=True))
    left = len(ordered) - len(rows)
    note = f"{format_count(left - not_in_file)} more are in the attached incidents.csv." if left else ""
    if not_in_file:
        note += f" It lacks {format_count(not_in_file)} others: gold.incidents has all."
    table = MailTable(columns=(*short, MailColumn("what"), *number_columns("measure", "limit")), rows=rows, note=note)
    return MailSection(title="Most severe first", table=table)


def _csv(ordered: Sequence[IncidentChange]) -> tuple[str, int]:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(("incident_id", "state", "rule", "subject", "since", "value", "peak_value", "limit_value"))
    for count, change in enumerate(ordered):
        if text.tell() > MOST_FILE_CHARS:
            writer.writerow((f"{format_count(len(ordered) - count)} more are in gold.incidents",))
            return text.getvalue(), len(ordered) - count
        subject = _FORMULA.sub(r"\1'", format_name(change.subject, 300))
        row = (change.incident_id, change.state, change.rule, subject, format_clock(change.since_ms))
        writer.writerow((*row, change.value, change.peak_value, change.limit_value))
    return text.getvalue(), 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDay:
    cluster: str
    window_count: int  # windows that began in them
    judged_count: int  # of these
    newest_ms: int | None  # start of the newest judged window, however old
    is_recent: bool  # whether it is one of the cluster's last windows
    open_incidents: tuple[str, ...] = ()  # `broker 1 (broker share)`, oldest first

    @property
    def state(self) -> str:
        """`not judged`, `incidents`, or `well`; what is not known counts first."""
        if not (self.judged_count and self.is_recent):
            return "not judged"
        return "incidents" if self.open_incidents else "well"


_STATES = ("not judged", "incidents", "well")


def describe_day(days: Sequence[ClusterDay], end_ms: int) -> Content:
    counts = Counter(day.state for day in days)
    counted = ", ".join(f"{format_count(counts[state])} {state}" for state in _STATES if counts[state])
    ordered = sorted(days, key=lambda day: (_STATES.index(day.state), -len(day.open_incidents), day.cluster))
    count, until = f"{format_count(len(days))} clusters", format_clock(end_ms)
    short = (MailColumn("cluster"), MailColumn("state", is_short=True))
    table = MailTable(
        columns=(*short, *number_columns("judged"), MailColumn("newest", is_short=True), MailColumn("open incidents")),
        rows=tuple(
            (
                format_name(day.cluster, 40),
                day.state,
                f"{day.judged_count} of {day.window_count}",
                "never" if day.newest_ms is None else format_clock(day.newest_ms),
                join_names([format_name(text, 40) for text in day.open_incidents], _MOST_NAMED),
            )
            for day in ordered
        ),
        marked=frozenset(at for at, day in enumerate(ordered) if day.state != "well"),
        note="judged: windows of these 24 hours; newest: start of the newest judged window.",
    )
    digest_id, headline = f"D-{format_clock(end_ms)[:10]}", f"{count}: {counted}"
    return Content(
        cluster=ALL_CLUSTERS,
        key=f"{digest_id}-day",
        tells=(),
        incident_id=digest_id,
        state=DIGEST,
        window_start_ms=end_ms,
        tone="calm" if counts["well"] == len(days) else "alarm",
        badge="DAY",
        subject_line=f"[DAY] {headline} in the 24 hours to {until}",
        brief=Brief(headline=headline, facts=(("Until", until),)),
        sections=(MailSection(title="All clusters", table=table),),
        footer=("One mail a day: mail.daily in the configuration. All times are UTC.",),
    )
