"""What to say when a source of a cluster does not arrive, and when it does again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.alerting.content import Content, Figure, Section
from pipeline.alerting.numbers import format_clock, format_name, format_percent, format_span
from pipeline.alerting.queries import sql_instant, sql_text

if TYPE_CHECKING:
    from pipeline.model.incident import IncidentChange

_REASON_LIMIT = 600


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
    """

    cluster: str
    change: IncidentChange
    reason: str
    window_ms: int
    bears_shares: bool
    owner: str


def describe_blind(evidence: BlindEvidence) -> Content:
    """Words of a mail about a source that did not arrive.

    Args:
        evidence: What is known.
    """
    change, cluster = evidence.change, format_name(evidence.cluster)
    is_new = change.state == "new"
    since = format_clock(change.since_ms)
    if is_new:
        subject_line = f"[BLIND] the pipeline is blind on cluster {cluster} since {since}: {change.subject}"
        headline = (
            f"The pipeline is blind on cluster {cluster} since {since}: source {change.subject} did not arrive as "
            f"expected. {_consequence(evidence)} This incident is new."
        )
    else:
        span = format_span(change.window_start_ms + evidence.window_ms - change.since_ms)
        subject_line = f"[SEES AGAIN] cluster {cluster}: {change.subject} arrives again, blind since {since}"
        headline = (
            f"Source {change.subject} of cluster {cluster} arrives again, whole and in time. The pipeline was blind "
            f"from {since}, {span} in all. Windows in between stay unjudged unless they are run again."
        )
    owner = f"Owner: {format_name(evidence.owner)}. " if evidence.owner else ""
    return Content(
        cluster=evidence.cluster,
        incident_id=change.incident_id,
        state=change.state,
        window_start_ms=change.window_start_ms,
        tone="alarm" if is_new else "calm",
        badge="BLIND" if is_new else "SEES AGAIN",
        subject_line=f"{subject_line} #{change.incident_id}",
        title=f"{cluster} · {change.subject}",
        headline=headline,
        figures=_figures(evidence),
        sections=_sections(evidence) if is_new else (),
        footer=(
            f"{owner}Incident {change.incident_id}, rule {format_name(change.rule)}. "
            "You get one mail when an incident opens and one when it is resolved. All times are UTC.",
        ),
    )


def _consequence(evidence: BlindEvidence) -> str:
    if evidence.bears_shares:
        return "Brokers' shares of these windows are not judged: no news about them is no good news."
    return "Shares are judged without it; what it alone tells (such as latency) is unknown."


def _figures(evidence: BlindEvidence) -> tuple[Figure, ...]:
    missing = evidence.change.value if evidence.change.state == "new" else evidence.change.peak_value
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
