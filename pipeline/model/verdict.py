"""Input and output of the rules: brokers' loads in one window, and verdicts, rows of `gold.verdicts`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

HISTORY_FACTOR = 8
"""How far back, in multiples of n windows, the windows before the first judged one are looked for: some may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """Load of one broker in a window and its fair share, input of the broker share rule; None without traffic."""

    window_start_ms: int
    broker_id: int
    size_bytes: int  # bytes appended to the partitions it led, all topics
    record_count: int
    share: float | None
    expected_share: float  # its part of the cluster's capacity, 0..1
    share_ratio: float | None
    effective_unit_count: float | None  # independent units behind the cluster's traffic
    chance_ratio: float | None = None  # share ratio that chance alone exceeds once in a thousand windows
    chance_p_value: float | None = None  # chance that independent batches give one broker this ratio or more
    remainder_term: float | None = None  # part of its excess that neither keys nor leaders explain
    ratio_without_luck: float | None = None  # share ratio less what hashing its lighter keys gives it; None: the same
    excess_topic: str | None = None  # topic that adds most to its excess; None where it is not computed
    ratio_without_topic: float | None = None  # share ratio less what that topic adds beyond its fair part

    def is_hash_luck(self, limit_ratio: float) -> bool:
        """Whether the broker is at a limit only because more of many light keys hash to it than to others."""
        without = self.ratio_without_luck
        return without is not None and without < limit_ratio <= (self.share_ratio or 0.0)


BrokerLoads = Sequence[BrokerLoad]


BLIND = frozenset({"incomplete", "stale"})  # verdicts of windows whose data is missing
VerdictKind = Literal["ok", "warn", "fail", "not_enough_traffic", "incomplete", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Verdict of a rule on a subject in one window; fields are columns of `gold.verdicts`."""

    window_start_ms: int
    rule: str
    subject: str
    value: float | None
    limit_value: float
    chance_value: float | None = None
    is_above: bool = False  # this window alone is above limit, floor and chance
    above_count: int = 0  # windows above among the last n, this one included
    verdict: VerdictKind  # `fail` as docs/MEASURES.md defines it, `warn` when above and no `fail`
    reason: str
    k: int = 1  # windows above that make a failure; not stored
    severity: str = "critical"  # `critical` or `warning`; not stored


Verdicts = Sequence[Verdict]
