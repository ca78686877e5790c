"""A verdict: one rule, one subject, one window. A row of `gold.verdicts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

VerdictKind = Literal["ok", "warn", "fail", "not_enough_traffic", "incomplete", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule says of a subject in one window; fields are columns of `gold.verdicts`.

    Attributes:
        is_above: This window alone is above limit, floor and chance.
        above_count: Windows above among the last n, this one included.
        verdict: `fail` when above in this window and in k of the last n, `warn` when above in fewer.
        k: Windows above that make a failure; not stored.
        severity: `critical` or `warning`; not stored.
    """

    window_start_ms: int
    rule: str
    subject: str
    value: float | None
    limit_value: float
    chance_value: float | None = None
    is_above: bool = False
    above_count: int = 0
    verdict: VerdictKind
    reason: str
    k: int = 1
    severity: str = "critical"
