"""The configuration's sections `gate` and `rules`: limits on measures, by cluster and topic, and whose job they are."""

from __future__ import annotations

from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field, model_validator

from pipeline.config.section import Duration, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

_T = TypeVar("_T")
Severity = Literal["critical", "warning", "off"]


def find_pattern(patterns: Mapping[str, _T], topic: str) -> _T | None:
    """What stands under the first pattern that fits a topic; None where none does, and for "" (about no topic).

    >>> find_pattern({"orders-eu": 1.5, "orders*": 2.0}, "orders-us")
    2.0
    """
    return next((value for pattern, value in patterns.items() if topic and fnmatchcase(topic, pattern)), None)


def _halfway(limit_ratio: float) -> float:
    """Between even and a limit."""
    return 1 + (limit_ratio - 1) / 2


class GateOverride(Section):
    """What differs for brokers whose excess comes most from some topics; what is not named stays."""

    limit_ratio: float | None = Field(None, gt=1)
    owner: str | None = None


class Gate(Section):
    """Limits of the health gate: a broker fails at `limit_ratio` in `k` of `n` windows.

    An open incident is told again when its measure is `worsens_by` times the largest one told, and after `repeat`.
    `hash_luck` says what becomes of a broker that only the luck of its keys takes to the limit: load that is real and
    lasts, but no defect. `owner` looks after it, the cluster's owner where empty. `topics` holds overrides by pattern
    such as `orders*`, the first that fits the topic that adds most to the broker's excess.
    """

    limit_ratio: float = Field(1.20, gt=1)
    resolve_ratio: float | None = Field(None, gt=1)
    floor_bytes_per_s: float = Field(1024, ge=0)
    chance_level: float = Field(0.001, gt=0, lt=1)
    k: int = Field(3, ge=1)
    n: int = Field(4, ge=1)
    hash_luck: Literal["warn", "fail"] = "warn"
    worsens_by: float = Field(1.25, gt=1)
    repeat: Duration = timedelta(days=1)
    owner: str = ""
    topics: dict[str, GateOverride] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _k_within_n(self) -> Gate:
        if self.k > self.n:
            raise ValueError(f"k of n windows: k={self.k} is larger than n={self.n}")
        if self.resolve_ratio is not None and self.resolve_ratio > self.limit_ratio:
            raise ValueError(f"resolve_ratio {self.resolve_ratio} lies above limit_ratio {self.limit_ratio}")
        return self

    def of_topic(self, topic: str) -> Gate:
        """The gate as it is for brokers whose excess comes most from a topic ("" for none).

        Under a limit of its own a broker is well again halfway to even.
        """
        override = find_pattern(self.topics, topic)
        if override is None:
            return self
        own = override.model_dump(exclude_none=True)
        return self.model_copy(update={**own, "resolve_ratio": None} if "limit_ratio" in own else own)

    @property
    def topic_limits(self) -> dict[str, float]:
        """Limit by pattern of topics; the first that fits counts, also where it names none."""
        return {pattern: override.limit_ratio or self.limit_ratio for pattern, override in self.topics.items()}

    @property
    def resolves_at(self) -> float:
        """Ratio below which a failing broker counts as well again: halfway to even unless configured."""
        return self.resolve_ratio if self.resolve_ratio is not None else _halfway(self.limit_ratio)

    @property
    def resolves_by_limit(self) -> dict[float, float]:
        """The same, by the limits that topics have of their own."""
        return {limit: _halfway(limit) for limit in self.topic_limits.values() if limit != self.limit_ratio}


class RuleOverride(Section):
    """What differs for some topics; what is not named stays."""

    limit: float | None = Field(None, ge=0)
    severity: Severity | None = None
    owner: str | None = None


class Rule(Section):
    """A limit on one measure.

    Attributes:
        limit: From here on a window is above (`disk_hours_to_full`: down to here).
        severity: `critical` makes an incident and fails the gate, `warning` is told in verdicts alone, `off` is not judged.
        k: Windows above that make a failure ...
        n: ... among this many.
        owner: Who looks after it; the cluster's owner where empty.
        topics: Overrides by pattern such as `orders*`, the first that fits.
    """

    limit: float = Field(ge=0)
    severity: Severity = "warning"
    k: int = Field(2, ge=1)
    n: int = Field(3, ge=1)
    owner: str = ""
    topics: dict[str, RuleOverride] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _k_within_n(self) -> Rule:
        if self.k > self.n:
            raise ValueError(f"k of n windows: k={self.k} is larger than n={self.n}")
        return self

    def of_topic(self, topic: str) -> Rule:
        """The rule as it is for a topic ("" for what is about no topic)."""
        override = find_pattern(self.topics, topic)
        return self if override is None else self.model_copy(update=override.model_dump(exclude_none=True))


DEFAULT_RULES: dict[str, Rule] = {
    "topic_peak": Rule(limit=2.0, k=3, n=4),
    "under_replicated": Rule(limit=1),
    "below_min_isr": Rule(limit=1, k=1, n=1),
    "leaderless": Rule(limit=1, k=1, n=1),
    "lagging_replicas": Rule(limit=1),
    "replica_size_spread": Rule(limit=2.0),
    "preferred_leader": Rule(limit=0.10),
    "latency_to_peers": Rule(limit=3.0, k=3, n=4),
    "latency_to_history": Rule(limit=3.0, k=3, n=4),
    "segments_past_retention": Rule(limit=1),
    "disk_hours_to_full": Rule(limit=48),
    "assignment_skew": Rule(limit=1.5),
}
"""What is judged without a word in the configuration; all of them warnings.

`preferred_leader` holds brokers against the 10 % that ZooKeeper's controller used
(`leader.imbalance.per.broker.percentage`). KRaft ignores that setting: it elects for any leader that is not preferred.
"""


def over_defaults(rules: object) -> object:
    """The configured rules over the default ones, field by field.

    Raises:
        ValueError: if there is no rule of a name.
    """
    if not isinstance(rules, dict):
        return rules
    unknown = sorted(str(name) for name in rules if name not in DEFAULT_RULES)
    if unknown:
        raise ValueError(f"no rule {', '.join(unknown)}; there are {', '.join(DEFAULT_RULES)}")
    return {
        name: {**rule.model_dump(), **_fields(rules.get(name, {}))}
        if isinstance(rules.get(name, {}), dict | Rule)
        else rules[name]
        for name, rule in DEFAULT_RULES.items()
    }


def _fields(rule: dict[str, object] | Rule) -> dict[str, object]:
    return rule.model_dump() if isinstance(rule, Rule) else rule
