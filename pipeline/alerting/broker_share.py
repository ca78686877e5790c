"""What to say of a broker that carries more than its share, and when it no longer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.action_sections import (
    action_attachments,
    actions_section,
    execute_section,
    format_predicted,
)
from pipeline.alerting.broker_share_sections import (
    brokers_section,
    confidence_section,
    counted_windows,
    impact_section,
    rows_sections,
    said_when,
    topics_section,
    trend_section,
)
from pipeline.alerting.cause_sections import causes_section, keys_section, name_cause, partitions_section
from pipeline.alerting.content import Figure
from pipeline.alerting.incident_content import BADGES, STATES, describe_incident
from pipeline.alerting.queries import incident_span
from pipeline.model.number_text import format_clock, format_name, format_percent, format_ratio, format_span

if TYPE_CHECKING:
    from pipeline.alerting.content import Content
    from pipeline.alerting.evidence import BrokerShareEvidence

_VERBS = {"new": "carries", "worse": "now carries", "continuing": "still carries", "resolved": "is back to"}


def describe_broker_share(evidence: BrokerShareEvidence) -> Content:
    """Words, tables and the picture of a mail about a broker's share.

    Args:
        evidence: What is known.

    Returns:
        The content; names from the outside are harmless on one line, no list grows without bound.

    Raises:
        ValueError: if the broker is not among the window's brokers or has no share there.
    """
    is_open = evidence.change.is_open
    actions = evidence.recommendations if is_open else ()
    why = (
        (topics_section(evidence), causes_section(evidence), partitions_section(evidence), keys_section(evidence))
        if is_open
        else ()
    )
    sections = (
        impact_section(evidence),
        actions_section(actions, expected_share=evidence.broker.expected_share),
        brokers_section(evidence),
        *why,
        execute_section(actions),
        trend_section(evidence),
        confidence_section(evidence),
        *rows_sections(evidence),
    )
    return describe_incident(
        evidence,
        badge=BADGES[evidence.change.state],
        subject_line=_subject_line(evidence),
        title=f"{format_name(evidence.cluster)} · broker {evidence.broker_id}",
        headline=_headline_open(evidence) if is_open else _headline_resolved(evidence),
        figures=_figures(evidence),
        sections=tuple(section for section in sections if section is not None),
        attachments=action_attachments(actions),
    )


def _share(evidence: BrokerShareEvidence) -> tuple[float, float]:
    """Share and share ratio of the broker concerned."""
    broker = evidence.broker
    if broker.share is None or broker.share_ratio is None:
        raise ValueError(f"broker {broker.broker_id} has no share in window {evidence.window}")
    return broker.share, broker.share_ratio


def _subject_line(evidence: BrokerShareEvidence) -> str:
    share, ratio = _share(evidence)
    badge, verb = BADGES[evidence.change.state], _VERBS[evidence.change.state]
    return (
        f"[{badge}] {format_name(evidence.cluster, 60)} broker {evidence.broker_id} {verb} {format_percent(share)} of "
        f"bytes in, fair share {format_percent(evidence.broker.expected_share)} "
        f"({format_ratio(ratio)}, limit {format_ratio(evidence.change.limit_value)})"
    )


def _headline_open(evidence: BrokerShareEvidence) -> str:
    share, ratio = _share(evidence)
    return (
        f"Broker {evidence.broker_id} of cluster {format_name(evidence.cluster)} carried {format_percent(share, 1)} of "
        f"the bytes produced from {said_when(evidence)}; {format_percent(evidence.broker.expected_share, 1)} would be fair. "
        f"It has been above the limit of {format_ratio(evidence.change.limit_value)} since "
        f"{format_clock(evidence.change.since_ms)}, in {evidence.above_count} of the last {evidence.n} windows, and is "
        f"now at {format_ratio(ratio)}. {STATES[evidence.change.state]}{_bottom_line(evidence)}"
    )


def _bottom_line(evidence: BrokerShareEvidence) -> str:
    """Cause and first action, for those who read no further."""
    cause = name_cause(evidence)
    said = f" The cause: {cause}." if cause else ""
    for first in evidence.recommendations[:1]:
        share = format_predicted(first, evidence.broker.expected_share)
        said += f" First thing to do: {first.title.replace('`', '')} (share then {share})."
    return said


def _headline_resolved(evidence: BrokerShareEvidence) -> str:
    share, ratio = _share(evidence)
    span = incident_span(evidence)
    peak = evidence.change.peak_value
    return (
        f"Broker {evidence.broker_id} of cluster {format_name(evidence.cluster)} is well again: "
        f"{format_percent(share, 1)} of the bytes produced, where {format_percent(evidence.broker.expected_share, 1)} "
        f"is fair ({format_ratio(ratio)}), and below {format_ratio(evidence.resolves_at)} for "
        f"{counted_windows(evidence.k)}{' in a row' if evidence.k > 1 else ''}. The incident began at "
        f"{format_clock(span.start_ms)}"
        + (f" and peaked at {format_ratio(peak)}." if peak is not None else ".")
        + f" It is resolved as of {format_clock(span.end_ms)}, {format_span(span.duration_ms)} later."
    )


def _figures(evidence: BrokerShareEvidence) -> tuple[Figure, ...]:
    share, ratio = _share(evidence)
    shared = (
        Figure(label="share of bytes in", value=format_percent(share, 1)),
        Figure(label="fair share", value=format_percent(evidence.broker.expected_share, 1)),
    )
    if evidence.change.is_open:
        limit = format_ratio(evidence.change.limit_value)
        return (*shared, Figure(label=f"of its share, limit {limit}", value=format_ratio(ratio)))
    peak = evidence.change.peak_value
    return (*shared, *(() if peak is None else (Figure(label="at the peak", value=format_ratio(peak)),)))
