"""What batches show of a setting: a value, or what it lies between."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """A setting read from the data: the likeliest value, or None; hardly less than `low`; None as `high` is no bound."""

    value: float | None
    low: float
    high: float | None
    reason: str

    @property
    def most(self) -> float:
        """`high`, or infinity."""
        return math.inf if self.high is None else self.high
