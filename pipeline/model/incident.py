"""An incident: the same rule broken by the same subject, window after window, until it is well again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pipeline.model.rule import worst_of

IncidentState = Literal["new", "worse", "continuing", "resolved"]
"""`worse` where the measure has got much worse since it was last told, `continuing` where it was last told long ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """An incident that has a row and is not over: what one run hands to the next.

    Everything else about it (peak, windows, how long it has been calm) is read off the verdicts since `since_ms`.

    Attributes:
        incident_id: Stable id, see `pipeline.alerting.incidents.incident_id_of`.
        rule: Rule that was broken.
        subject: What broke it.
        since_ms: Start of the first window above the limit, UTC milliseconds.
        opened_ms: Start of the window whose verdict opened it, UTC milliseconds.
        told_ms: Start of the window of its last change, UTC milliseconds.
        told_value: Worst measure of the windows of its changes; None where they had none.
    """

    incident_id: str
    rule: str
    subject: str
    since_ms: int
    opened_ms: int
    told_ms: int
    told_value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentChange:
    """An incident entered a state. A row of `gold.incidents`.

    Attributes:
        incident_id: Stable id, the same in every state.
        state: State entered.
        rule: Rule that was broken.
        subject: What broke it.
        since_ms: Start of the first window above the limit, UTC milliseconds.
        window_start_ms: Start of the window that brought the state, UTC milliseconds.
        value: Measure in that window.
        peak_value: Worst measure since `since_ms`.
        limit_value: Limit in that window.
        window_count: Windows seen from `since_ms` to this one, both included.
    """

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

    @property
    def is_open(self) -> bool:
        """The incident goes on after this change."""
        return self.state != "resolved"

    @property
    def key(self) -> str:
        """Names the change among all changes of a cluster: `K-JKT62CWA-new`; with its window where a state can recur.

        >>> IncidentChange(incident_id="K-1", state="worse", rule="r", subject="s", since_ms=0,
        ...     window_start_ms=1795251600000, value=1.9, peak_value=1.9, limit_value=1.2, window_count=3).key
        'K-1-worse-20261121T090000Z'
        """
        if self.state in {"new", "resolved"}:
            return f"{self.incident_id}-{self.state}"
        instant = datetime.fromtimestamp(self.window_start_ms / 1000, UTC)
        return f"{self.incident_id}-{self.state}-{instant:%Y%m%dT%H%M%SZ}"

    def as_open(self, before: OpenIncident | None = None) -> OpenIncident:
        """What the next run needs to know of the incident after this change.

        Args:
            before: The incident before it; without it this change opened it.
        """
        return OpenIncident(
            incident_id=self.incident_id,
            rule=self.rule,
            subject=self.subject,
            since_ms=self.since_ms,
            opened_ms=before.opened_ms if before else self.window_start_ms,
            told_ms=self.window_start_ms,
            told_value=worst_of(self.rule, (self.value, before.told_value if before else None)),
        )
