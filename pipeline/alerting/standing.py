"""What stands below every mail about an incident: whose it is, when the next look is, how to have quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.numbers import format_clock, format_name

if TYPE_CHECKING:
    from pipeline.model.incident import IncidentChange

_MUTE_MS = 7 * 86_400_000


def standing_lines(change: IncidentChange, *, owner: str, time_zone: str, window_ms: int) -> tuple[str, ...]:
    """The small print.

    Args:
        change: The change that is told.
        owner: Who looks after the cluster; may be empty.
        time_zone: The owner's, an IANA name.
        window_ms: Length of a window.
    """
    end_ms = change.window_start_ms + window_ms
    owned = f"Owner: {format_name(owner)}. " if owner else ""
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
            f"Next look: the window that ends at {format_clock(end_ms + window_ms)}. For quiet until then or longer: "
            f"partition-health mute {change.incident_id} --until {until} --reason '...'. Limits are set per cluster, under "
            "gate in the configuration."
        )
    return tuple(lines)
