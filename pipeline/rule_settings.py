"""The configuration's section `rules`: limits on measures, by cluster and topic, and who is told."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field, model_validator

from pipeline.section import Section

Severity = Literal["critical", "warning", "off"]


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
        for pattern, override in self.topics.items():
            if topic and fnmatchcase(topic, pattern):
                return self.model_copy(update=override.model_dump(exclude_none=True))
        return self


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
