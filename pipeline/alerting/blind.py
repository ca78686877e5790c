"""What to say when a source of a cluster does not arrive, and when it does again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.content import Figure, Section
from pipeline.alerting.incident_content import REASON_LIMIT, describe_incident
from pipeline.alerting.queries import sql_instant, sql_text
from pipeline.measures.source_arrivals import RECORD_SOURCES
from pipeline.model.number_text import format_clock, format_name, format_percent, format_span

if TYPE_CHECKING:
    from pipeline.alerting.content import Content
    from pipeline.alerting.evidence import VerdictEvidence

_BADGES = {"new": "BLIND", "worse": "BLINDER", "continuing": "STILL BLIND", "resolved": "SEES AGAIN"}
_STATES = {
    "new": "This incident is new.",
    "worse": "Much more is missing than when it was last told.",
    "continuing": "This was told before and goes on.",
}


def describe_blind(evidence: VerdictEvidence) -> Content:
    """Words of a mail about a source that did not arrive.

    Args:
        evidence: What is known; the incident's subject is the source kind.
    """
    change, cluster = evidence.change, format_name(evidence.cluster)
    since, badge = format_clock(change.since_ms), _BADGES[change.state]
    if change.is_open:
        subject_line = f"[{badge}] the pipeline is blind on cluster {cluster} since {since}: {change.subject}"
        headline = (
            f"The pipeline is blind on cluster {cluster} since {since}: source {change.subject} did not arrive as "
            f"expected. {_consequence(change.subject)} {_STATES[change.state]}"
        )
    else:
        span = format_span(evidence.window.end_ms - change.since_ms)
        subject_line = f"[{badge}] cluster {cluster}: {change.subject} arrives again, blind since {since}"
        headline = (
            f"Source {change.subject} of cluster {cluster} arrives again, whole and in time. The pipeline was blind "
            f"from {since}, {span} in all. Windows in between stay unjudged unless they are run again."
        )
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=subject_line,
        title=f"{cluster} · {change.subject}",
        headline=headline,
        figures=_figures(evidence),
        sections=_sections(evidence) if change.is_open else (),
    )


def _consequence(source: str) -> str:
    if source in RECORD_SOURCES:
        return "Brokers' shares of these windows are not judged: no news about them is no good news."
    return "Shares are judged without it; what it alone tells (such as latency) is unknown."


def _figures(evidence: VerdictEvidence) -> tuple[Figure, ...]:
    missing = evidence.change.value if evidence.change.is_open else evidence.change.peak_value
    return () if missing is None else (Figure(label="of what was expected is missing", value=format_percent(missing)),)


def _sections(evidence: VerdictEvidence) -> tuple[Section, ...]:
    query = "\n".join(
        (
            "SELECT window_start, source, expected_count, arrived_count, missing, newest_at",
            "FROM bronze.window_status",
            f"WHERE cluster = {sql_text(evidence.cluster)} AND window_start >= {sql_instant(evidence.change.since_ms)}",
            "ORDER BY window_start, source;",
        )
    )
    return (
        Section(title="What is missing", text=(format_name(evidence.reason, REASON_LIMIT),)),
        Section(
            title="What to do",
            text=("`partition-health doctor` tries every source and says why one cannot be reached.",),
        ),
        Section(title="The rows behind this", code=query),
    )
