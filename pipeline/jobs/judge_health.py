"""Judges scored windows: broker shares, further rules, and whether every source arrived. Writes nothing."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from operator import attrgetter

from pipeline.alerting.incidents import load_open
from pipeline.model.verdict import BLIND, HISTORY_FACTOR, BrokerLoad, Verdict
from pipeline.model.window import END_OF_TIME_MS, TimeWindow, Windows, milliseconds_of
from pipeline.rules.rule import RuleMeasure
from pipeline.runs import RunContext
from pipeline.storage.window_status import trusted_windows
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.values import tuples_of
from pipeline.verdicts import sources
from pipeline.verdicts.broker_share import judge_broker_share
from pipeline.verdicts.rules import judge_rules
from pipeline.verdicts.sources import SkippedWindow, SourceBeginning, SourceStatus

_AT_ONCE = 24  # windows whose measures are loaded at once
_IS_BLIND = f"rule = 'broker_share' AND verdict IN {tuple(sorted(BLIND))}"
_MOVING = """
    SELECT window_start, sum(reassigning_count) AS moving FROM topics WHERE reassigning_count > 0
    GROUP BY window_start ORDER BY window_start"""
_BEGINNINGS = """
    SELECT source, min(window_start) AS asked, min(CASE WHEN arrived_count > 0 THEN window_start END) AS brought
    FROM status GROUP BY source"""


def run(run: RunContext, windows: Windows) -> tuple[Verdict, ...]:
    """Judges these windows, and later ones that have verdicts again, as their counts change; windows before only count."""
    gate, max_age_ms = run.cluster.gate, milliseconds_of(run.cluster.freshness)
    patience_ms = gate.n * run.window_ms
    first_ms = min(window.start_ms for window in windows)
    judged_ms = run.starts_in((VERDICTS,), (TimeWindow(first_ms, END_OF_TIME_MS),)) | {w.start_ms for w in windows}
    reach = _reach(run, first_ms, gate.n)
    trusted_ms = {window.start_ms for window in trusted_windows(run.warehouse, run.cluster_name, reach)}
    status = run.values(SourceStatus, WINDOW_STATUS, reach)
    arrivals = [one for one in status if one.window_start_ms in trusted_ms]
    skipped = find_reassignments(run, reach) | sources.find_skipped(arrivals, max_age_ms=max_age_ms)
    if doubted_ms := {one.window_start_ms for one in status} - trusted_ms:  # read again: their shares are of before
        blind = run.tuples(VERDICTS, reach, "window_start_ms", "verdict", "reason", where=_IS_BLIND)
        skipped |= {
            at: SkippedWindow(kind, said.removeprefix("not judged: ")) for at, kind, said in blind if at in doubted_ms
        }
    loads = run.values(BrokerLoad, BROKER_SHARE, reach)
    ratios: dict[int, dict[int, float | None]] = defaultdict(dict)
    for load in loads:
        ratios[load.window_start_ms][load.broker_id] = load.share_ratio
    beginnings: dict[str, SourceBeginning] = {}
    if any(map(sources.is_silent, arrivals)):
        known = run.query(_BEGINNINGS, (TimeWindow(0, END_OF_TIME_MS),), status=WINDOW_STATUS)
        beginnings = {of[0]: SourceBeginning(*of[1:]) for of in tuples_of(known, "source", "asked_ms", "brought_ms")}
    # others count neither as above nor as well
    judged = [load for load in loads if load.window_start_ms not in skipped]
    verdicts = (
        *judge_broker_share(judged, gate, window_ms=run.window_ms, judged_from_ms=first_ms),
        *sources.judge_skipped(skipped, ratios, limit_value=gate.limit_ratio),
        *sources.judge_sources(arrivals, max_age_ms=max_age_ms, beginnings=beginnings, patience_ms=patience_ms),
        *judge_further_rules(run, first_ms, skipped),
    )
    return tuple(verdict for verdict in verdicts if verdict.window_start_ms in judged_ms)


def judge_further_rules(
    run: RunContext, first_ms: int, skipped: Mapping[int, SkippedWindow] | None = None
) -> tuple[Verdict, ...]:
    """Judges the rules of `pipeline.rules` from a window on, also for subjects whose incidents began before what is read."""
    rules = run.cluster.rules
    reach = _reach(run, first_ms, max(rule.n for rule in rules.values()))
    return judge_rules(
        _load_measures(run, reach),
        rules,
        chance_level=run.cluster.gate.chance_level,
        judged_from_ms=first_ms,
        skipped=skipped,
        still_open=[(one.last.rule, one.last.subject) for one in load_open(run, first_ms)],
    )


def _load_measures(run: RunContext, reach: Windows) -> Iterator[RuleMeasure]:
    """Window by window; so many are in memory at once, however long ago the first one was that is judged."""
    starts_ms = sorted(run.starts_in((RULE_MEASURES,), reach))
    for at in range(0, len(starts_ms), _AT_ONCE):
        part = [run.window_at(start_ms) for start_ms in starts_ms[at : at + _AT_ONCE]]
        yield from sorted(run.values(RuleMeasure, RULE_MEASURES, part), key=attrgetter("window_start_ms"))


def find_reassignments(run: RunContext, windows: Windows) -> dict[int, SkippedWindow]:
    """Windows at whose end a reassignment ran: what it copies, and leaders on their way, say nothing of balance."""
    moving = run.query(_MOVING, windows, topics=TOPIC_HEALTH)
    return {
        start_ms: SkippedWindow(
            "incomplete", f"a reassignment of {count:,} partition{'' if count == 1 else 's'} was running"
        )
        for start_ms, count in tuples_of(moving, "window_start_ms", "moving")
    }


def _reach(run: RunContext, first_ms: int, n: int) -> tuple[TimeWindow]:
    return (TimeWindow(first_ms - HISTORY_FACTOR * n * run.window_ms, END_OF_TIME_MS),)
