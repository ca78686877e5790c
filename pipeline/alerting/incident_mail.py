"""Mails about one change of an incident: what all of them share, and those about a rule or a source."""

from collections.abc import Iterable
from dataclasses import replace

from pipeline.alerting.brief import WITHDRAWN, describe_brief
from pipeline.alerting.content import Attachment, Content, Figure, MailSection
from pipeline.alerting.evidence import IncidentEvidence
from pipeline.alerting.queries import source_status_query, verdicts_query
from pipeline.config.source import is_record_source
from pipeline.model.number_text import format_clock, format_name, format_percent, format_span
from pipeline.rules import RULES, format_measure

BADGES = {"new": "FAIL", "worse": "WORSE", "continuing": "STILL", "resolved": "RESOLVED", "withdrawn": "WITHDRAWN"}
STATES = {
    "new": "This incident is new.",
    "worse": "This incident is worse than last reported.",
    "continuing": "Already reported; still ongoing.",
}
_SOURCE_BADGES = {
    "new": "DATA MISSING",
    "worse": "MORE DATA MISSING",
    "continuing": "DATA STILL MISSING",
    "resolved": "DATA COMPLETE",
    "withdrawn": "DATA COMPLETE",
}
_REASON_LIMIT = 600
_LINK_LIMIT = 1_000
_MUTE_MS = 7 * 86_400_000


def describe_incident(
    evidence: IncidentEvidence,
    *,
    badge: str,
    subject_line: str,
    title: str,
    headline: str,
    figures: tuple[Figure, ...],
    sections: Iterable[MailSection | None],
    shown: tuple[MailSection, ...] | None = None,
    attachments: tuple[Attachment, ...] = (),
) -> Content:
    """A mail about one change of an incident: its id ends the subject, owner and how to mute it end the mail.

    `sections` are the details. Without `shown`, which stands below the brief, the brief says the same: only queries are left to show.
    """
    change = evidence.change
    events = tuple(format_name(event, _REASON_LIMIT) for event in evidence.events)
    happened = MailSection(title="What happened in this window", text=events) if events else None
    details = tuple(section for section in (happened, *sections) if section is not None)
    below = tuple(section for section in details if section.code) if shown is None else shown
    return Content(
        cluster=evidence.cluster,
        key=change.key,
        tells=(change.key,),
        incident_id=change.incident_id,
        state=change.state,
        window_start_ms=change.window_start_ms,
        tone="alarm" if change.is_open else "calm",
        badge=badge,
        subject_line=f"{subject_line} #{change.incident_id}",
        brief=replace(describe_brief(evidence), sections=below),
        title=f"{format_name(evidence.cluster)} · {title}",
        headline=headline,
        figures=figures,
        sections=details,
        footer=_small_print(evidence),
        attachments=attachments,
        has_details=shown is not None,
        report=format_name(evidence.report, _LINK_LIMIT) if evidence.report else "",
    )


def _small_print(evidence: IncidentEvidence) -> tuple[str, ...]:
    """Owner, next look, how to mute."""
    change, time_zone, end_ms = evidence.change, evidence.time_zone, evidence.window.end_ms
    owned = f"Owner: {format_name(evidence.owner)}. " if evidence.owner else ""
    zone = "All times are UTC."
    if time_zone != "UTC":
        zone += (
            f" In {time_zone} it began at {format_clock(change.since_ms, time_zone)}, and this window ended at "
            f"{format_clock(end_ms, time_zone)}."
        )
    lines = [
        f"{owned}Incident {change.incident_id}, rule {format_name(change.rule)}. You get a mail when an incident opens, "
        f"gets much worse, goes on for long, and ends. {zone}"
    ]
    if change.is_open:
        until = format_clock(end_ms + _MUTE_MS).partition(" ")[0]
        lines.append(
            f"Next look: the window that ends at {format_clock(evidence.next_end_ms)}. To mute this incident: "
            f"{evidence.command('mute')} {change.incident_id} --until {until} --reason '...'. To change limit or owner: "
            f"{evidence.limits_at} of the cluster in the configuration."
        )
    return tuple(lines)


def describe_rule(evidence: IncidentEvidence) -> Content:
    """A mail about a topic, broker, disk or consumer group beyond the limit of a rule, or back within it."""
    change, cluster, rule = evidence.change, format_name(evidence.cluster), RULES[evidence.change.rule]
    subject, reason = format_name(change.subject, 120), format_name(evidence.reason, _REASON_LIMIT)
    what, since = f"{subject[:1].upper()}{subject[1:]} of cluster {cluster}", format_clock(change.since_ms)
    limit = format_measure(change.rule, change.limit_value)
    value = "" if change.value is None else format_measure(change.rule, change.value)
    figures = [Figure(label="limit", value=limit)]
    if value:
        figures.insert(0, Figure(label=change.rule.replace("_", " "), value=value))
    sections = [MailSection(title="The rows behind this", code=verdicts_query(evidence))]
    if change.is_open:
        meaning = rule.meaning
        headline = f"{what}, since {since}: {meaning}. {reason}. {STATES[change.state]}"
        sections.insert(0, MailSection(title="What to do", text=(rule.advice,)))
    else:
        meaning = f"no longer: {rule.meaning}"
        lasted = format_span(evidence.window.end_ms - change.since_ms)
        headline = f"{what} recovered, {meaning}. It began at {since} and took {lasted}. {reason}."
        if change.state == "withdrawn":
            headline = f"{what}: {WITHDRAWN}. {reason}."
    badge, measured = BADGES[change.state], f"{value}, limit {limit}" if value else f"limit {limit}"
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=f"[{badge}] {format_name(evidence.cluster, 60)} {subject}: {meaning} ({measured})",
        title=subject,
        headline=headline,
        figures=tuple(figures),
        sections=sections,
    )


def describe_source(evidence: IncidentEvidence) -> Content:
    """A mail about a source that is incomplete or late, or no longer; the incident's subject is the source kind."""
    change, cluster = evidence.change, format_name(evidence.cluster)
    since, badge = format_clock(change.since_ms), _SOURCE_BADGES[change.state]
    missing = change.value if change.is_open else change.peak_value
    sections: tuple[MailSection, ...] = ()
    if change.is_open:
        subject_line = f"[{badge}] cluster {cluster}: source {change.subject} has been incomplete or late since {since}"
        consequence = (
            "Brokers' shares of these windows are not judged: their health is unknown, not good."
            if is_record_source(change.subject)
            else "Shares are judged without it; what it alone reports (such as latency) is unknown."
        )
        headline = (
            f"Source {change.subject} of cluster {cluster} has been incomplete or late since {since}. {consequence} "
            f"{STATES[change.state]}"
        )
        doctor = f"`{evidence.command('doctor')}` tries every source and says why one cannot be reached."
        sections = (
            MailSection(title="What is missing", text=(format_name(evidence.reason, _REASON_LIMIT),)),
            MailSection(title="What to do", text=(doctor,)),
            MailSection(title="The rows behind this", code=source_status_query(evidence)),
        )
    else:
        subject_line = (
            f"[{badge}] cluster {cluster}: source {change.subject} is complete again; data was missing since {since}"
        )
        headline = (
            f"Source {change.subject} of cluster {cluster} is complete and on time again. Data was missing since {since}, "
            f"for {format_span(evidence.window.end_ms - change.since_ms)}. The windows in between stay unjudged unless they are "
            "run again."
        )
        if change.state == "withdrawn":
            headline = f"Source {change.subject} of cluster {cluster}: {WITHDRAWN}."
    label = "of what was expected is missing"
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=subject_line,
        title=change.subject,
        headline=headline,
        figures=() if missing is None else (Figure(label=label, value=format_percent(missing)),),
        sections=sections,
    )
