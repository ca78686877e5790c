"""What to say when a topic, broker, disk or consumer group is beyond the limit of a rule, and when it is well again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.content import Figure, Section
from pipeline.alerting.incident_content import BADGES, REASON_LIMIT, STATES, describe_incident
from pipeline.alerting.queries import sql_instant, sql_text
from pipeline.alerting.rule_words import RULES, format_measure
from pipeline.model.number_text import format_clock, format_name, format_span

if TYPE_CHECKING:
    from pipeline.alerting.content import Content
    from pipeline.alerting.evidence import VerdictEvidence
    from pipeline.model.incident import IncidentChange


def describe_rule(evidence: VerdictEvidence) -> Content:
    """Words of a mail about a rule.

    Args:
        evidence: What is known.
    """
    change, cluster = evidence.change, format_name(evidence.cluster)
    subject, words = format_name(change.subject, 120), RULES[change.rule]
    badge, since = BADGES[change.state], format_clock(change.since_ms)
    reason = format_name(evidence.reason, REASON_LIMIT)
    if change.is_open:
        said = words.meaning
        headline = f"{subject[:1].upper()}{subject[1:]} of cluster {cluster}, since {since}: {words.meaning}. {reason}. {STATES[change.state]}"
    else:
        said = f"no longer that {words.meaning}"
        span = format_span(evidence.window.end_ms - change.since_ms)
        headline = f"{subject[:1].upper()}{subject[1:]} of cluster {cluster} is well again: {said}. It began at {since} and took {span}. {reason}."
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=f"[{badge}] {format_name(evidence.cluster, 60)} {subject}: {said} ({_beside_limit(change)})",
        title=f"{cluster} · {subject}",
        headline=headline,
        figures=_figures(change),
        sections=_sections(evidence, words.advice),
    )


def _beside_limit(change: IncidentChange) -> str:
    limit = f"limit {format_measure(change.rule, change.limit_value)}"
    return limit if change.value is None else f"{format_measure(change.rule, change.value)}, {limit}"


def _figures(change: IncidentChange) -> tuple[Figure, ...]:
    limit = Figure(label="limit", value=format_measure(change.rule, change.limit_value))
    if change.value is None:
        return (limit,)
    return (Figure(label=change.rule.replace("_", " "), value=format_measure(change.rule, change.value)), limit)


def _sections(evidence: VerdictEvidence, advice: str) -> tuple[Section, ...]:
    change = evidence.change
    query = "\n".join(
        (
            "SELECT window_start, value, limit_value, verdict, reason FROM gold.verdicts",
            f"WHERE cluster = {sql_text(evidence.cluster)} AND rule = {sql_text(change.rule)}",
            f"  AND subject = {sql_text(change.subject)} AND window_start >= {sql_instant(change.since_ms)}",
            "ORDER BY window_start;",
        )
    )
    rows = Section(title="The rows behind this", code=query)
    return (Section(title="What to do", text=(advice,)), rows) if change.is_open else (rows,)
