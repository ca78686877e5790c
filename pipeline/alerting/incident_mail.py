"""Mails about one change of an incident: what all of them share, those about a rule or a source, and the SQL that shows their rows."""

from collections.abc import Iterable

from pipeline.alerting.content import Attachment, Content, Figure, MailSection
from pipeline.evidence.brief import describe_brief
from pipeline.evidence.incident import BrokerShareEvidence, IncidentEvidence
from pipeline.model.number_text import format_clock, format_name, format_percent, format_ratio
from pipeline.rules import RULES, format_measure
from pipeline.storage.predicates import sql_instant, sql_text

BADGES = {"new": "FAIL", "worse": "WORSE", "continuing": "STILL", "resolved": "RESOLVED", "withdrawn": "WITHDRAWN"}
_SOURCE_BADGES = {
    "new": "DATA MISSING", "worse": "MORE DATA MISSING", "continuing": "DATA STILL MISSING",
    "resolved": "DATA COMPLETE", "withdrawn": "DATA COMPLETE",
}  # fmt: skip  # a table: short fields share a line
_LINK_LIMIT = 1_000
_MUTE_MS = 7 * 86_400_000


def describe_incident(
    evidence: IncidentEvidence,
    *,
    badge: str,
    subject_line: str,
    figures: tuple[Figure, ...],
    sections: Iterable[MailSection | None],
    attachments: tuple[Attachment, ...] = (),
) -> Content:
    """A mail about one change of an incident: its id ends the subject, owner and how to mute it end the mail."""
    change = evidence.change
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
        brief=describe_brief(evidence),
        figures=figures,
        sections=tuple(section for section in sections if section is not None),
        footer=_small_print(evidence),
        attachments=attachments,
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
    if isinstance(evidence, BrokerShareEvidence):
        gate = evidence.gate
        lines.append(
            f"It is resolved after {gate.k} window{'' if gate.k == 1 else 's'} below {format_ratio(gate.resolves_at)}. To measure "
            f"and judge these windows again: {evidence.command('run')} --window {evidence.span}"
        )
    return tuple(lines)


def describe_rule(evidence: IncidentEvidence) -> Content:
    """A mail about a topic, broker, disk or consumer group beyond the limit of a rule, or back within it."""
    change, rule = evidence.change, RULES[evidence.change.rule]
    limit = format_measure(change.rule, change.limit_value)
    value = "" if change.value is None else format_measure(change.rule, change.value)
    figures = [Figure(label="limit", value=limit)]
    if value:
        figures.insert(0, Figure(label=change.rule.replace("_", " "), value=value))
    badge, measured = BADGES[change.state], f"{value}, limit {limit}" if value else f"limit {limit}"
    meaning = rule.meaning if change.is_open else f"no longer: {rule.meaning}"
    cluster, subject = format_name(evidence.cluster, 60), format_name(change.subject, 120)
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=f"[{badge}] {cluster} {subject}: {meaning} ({measured})",
        figures=tuple(figures),
        sections=(MailSection(title="The rows behind this", code=verdicts_query(evidence)),),
    )


def describe_source(evidence: IncidentEvidence) -> Content:
    """A mail about a source that is incomplete or late, or no longer; the incident's subject is the source kind."""
    change, badge = evidence.change, _SOURCE_BADGES[evidence.change.state]
    since = format_clock(change.since_ms)
    missing = change.value if change.is_open else change.peak_value
    lacks = f"is complete again; data was missing since {since}"
    if change.is_open:
        lacks = f"has been incomplete or late since {since}"
    label = "of what was expected is missing"
    query = MailSection(title="The rows behind this", code=source_status_query(evidence))
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=f"[{badge}] cluster {format_name(evidence.cluster)}: source {change.subject} {lacks}",
        figures=() if missing is None else (Figure(label=label, value=format_percent(missing)),),
        sections=(query,) if change.is_open else (),
    )


def verdicts_query(evidence: IncidentEvidence) -> str:
    """Verdicts on a subject since its incident began."""
    change = evidence.change
    return (
        "SELECT window_start, value, limit_value, verdict, reason FROM gold.verdicts\n"
        f"WHERE cluster = {sql_text(evidence.cluster)} AND rule = {sql_text(change.rule)}\n"
        f"  AND subject = {sql_text(change.subject)} AND window_start >= {sql_instant(change.since_ms)}\n"
        "ORDER BY window_start;"
    )


def source_status_query(evidence: IncidentEvidence) -> str:
    """Query for the status of the sources since an incident began."""
    return (
        "SELECT window_start, source, expected_count, arrived_count, missing, newest_at\n"
        "FROM bronze.window_status\n"
        f"WHERE cluster = {sql_text(evidence.cluster)} AND window_start >= {sql_instant(evidence.change.since_ms)}\n"
        "ORDER BY window_start, source;"
    )


def incidents_query(cluster: str, window_start_ms: int) -> str:
    """Changes of incidents in a window."""
    return (
        "SELECT incident_id, state, rule, subject, since, value, limit_value\n"
        "FROM gold.incidents\n"
        f"WHERE cluster = {sql_text(cluster)} AND window_start = {sql_instant(window_start_ms)}\n"
        "ORDER BY state, value DESC;"
    )
