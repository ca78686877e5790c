"""A message about changes of incidents. A row of `gold.alert_outbox`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A message to deliver; fields are columns of `gold.alert_outbox`, instants in UTC milliseconds.

    Attributes:
        message_id: Message-ID without brackets, the same whenever the same change is reported on the same channel.
        cluster: Name of the cluster.
        incident_id: Incident it is about; of a digest its own id.
        state: State it reports, or `digest`.
        window_start_ms: Window that brought the state.
        channel: `mail`, or the name of a webhook; None in rows of older versions: mail.
        tells: Keys of the changes it reports, comma-separated; None in older rows.
        subject_line: Subject.
        recipients: Addresses, comma-separated; "" for a webhook.
        payload: The whole message: RFC 5322, or JSON for a webhook.
        queued_at_ms: When it was queued.
        attempt_count: Attempts so far.
        last_error: Why the last attempt failed.
        next_attempt_at_ms: Not tried before; None for at once.
        given_up_at_ms: When it was given up.
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
