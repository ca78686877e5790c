"""Limits on measures: window by window to verdicts, as the broker share rule does, but for any measure.

A subject is *above* in a window when its value is at the limit or over it (`disk_hours_to_full`: or under it) and chance
does not explain it, Benjamini-Hochberg over the rule's subjects in that window. It is `fail` where it is above and was in
k of the last n windows and its rule is critical, else `warn`.

Most subjects are within their limits always. A verdict is given where one is above, and after that until it was judged and
found well in n windows: those in which an incident ends. What every subject measured is in `gold.rule_measures`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.measures.chance import significant
from pipeline.model.rule import FALLING_RULES
from pipeline.model.verdict import Verdict, VerdictKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pipeline.measures.source_arrivals import Hold
    from pipeline.model.rule import RuleMeasure


HELD_RULES = frozenset({"topic_peak", "assignment_skew", "preferred_leader", "replica_size_spread"})
"""Rules that say nothing where records are missing or a reassignment runs. The others tell what is so all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleLimit:
    """What a measure is held against.

    Attributes:
        limit: Limit.
        severity: `critical`, `warning` or `off`.
        k: Windows above that make a failure ...
        n: ... among this many.
    """

    limit: float
    severity: str
    k: int
    n: int


def judge_rules(
    measures: Sequence[RuleMeasure],
    limit_of: Callable[[str, str], RuleLimit | None],
    *,
    chance_level: float,
    judged_from_ms: int | None = None,
    holds: Mapping[int, Hold] | None = None,
) -> tuple[Verdict, ...]:
    """Judges every measure in every window.

    Args:
        measures: One per rule, subject and window, in any order.
        limit_of: Limit by rule and topic; None where it is not judged.
        chance_level: False alarms allowed per rule and window.
        judged_from_ms: Windows that start before count toward k of n and get no verdict.
        holds: Windows in which `HELD_RULES` are not judged, and why; they count neither as above nor as well.

    Returns:
        Verdicts by window, rule and subject, of subjects that are above or have not been well for n windows since.
    """
    windows: dict[tuple[int, str], list[RuleMeasure]] = defaultdict(list)
    for measure in measures:
        windows[measure.window_start_ms, measure.rule].append(measure)
    recent: dict[tuple[str, str], deque[bool]] = {}
    well: dict[tuple[str, str], int] = {}  # windows judged and found well since the last one above
    verdicts = []
    for (start_ms, rule), rows in sorted(windows.items()):
        rows.sort(key=lambda row: row.subject)
        chances = [row.p_value for row in rows if row.p_value is not None]
        by_chance = iter(significant(chances, chance_level).tolist()) if chances else iter(())
        for row in rows:
            is_real = True if row.p_value is None else next(by_chance)
            limit = limit_of(rule, row.topic)
            if limit is None or limit.severity == "off":
                continue
            is_above = is_real and row.is_enough and _is_beyond(row, limit)
            hold = (holds or {}).get(start_ms) if rule in HELD_RULES else None
            subject = (rule, row.subject)
            since = 0 if is_above else well.get(subject, limit.n)
            seen = recent.setdefault(subject, deque(maxlen=limit.n))
            if hold is None:
                seen.append(is_above)
                well[subject] = since + int(_is_judged(row) and not is_above)
            if since < limit.n and (judged_from_ms is None or start_ms >= judged_from_ms):
                verdicts.append(
                    _verdict(row, limit, sum(seen), is_above=is_above) if hold is None else _held_back(row, limit, hold)
                )
    return tuple(verdicts)


def _held_back(row: RuleMeasure, limit: RuleLimit, hold: Hold) -> Verdict:
    return _say(row, limit, hold.kind, f"not judged: {hold.reason}")


def _is_judged(row: RuleMeasure) -> bool:
    return row.value is not None and row.is_enough


def _is_beyond(row: RuleMeasure, limit: RuleLimit) -> bool:
    if row.value is None:
        return False
    return row.value <= limit.limit if row.rule in FALLING_RULES else row.value >= limit.limit


def _verdict(row: RuleMeasure, limit: RuleLimit, above_count: int, *, is_above: bool) -> Verdict:
    kind: VerdictKind
    if not _is_judged(row):
        kind, reason = "not_enough_traffic", f"{row.detail}; not enough to judge"
    elif not is_above:
        kind, reason = "ok", f"{row.detail}; limit {limit.limit:g}"
    else:
        is_failure = above_count >= limit.k and limit.severity == "critical"
        kind = "fail" if is_failure else "warn"
        reason = f"{row.detail}; limit {limit.limit:g}, beyond it in {above_count} of the last {limit.n} windows"
    return _say(row, limit, kind, reason, is_above=is_above, above_count=above_count)


def _say(
    row: RuleMeasure, limit: RuleLimit, kind: VerdictKind, reason: str, *, is_above: bool = False, above_count: int = 0
) -> Verdict:
    return Verdict(
        window_start_ms=row.window_start_ms,
        rule=row.rule,
        subject=row.subject,
        value=row.value,
        limit_value=limit.limit,
        chance_value=None,
        is_above=is_above,
        above_count=above_count,
        verdict=kind,
        reason=reason,
    )
