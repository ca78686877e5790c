"""The broker share rule: loads of brokers, window by window, to verdicts.

A broker is *above* in a window when its share ratio is at the limit or over it, its load is above the floor, and the
excess is significant after Benjamini-Hochberg over the window's brokers. (Where there are units enough to judge at all,
an excess at the limit is significant even after Bonferroni; the correction is held to all the same.) A broker that
hash luck alone takes to the limit is a `warn` and not above: that load is real and lasts, but it is what so many keys
give, and no defect. It *fails* a window in which it is above and
was above in k of the last n windows, that window included. A window in which it is not above is never a `fail`, however
bad the ones before: the verdict is about its window; what holds an alarm through a short dip is the incident, which
resolves only after k windows below the lower limit.

The last n windows are the last n that are known, in time order: a window that was never ingested is passed over, one
without enough traffic counts as not above.

References:
    docs/ARCHITECTURE.md, Measures.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pipeline.measures.chance import chance_p_value, chance_ratio, required_units_of_share, significant
from pipeline.model.verdict import Verdict, VerdictKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.model.load import BrokerLoad

RULE = "broker_share"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLimits:
    """What the rule is held against.

    Attributes:
        limit_ratio: Share ratio from which a broker carries too much, above 1.
        floor_bytes: Bytes per window a broker must exceed to be worth a word.
        chance_level: False alarms allowed per window, 0..1.
        k: Windows above that make a failure ...
        n: ... among this many.
        luck_fails: What hashing so many keys gives by chance counts too: the load is real, whatever it comes from.
        topic_limits: Limits by pattern of topics, for brokers whose excess comes most from one; the first that fits.
    """

    limit_ratio: float
    floor_bytes: float
    chance_level: float
    k: int
    n: int
    luck_fails: bool = False
    topic_limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lowest = min((self.limit_ratio, *self.topic_limits.values()))
        if not (lowest > 1 and 0 < self.chance_level < 1 and 1 <= self.k <= self.n and self.floor_bytes >= 0):
            raise ValueError(f"limits make no sense: {self}")

    def limit_of(self, load: BrokerLoad) -> float:
        """Limit of a broker, by the topic that most of its excess comes from."""
        topic = load.excess_topic or ""
        fitting = (limit for pattern, limit in self.topic_limits.items() if topic and fnmatchcase(topic, pattern))
        return next(fitting, self.limit_ratio)


def judge_broker_share(
    loads: Sequence[BrokerLoad], limits: ShareLimits, *, judged_from_ms: int | None = None
) -> tuple[Verdict, ...]:
    """Judges every broker in every window.

    Args:
        loads: One load per broker and window, in any order.
        limits: Limit, floor, chance level, k of n.
        judged_from_ms: Windows that start before are history: they count toward k of n but get no verdict. With fewer
            than n - 1 windows of history a first failure comes later, never earlier.

    Returns:
        Verdicts by window and broker.
    """
    windows: dict[int, list[BrokerLoad]] = defaultdict(list)
    for load in loads:
        windows[load.window_start_ms].append(load)
    recent: dict[int, deque[bool]] = defaultdict(lambda: deque(maxlen=limits.n))
    verdicts = []
    for start_ms, window_loads in sorted(windows.items()):
        brokers = sorted(window_loads, key=lambda load: load.broker_id)
        for broker_id in recent.keys() - {load.broker_id for load in brokers}:
            recent[broker_id].append(False)
        total_bytes = sum(load.size_bytes for load in brokers)
        held_back = [_too_little(load, total_bytes, len(brokers), limits) for load in brokers]
        above = _above(brokers, held_back, limits)
        for load, too_little, is_above in zip(brokers, held_back, above, strict=True):
            recent[load.broker_id].append(is_above)
            if judged_from_ms is None or start_ms >= judged_from_ms:
                verdicts.append(_verdict(load, too_little, limits, is_above=is_above, recent=recent[load.broker_id]))
    return tuple(verdicts)


def _above(brokers: Sequence[BrokerLoad], held_back: Sequence[str | None], limits: ShareLimits) -> list[bool]:
    p_values = [_p_value(load) for load in brokers]
    is_significant = significant(p_values, limits.chance_level)
    return [
        load.share_ratio is not None
        and too_little is None
        and load.share_ratio >= limits.limit_of(load)
        and not _is_luck(load, limits)
        and load.size_bytes > limits.floor_bytes
        and bool(flag)
        for load, too_little, flag in zip(brokers, held_back, is_significant, strict=True)
    ]


def _is_luck(load: BrokerLoad, limits: ShareLimits) -> bool:
    """Without what its keys' luck gives it the broker is below the limit."""
    if limits.luck_fails or load.ratio_without_luck is None:
        return False
    return load.ratio_without_luck < limits.limit_of(load)


def _p_value(load: BrokerLoad) -> float:
    if load.share_ratio is None or not load.effective_unit_count:
        return 1.0
    return chance_p_value(load.share_ratio, load.expected_share, load.effective_unit_count)


def _too_little(load: BrokerLoad, total_bytes: int, broker_count: int, limits: ShareLimits) -> str | None:
    """Why the window cannot be judged for this broker, or None if it can."""
    if load.share_ratio is None or not load.effective_unit_count:
        return "no traffic in this window"
    if total_bytes <= limits.floor_bytes:
        return f"the cluster's {total_bytes:,} bytes are not above the floor of {limits.floor_bytes:,.0f}"
    excess = limits.limit_of(load) - 1
    required = required_units_of_share(load.expected_share, excess, limits.chance_level, broker_count)
    if load.effective_unit_count < required:
        return (
            f"{load.effective_unit_count:,.0f} independent batches are too few to tell "
            f"{excess:.0%} above its share from chance; it takes {required:,.0f}"
        )
    return None


def _verdict(
    load: BrokerLoad, too_little: str | None, limits: ShareLimits, *, is_above: bool, recent: deque[bool]
) -> Verdict:
    above_count = sum(recent)
    kind, reason = _kind_and_reason(load, too_little, limits, is_above=is_above, above_count=above_count)
    units = load.effective_unit_count
    return Verdict(
        window_start_ms=load.window_start_ms,
        rule=RULE,
        subject=f"broker {load.broker_id}",
        value=load.share_ratio,
        limit_value=limits.limit_of(load),
        chance_value=chance_ratio(load.expected_share, units) if units else None,
        is_above=is_above,
        above_count=above_count,
        verdict=kind,
        reason=reason,
    )


def _kind_and_reason(
    load: BrokerLoad, too_little: str | None, limits: ShareLimits, *, is_above: bool, above_count: int
) -> tuple[VerdictKind, str]:
    if too_little is not None or load.share_ratio is None:
        return "not_enough_traffic", too_little or "no traffic in this window"
    said = (
        f"{load.share:.1%} of the bytes where {load.expected_share:.1%} is fair: {load.share_ratio:.2f} times its share"
    )
    if is_above:
        held = f"limit {_say_limit(load, limits)}, above in {above_count} of the last {limits.n} windows"
        if above_count >= limits.k:
            return "fail", f"{said}; {held}"
        return "warn", f"{said}; {held}, {limits.k} make a failure"
    return _below(load, limits, said)


def _say_limit(load: BrokerLoad, limits: ShareLimits) -> str:
    limit = limits.limit_of(load)
    return f"{limit:.2f}" if limit == limits.limit_ratio else f"{limit:.2f} of topic {load.excess_topic}"


def _below(load: BrokerLoad, limits: ShareLimits, said: str) -> tuple[VerdictKind, str]:
    """Why a broker is not above."""
    ratio = load.share_ratio or 0.0
    if ratio < limits.limit_of(load):
        return "ok", f"{said}; below the limit of {_say_limit(load, limits)}"
    if load.size_bytes <= limits.floor_bytes:
        return "ok", f"{said}, but its {load.size_bytes:,} bytes are not above the floor of {limits.floor_bytes:,.0f}"
    if load.ratio_without_luck is not None and _is_luck(load, limits):
        return "warn", (
            f"{said}, which hashing so many keys gives by chance (without it {load.ratio_without_luck:.2f}): real and "
            "lasting, but no defect; other keys or more partitions even it out"
        )
    return "ok", f"{said}, within what chance does to shares"
