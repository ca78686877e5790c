"""The rules: one value each, all that is known of it. A new rule is a new entry in a file of this room.

The broker share and the arrival of sources are judged by rules of their own, in `pipeline.verdicts`.
"""

from collections.abc import Iterable

from pipeline.model.number_text import format_percent, format_ratio
from pipeline.model.verdict import Verdict
from pipeline.rules.brokers import BROKER_RULES
from pipeline.rules.shares import SHARE_RULES
from pipeline.rules.topics import TOPIC_RULES

BROKER_SHARE = "broker_share"
SOURCE_ARRIVAL = "source_arrival"
RULES = {rule.name: rule for rule in (*TOPIC_RULES, *BROKER_RULES, *SHARE_RULES)}
_FORMATS = {BROKER_SHARE: format_ratio, SOURCE_ARRIVAL: format_percent} | {
    name: rule.format for name, rule in RULES.items()
}


def format_measure(rule: str, value: float) -> str:
    """Writes a measure of a rule, or a limit on it."""
    return _FORMATS[rule](value)


def worst_of(rule: str, values: Iterable[float | None]) -> float | None:
    """The worst value under a rule; None without values."""
    known = [value for value in values if value is not None]
    return (min if _is_falling(rule) else max)(known, default=None)


def times_worse(rule: str, value: float, before: float) -> float:
    """How many times worse a value is than one before; without bound where the better one is 0."""
    over, under = (before, value) if _is_falling(rule) else (value, before)
    return over / under if under else float("inf") if over else 1.0


def is_excused(verdict: Verdict) -> bool:
    """Whether a share is above its limit by hash luck that the gate excuses; sources warn of what lacks."""
    return verdict.rule == BROKER_SHARE and verdict.verdict == "warn" and not verdict.is_above


def _is_falling(rule: str) -> bool:
    return rule in RULES and RULES[rule].is_falling
