"""One mail a day about all clusters: which are healthy, which have incidents, which were not judged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.alerting.content import DIGEST, Content, MailColumn, MailSection, MailTable, number_columns
from pipeline.evidence.brief import Brief
from pipeline.model.number_text import format_clock, format_count, format_name

ALL_CLUSTERS = "all-clusters"
"""In place of a cluster's name, in the outbox and the Message-ID."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDay:
    """A cluster's last 24 hours."""

    cluster: str
    window_count: int  # windows that began in them
    judged_count: int  # of these
    newest_ms: int | None  # start of the newest judged window, however old
    open_incidents: tuple[str, ...] = ()  # `broker 1 (broker share)`, oldest first

    @property
    def state(self) -> str:
        """`not judged`, `incidents`, or `well`; what is not known counts first."""
        return "not judged" if not self.judged_count else "incidents" if self.open_incidents else "well"


_ORDER = ("not judged", "incidents", "well")


def describe_day(days: Sequence[ClusterDay], end_ms: int) -> Content:
    """The mail about the 24 hours before an instant: clusters that need somebody first."""
    counts = Counter(day.state for day in days)
    counted = ", ".join(f"{format_count(counts[state])} {state}" for state in _ORDER if counts[state])
    ordered = sorted(days, key=lambda day: (_ORDER.index(day.state), -len(day.open_incidents), day.cluster))
    count, until = f"{format_count(len(days))} clusters", format_clock(end_ms)
    short = (MailColumn("cluster"), MailColumn("state", is_short=True))
    table = MailTable(
        columns=(*short, *number_columns("judged"), MailColumn("newest", is_short=True), MailColumn("open incidents")),
        rows=tuple(_row(day) for day in ordered),
        marked=frozenset(at for at, day in enumerate(ordered) if day.state != "well"),
        note="judged: windows of these 24 hours; newest: start of the newest judged window.",
    )
    sections = (MailSection(title="All clusters", table=table),)
    digest_id = f"D-{format_clock(end_ms)[:10]}"
    headline = f"{count}: {counted}"
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
        sections=sections,
        footer=("One mail a day: mail.daily in the configuration. All times are UTC.",),
    )


def _row(day: ClusterDay) -> tuple[str, ...]:
    named = [format_name(text, 40) for text in day.open_incidents[:_MOST_NAMED]]
    left = len(day.open_incidents) - len(named)
    return (
        format_name(day.cluster, 40),
        day.state,
        f"{day.judged_count} of {day.window_count}",
        "never" if day.newest_ms is None else format_clock(day.newest_ms),
        ", ".join([*named, *([f"{left} more"] if left else [])]),
    )
