"""What to say when a source of a cluster does not arrive, and when it does again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.alerting.content import Content, Figure, Section
from pipeline.alerting.numbers import format_clock, format_name, format_percent, format_span
from pipeline.alerting.queries import sql_instant, sql_text
from pipeline.alerting.standing import standing_lines

if TYPE_CHECKING:
    from pipeline.model.incident import IncidentChange

_REASON_LIMIT = 600
_BADGES = {"new": "BLIND", "worse": "BLINDER", "continuing": "STILL BLIND", "resolved": "SEES AGAIN"}
_STATES = {
    "new": "This incident is new.",
    "worse": "Much more is missing than when it was last told.",
    "continuing": "This was told before and goes on.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindEvidence:
    """Everything a mail about a missing source needs.

    Attributes:
        cluster: Name in the configuration.
        change: The incident's change; its subject is the source kind.
        reason: What did not arrive, from the verdict.
        window_ms: Length of a window.
        bears_shares: Shares are not judged without this source.
        owner: Who owns the cluster, or "".
        time_zone: The owner's, an IANA name.
    """

    cluster: str
    change: IncidentChange
    reason: str
    window_ms: int
    bears_shares: bool
    owner: str
    time_zone: str = "UTC"


def describe_blind(evidence: BlindEvidence) -> Content:
    """Words of a mail about a source that did not arrive.

    Args:
        evidence: What is known.
    """
    change, cluster = evidence.change, format_name(evidence.cluster)
    is_open = change.is_open
    since = format_clock(change.since_ms)
    if is_open:
        badge = _BADGES[change.state]
        subject_line = f"[{badge}] the pipeline is blind on cluster {cluster} since {since}: {change.subject}"
        headline = (
            f"The pipeline is blind on cluster {cluster} since {since}: source {change.subject} did not arrive as "
            f"expected. {_consequence(evidence)} {_STATES[change.state]}"
        )
    else:
        span = format_span(change.window_start_ms + evidence.window_ms - change.since_ms)
        subject_line = f"[SEES AGAIN] cluster {cluster}: {change.subject} arrives again, blind since {since}"
        headline = (
            f"Source {change.subject} of cluster {cluster} arrives again, whole and in time. The pipeline was blind "
            f"from {since}, {span} in all. Windows in between stay unjudged unless they are run again."
        )
    return Content(
        cluster=evidence.cluster,
        key=change.key,
        tells=(change.key,),
        incident_id=change.incident_id,
        state=change.state,
        window_start_ms=change.window_start_ms,
        tone="alarm" if is_open else "calm",
        badge=_BADGES[change.state],
        subject_line=f"{subject_line} #{change.incident_id}",
        title=f"{cluster} · {change.subject}",
        headline=headline,
        figures=_figures(evidence),
        sections=_sections(evidence) if is_open else (),
        footer=standing_lines(change, owner=evidence.owner, time_zone=evidence.time_zone, window_ms=evidence.window_ms),
    )


def _consequence(evidence: BlindEvidence) -> str:
    if evidence.bears_shares:
        return "Brokers' shares of these windows are not judged: no news about them is no good news."
    return "Shares are judged without it; what it alone tells (such as latency) is unknown."


def _figures(evidence: BlindEvidence) -> tuple[Figure, ...]:
    missing = evidence.change.value if evidence.change.is_open else evidence.change.peak_value
    return () if missing is None else (Figure(label="of what was expected is missing", value=format_percent(missing)),)


def _sections(evidence: BlindEvidence) -> tuple[Section, ...]:
    query = "\n".join(
        (
            "SELECT window_start, source, expected_count, arrived_count, missing, newest_at",
            "FROM bronze.window_status",
            f"WHERE cluster = {sql_text(evidence.cluster)} AND window_start >= {sql_instant(evidence.change.since_ms)}",
            "ORDER BY window_start, source;",
        )
    )
    return (
        Section(title="What is missing", text=(format_name(evidence.reason, _REASON_LIMIT),)),
        Section(
            title="What to do",
            text=("`partition-health doctor` tries every source and says why one cannot be reached.",),
        ),
        Section(title="The rows behind this", code=query),
    )
