"""A measure that a rule judges. A row of `gold.rule_measures`."""

from __future__ import annotations

from dataclasses import dataclass


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
