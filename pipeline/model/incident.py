"""An incident: the same rule broken by the same subject, window after window, until it recovers."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

SILENCED = "silenced in Alertmanager"  # how `last_error` of a message begins that a silence held back
IncidentState = Literal["new", "worse", "continuing", "resolved", "withdrawn"]
"""`worse`: the measure is much worse than last reported; `continuing`: last reported long ago; `withdrawn`: windows that came
late show that there was none, only excused hash luck is left, or its subject is gone."""
ENDED: frozenset[IncidentState] = frozenset({"resolved", "withdrawn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentChange:
    """An incident entered a state, columns of `gold.incidents`; `peak_value` and `window_count` are since `since_ms`."""

    incident_id: str
    state: IncidentState
    rule: str
    subject: str
    since_ms: int
    window_start_ms: int
    value: float | None
    peak_value: float | None
    limit_value: float
    window_count: int
    told_since_ms: int | None = None  # start that the newest message told, where `since_ms` has moved since
    moved_from_ms: int | None = None  # start that the message before told, where this one tells another
    merged_into: str | None = None  # of an end: id of the incident that this one turned out to be a part of

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def told_ms(self) -> int:
        return self.since_ms if self.told_since_ms is None else self.told_since_ms

    @property
    def key(self) -> str:
        """Names the change among all changes of a cluster: `K-JKT62CWA-new`; with its window where a state can recur."""
        if self.state == "new" or not self.is_open:
            return f"{self.incident_id}-{self.state}"
        instant = datetime.fromtimestamp(self.window_start_ms / 1000, UTC)
        return f"{self.incident_id}-{self.state}-{instant:%Y%m%dT%H%M%SZ}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """An incident that is not over: its last change, the window that opened it, and its worst measure reported."""

    last: IncidentChange
    opened_ms: int
    reported_value: float | None


def incident_of(key: str) -> str:
    """Returns the incident that the key of a change names."""
    return re.sub(r"-(new|resolved|withdrawn|(worse|continuing)-\w+)$", "", key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A message to deliver, columns of `gold.alert_outbox`; rows of older versions have no `channel` (mail) and no `tells` (its changes' keys)."""

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

    @property
    def incident_ids(self) -> set[str]:
        return {incident_of(key) for key in self.tells.split(",")} if self.tells else {self.incident_id}

    @property
    def incidents(self) -> set[tuple[str, ...]]:
        """The same, on its channel."""
        return {(str(self.channel), self.cluster, name) for name in self.incident_ids}

    @property
    def is_silenced(self) -> bool:
        return self.given_up_at_ms is not None and (self.last_error or "").startswith(SILENCED)
