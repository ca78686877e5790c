"""What every mail about one incident has in common: which change it tells, its badge, its small print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.content import Content
from pipeline.model.number_text import format_clock, format_name

if TYPE_CHECKING:
    from pipeline.alerting.content import Attachment, Figure, Section
    from pipeline.alerting.evidence import Standing

BADGES = {"new": "FAIL", "worse": "WORSE", "continuing": "STILL", "resolved": "RESOLVED"}
STATES = {
    "new": "This incident is new.",
    "worse": "This incident is worse than when it was last told.",
    "continuing": "This incident was told before and goes on.",
}
REASON_LIMIT = 600
"""Characters of a verdict's reason."""
_MUTE_MS = 7 * 86_400_000


def describe_incident(
    standing: Standing,
    *,
    badge: str,
    subject_line: str,
    title: str,
    headline: str,
    figures: tuple[Figure, ...],
    sections: tuple[Section, ...],
    attachments: tuple[Attachment, ...] = (),
) -> Content:
    """A mail about one change of an incident; its id ends the subject, whose it is and how to have quiet the mail.

    Args:
        standing: The change and whose it is.
        badge: One word.
        subject_line: The subject without the id.
        title: What it is about, in a few words.
        headline: First sentences.
        figures: The numbers that matter most.
        sections: The rest.
        attachments: Files that come with it.
    """
    change = standing.change
    return Content(
        cluster=standing.cluster,
        key=change.key,
        tells=(change.key,),
        incident_id=change.incident_id,
        state=change.state,
        window_start_ms=change.window_start_ms,
        tone="alarm" if change.is_open else "calm",
        badge=badge,
        subject_line=f"{subject_line} #{change.incident_id}",
        title=title,
        headline=headline,
        figures=figures,
        sections=sections,
        footer=_small_print(standing),
        attachments=attachments,
    )


def _small_print(standing: Standing) -> tuple[str, ...]:
    """Whose it is, when the next look is, how to have quiet."""
    change, time_zone = standing.change, standing.time_zone
    end_ms = change.window_start_ms + standing.window_ms
    owned = f"Owner: {format_name(standing.owner)}. " if standing.owner else ""
    zone = "All times are UTC."
    if time_zone != "UTC":
        zone += (
            f" In {time_zone} it began at {format_clock(change.since_ms, time_zone)}, and this window ended at "
            f"{format_clock(end_ms, time_zone)}."
        )
    lines = [
        f"{owned}Incident {change.incident_id}, rule {format_name(change.rule)}. You get a mail when an incident opens, "
        f"gets much worse, goes on for long, and is resolved. {zone}"
    ]
    if change.is_open:
        until = format_clock(end_ms + _MUTE_MS).partition(" ")[0]
        lines.append(
            f"Next look: the window that ends at {format_clock(end_ms + standing.window_ms)}. For quiet until then or "
            f"longer: partition-health mute {change.incident_id} --until {until} --reason '...'. To change limit or owner: "
            f"{standing.limits_at} of the cluster in the configuration."
        )
    return tuple(lines)
