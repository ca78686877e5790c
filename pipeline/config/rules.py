"""The configuration's sections `gate` and `rules`: limits on measures, by cluster and topic, and their owners."""

from collections.abc import Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Literal, Self, TypeVar

from pydantic import Field, model_validator

from pipeline.config.section import Duration, Section
from pipeline.model.verdict import BrokerLoad
from pipeline.rules import RULES
from pipeline.rules.shares import FORECAST_RULE

_T = TypeVar("_T")
Severity = Literal["critical", "warning", "off"]


def find_pattern(patterns: Mapping[str, _T], topic: str | None) -> _T | None:
    """Finds the entry of the first pattern that fits a topic; None where none does, and for no topic ("" or None).

    >>> find_pattern({"orders-eu": 1.5, "orders*": 2.0}, "orders-us")
    2.0
    """
    return next((value for pattern, value in patterns.items() if topic and fnmatchcase(topic, pattern)), None)


def _halfway(limit_ratio: float) -> float:
    return 1 + (limit_ratio - 1) / 2


class GateOverride(Section):
    """Limits for brokers whose excess comes most from some topics; keys not given stay."""

    limit_ratio: float | None = Field(None, gt=1)
    """Share ratio from which a broker carries too much."""
    owner: str | None = None


class Gate(Section):
    limit_ratio: float = Field(1.20, gt=1)
    """Share ratio from which a broker carries too much."""
    resolve_ratio: float | None = Field(None, gt=1)
    """Ratio below which it recovers; by default halfway between 1 and the limit."""
    floor_bytes_per_s: float = Field(1024, ge=0)
    """Bytes per second below which a broker's load never fails."""
    chance_level: float = Field(0.001, ge=1e-9, lt=1)
    """False alarms allowed per window."""
    k: int = Field(3, ge=1)
    """A broker fails if it is above its limit in this many windows ..."""
    n: int = Field(4, ge=1)
    """... of the last this many."""
    hash_luck: Literal["warn", "fail"] = "fail"
    """For a broker that only hash luck takes to its limit: `fail` judges it like any other, and the mail names the
    cause; `warn` never makes an incident of it."""
    worsens_by: float = Field(1.25, gt=1)
    """An open incident is reported again at this multiple of the largest value reported."""
    repeat: Duration = timedelta(days=1)
    """It is also reported again after this time."""
    owner: str = ""
    """Person or team responsible; the cluster's owner if empty."""
    topics: dict[str, GateOverride] = Field(default_factory=dict)
    """Overrides by pattern such as `orders*`, the first that fits the topic that adds most to the broker's excess."""

    @model_validator(mode="after")
    def _k_within_n(self) -> Self:
        if self.k > self.n:
            raise ValueError(f"k of n windows: k={self.k} is larger than n={self.n}")
        if self.resolve_ratio is not None and self.resolve_ratio > self.limit_ratio:
            raise ValueError(f"resolve_ratio {self.resolve_ratio} is above limit_ratio {self.limit_ratio}")
        return self

    def of_topic(self, topic: str | None) -> Self:
        """The gate for brokers whose excess comes most from a topic; under a limit of its own one recovers halfway to it."""
        override = find_pattern(self.topics, topic)
        if override is None:
            return self
        changed = override.model_dump(exclude_none=True)
        return self.model_copy(update={**changed, "resolve_ratio": None} if "limit_ratio" in changed else changed)

    def of_broker(self, load: BrokerLoad) -> Self:
        """The gate for a broker: that of the topic which adds most to its excess, unless the rest is beyond the limit, too."""
        own = self.of_topic(load.excess_topic)
        return self if own.limit_ratio > self.limit_ratio <= (load.ratio_without_topic or 0.0) else own

    @property
    def resolves_at(self) -> float:
        """Ratio below which a failing broker recovers: halfway between 1 and the limit unless configured."""
        return self.resolve_ratio if self.resolve_ratio is not None else _halfway(self.limit_ratio)

    @property
    def resolves_by_limit(self) -> dict[float, float]:
        """The same, by the limits that topics have of their own."""
        own = {override.limit_ratio for override in self.topics.values()} - {None, self.limit_ratio}
        return {limit: _halfway(limit) for limit in own if limit}


class RuleOverride(Section):
    """Limits for some topics; keys not given stay."""

    limit: float | None = Field(None, ge=0)
    """Value at which a window breaks the rule, or above."""
    severity: Severity | None = None
    """`critical`, `warning` or `off`."""
    owner: str | None = None


class RuleSettings(Section):
    """Settings of a rule of `pipeline.rules`; `k`, `n`, `owner` and `topics` are as in `Gate`."""

    limit: float = Field(ge=0)
    """Value at which a window breaks the rule, or above (`disk_hours_to_full`: or below)."""
    severity: Severity = "warning"
    """`critical` makes incidents and fails the gate, `warning` only makes verdicts, `off` is not judged."""
    k: int = Field(ge=1)
    n: int = Field(ge=1)
    owner: str = ""
    topics: dict[str, RuleOverride] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _k_within_n(self) -> Self:
        if self.k > self.n:
            raise ValueError(f"k of n windows: k={self.k} is larger than n={self.n}")
        return self

    def of_topic(self, topic: str) -> Self:
        """The settings for a topic ("" for what is about no topic)."""
        override = find_pattern(self.topics, topic) if self.topics else None  # asked for every subject of every window
        return self if override is None else self.model_copy(update=override.model_dump(exclude_none=True))


def fill_rules(rules: object, gate: Gate | None = None) -> object:
    """The configured rules over the default ones, field by field; shares are forecast against the gate's limit."""
    if not isinstance(rules, dict):
        return rules
    if unknown := sorted(str(name) for name in rules if name not in RULES):
        raise ValueError(f"no rule {', '.join(unknown)}; there are {', '.join(RULES)}")
    filled = dict(rules)
    for name, rule in RULES.items():
        given = rules.get(name, {})
        if isinstance(given, dict):  # anything else is refused under its own key
            limit = gate.limit_ratio if gate and name == FORECAST_RULE else rule.limit
            filled[name] = {"limit": limit, "k": rule.k, "n": rule.n, "severity": rule.severity, **given}
    return filled
