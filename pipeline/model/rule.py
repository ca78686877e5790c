"""A measure that a rule judges. A row of `gold.rule_measures`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DISK_RULE = "disk_hours_to_full"
FALLING_RULES = frozenset({DISK_RULE})
"""Rules whose measure is bad where it is small."""


def worst_of(rule: str, values: Iterable[float | None]) -> float | None:
    """The value that is worst under a rule; None where there is none.

    >>> worst_of("topic_peak", [1.2, None, 3.0]), worst_of("disk_hours_to_full", [48.0, 12.0])
    (3.0, 12.0)
    """
    known = [value for value in values if value is not None]
    return (min if rule in FALLING_RULES else max)(known, default=None)


def times_worse(rule: str, value: float, before: float) -> float:
    """How many times worse a value is than one before; without bound where the better one is 0.

    >>> times_worse("topic_peak", 3.0, 2.0), times_worse("disk_hours_to_full", 12.0, 48.0)
    (1.5, 4.0)
    """
    over, under = (before, value) if rule in FALLING_RULES else (value, before)
    return over / under if under else float("inf") if over else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMeasure:
    """One measure of one subject in one window.

    Attributes:
        window_start_ms: Start of the window, UTC milliseconds.
        rule: Rule that judges it, such as `under_replicated`.
        subject: What it is about, such as `topic orders`.
        topic: The topic it is about; "" for none.
        value: The measure; None where there was nothing to measure.
        p_value: Chance of such a value with nothing wrong; None where chance plays no part.
        is_enough: There was enough to judge.
        detail: What it says, in words.
    """

    window_start_ms: int
    rule: str
    subject: str
    topic: str
    value: float | None
    p_value: float | None
    is_enough: bool
    detail: str
