"""What to say when a topic, broker, disk or consumer group is beyond the limit of a rule, and when it is well again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.alerting.content import Content, Figure, Section
from pipeline.alerting.numbers import format_clock, format_name, format_span
from pipeline.alerting.queries import sql_instant, sql_text
from pipeline.alerting.standing import standing_lines

if TYPE_CHECKING:
    from pipeline.model.incident import IncidentChange

_REASON_LIMIT = 600
_BADGES = {"new": "FAIL", "worse": "WORSE", "continuing": "STILL", "resolved": "RESOLVED"}
_STATES = {
    "new": "This incident is new.",
    "worse": "This incident is worse than when it was last told.",
    "continuing": "This incident was told before and goes on.",
}
_RULES = {
    "topic_peak": ("a partition carries far more than its topic's mean", "Look at the topic's keys in `gold.hot_keys`, and at its producers' partitioner."),
    "under_replicated": ("partitions are under-replicated", "Look for a broker that is down or slow: `gold.topic_health`, `bronze.cluster_state`."),
    "below_min_isr": ("partitions refuse `acks=all`", "Bring the missing replicas back; lower `min.insync.replicas` only if losing records is worse than waiting."),
    "leaderless": ("partitions have no leader", "No in-sync replica is alive: bring a broker of theirs back before an unclean election."),
    "lagging_replicas": ("replicas are out of the in-sync set", "Look at disk and network of the followers' brokers."),
    "replica_size_spread": ("replicas of one partition differ in size", "A replica that was cleaned late or copied twice: compare `kafka-log-dirs`."),
    "preferred_leader": ("partitions are not led by their preferred leaders", "`kafka-leader-election --election-type preferred --all-topic-partitions` copies nothing."),
    "latency_to_peers": ("producers wait longer for a broker than for its peers", "Look at its disk, its network, and the share it carries."),
    "latency_to_history": ("producers wait longer for a broker than they did", "Look at what changed on it."),
    "segments_past_retention": ("segments lie on although their retention is over", "Look at the broker's log cleaner and its log for failed deletions."),
    "disk_hours_to_full": ("a disk will be full soon", "Shorten retention, move replicas, or add disks."),
    "assignment_skew": ("a consumer reads far more than the others of its group", "Try the assignor with the lowest figure."),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvidence:
    """Everything a mail about a rule needs.

    Attributes:
        cluster: Name in the configuration.
        change: The incident's change.
        reason: The verdict in words.
        window_ms: Length of a window.
        owner: Who looks after it, or "".
        time_zone: The owner's, an IANA name.
    """

    cluster: str
    change: IncidentChange
    reason: str
    window_ms: int
    owner: str
    time_zone: str = "UTC"


def describe_rule(evidence: RuleEvidence) -> Content:
    """Words of a mail about a rule.

    Args:
        evidence: What is known.
    """
    change, cluster = evidence.change, format_name(evidence.cluster)
    subject = format_name(change.subject, 120)
    meaning, what_to_do = _RULES.get(change.rule, (change.rule, ""))
    badge, since = _BADGES[change.state], format_clock(change.since_ms)
    reason = format_name(evidence.reason, _REASON_LIMIT)
    if change.is_open:
        subject_line = f"[{badge}] {format_name(evidence.cluster, 60)} {subject}: {meaning}".replace("`", "")
        headline = f"{subject} of cluster {cluster}, since {since}: {meaning}. {reason}. {_STATES[change.state]}"
    else:
        subject_line = f"[{badge}] {format_name(evidence.cluster, 60)} {subject}: no longer that {meaning}".replace(
            "`", ""
        )
        span = format_span(change.window_start_ms + evidence.window_ms - change.since_ms)
        headline = f"{subject} of cluster {cluster} is well again: no longer that {meaning}. It began at {since} and took {span}. {reason}."
    query = "\n".join(
        (
            "SELECT window_start, value, limit_value, verdict, reason FROM gold.verdicts",
            f"WHERE cluster = {sql_text(evidence.cluster)} AND rule = {sql_text(change.rule)}",
            f"  AND subject = {sql_text(change.subject)} AND window_start >= {sql_instant(change.since_ms)}",
            "ORDER BY window_start;",
        )
    )
    act = (Section(title="What to do", text=(what_to_do,)),) if change.is_open and what_to_do else ()
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
        title=f"{cluster} · {subject}",
        headline=headline,
        figures=_figures(change),
        sections=(*act, Section(title="The rows behind this", code=query)),
        footer=standing_lines(change, owner=evidence.owner, time_zone=evidence.time_zone, window_ms=evidence.window_ms),
    )


def _figures(change: IncidentChange) -> tuple[Figure, ...]:
    limit = Figure(label="limit", value=f"{change.limit_value:g}")
    return (
        (limit,)
        if change.value is None
        else (Figure(label=change.rule.replace("_", " "), value=f"{change.value:.3g}"), limit)
    )
