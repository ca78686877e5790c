"""A message about changes of incidents. A row of `gold.alert_outbox`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A message to deliver; fields are columns of `gold.alert_outbox`, instants in UTC milliseconds.

    `channel` is None in rows of older versions (mail), and so is `tells`, the keys of the changes it reports.
    """

    message_id: str
    cluster: str
    incident_id: str
    state: str
    window_start_ms: int
    channel: str | None
    tells: str | None
    subject_line: str
    recipients: str
    payload: bytes
    queued_at_ms: int
    attempt_count: int = 0
    last_error: str | None = None
    next_attempt_at_ms: int | None = None
    given_up_at_ms: int | None = None
