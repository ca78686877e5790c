"""Measures of the rules of `pipeline.rules` to verdicts, window by window, and all verdicts of a run in words.

A subject is *above* in a window when its value is at the limit or over it (under it for falling measures) and chance
does not explain it, Benjamini-Hochberg over the rule's subjects in that window. It is `fail` where it is above and was
in k of the last n windows and its rule is critical, else `warn`.

A verdict is given where a subject is above, and after that until it was judged and found well in n windows: those in
which an incident ends. One that is still open may have begun before the history that is read: its subject is judged
until it was well in k windows. What every subject measured is in `gold.rule_measures`.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, groupby

from pipeline.config.rules import Gate, RuleSettings
from pipeline.measures.chance import significant
from pipeline.model.number_text import format_name, say_more
from pipeline.model.verdict import BLIND, Verdict, VerdictKind, Verdicts
from pipeline.model.window import HOUR_MS, format_instant
from pipeline.rules import BROKER_SHARE, RULES, SOURCE_ARRIVAL, format_measure
from pipeline.rules.brokers import EVENT_RULES
from pipeline.rules.rule import RuleMeasure
from pipeline.verdicts.sources import SkippedWindow

MOST_LINES, _MOST_CHARACTERS, _MOST_EVENTS = 50, 1_000, 12


def judge_rules(
    measures: Iterable[RuleMeasure],
    settings: Mapping[str, RuleSettings],
    *,
    chance_level: float,
    judged_from_ms: int | None = None,
    skipped: Mapping[int, SkippedWindow] | None = None,
    still_open: Collection[tuple[str, str]] = (),
) -> tuple[Verdict, ...]:
    """Verdicts by window, rule and subject, of subjects that are above or have not been well for n windows since.

    `measures`: one per rule, subject and window, hour by hour; those of rules without `settings` are left out. `chance_level`: false
    alarms allowed per rule and window. Windows before `judged_from_ms` are history. In `skipped` ones rules that need
    all records are not judged, and count neither as above nor as well. `still_open`: rules and subjects of incidents
    open before the first.
    """
    recent: dict[tuple[str, str], deque[bool]] = {}
    well: dict[tuple[str, str], int] = {}  # windows judged and found well since the last one above
    waiting = set(still_open)
    verdicts = []
    for (start_ms, name), rows in _by_window(measures):
        rows.sort(key=lambda row: row.subject)
        chances = [row.p_value for row in rows if row.p_value is not None]
        by_chance = iter(significant(chances, chance_level).tolist()) if chances else iter(())
        skip = (skipped or {}).get(start_ms) if RULES[name].needs_all_records else None
        for row in rows:
            is_real = True if row.p_value is None else next(by_chance)
            rule = settings[name].of_topic(row.topic) if name in settings else None
            if rule is None or rule.severity == "off":
                continue
            is_beyond = row.value is not None and (
                row.value <= rule.limit if RULES[name].is_falling else row.value >= rule.limit
            )
            is_above = is_real and row.is_enough and is_beyond
            subject = (name, row.subject)
            is_new = judged_from_ms is None or start_ms >= judged_from_ms
            if is_new and subject in waiting:
                waiting.remove(subject)
                known = well.get(subject, rule.n)
                well[subject] = known if known < rule.n else rule.n - rule.k
            since = 0 if is_above else well.get(subject, rule.n)
            seen = recent.setdefault(subject, deque(maxlen=rule.n))
            if skip is None:
                seen.append(is_above)
                well[subject] = since + int(_is_judged(row) and not is_above)
            if since < rule.n and is_new:
                verdicts.append(_verdict(row, rule, sum(seen), skip, is_above=is_above))
    return tuple(verdicts)


def _by_window(measures: Iterable[RuleMeasure]) -> Iterator[tuple[tuple[int, str], list[RuleMeasure]]]:
    """Measures by window and rule, ascending; those of an hour are held at once."""
    for _, of_hour in groupby(measures, lambda one: one.window_start_ms // HOUR_MS):
        windows: dict[tuple[int, str], list[RuleMeasure]] = defaultdict(list)
        for measure in of_hour:
            windows[measure.window_start_ms, measure.rule].append(measure)
        yield from sorted(windows.items())


def list_events(verdicts: Iterable[Verdict]) -> tuple[tuple[int, str], ...]:
    found = (verdict for verdict in verdicts if verdict.rule in EVENT_RULES and verdict.is_above)
    return tuple((one.window_start_ms, f"{one.subject}: {one.reason.partition(';')[0]}") for one in found)


def _is_judged(row: RuleMeasure) -> bool:
    return row.value is not None and row.is_enough


def _verdict(
    row: RuleMeasure, rule: RuleSettings, above_count: int, skip: SkippedWindow | None, *, is_above: bool
) -> Verdict:
    kind: VerdictKind = "ok"
    reason = f"{row.detail}; limit {format_measure(row.rule, rule.limit)}"
    if skip is not None:
        kind, reason, is_above, above_count = skip.kind, f"not judged: {skip.reason}", False, 0
    elif not _is_judged(row):
        kind, reason = "not_enough_traffic", f"{row.detail}; not enough to judge"
    elif is_above:
        kind = "fail" if above_count >= rule.k and rule.severity == "critical" else "warn"
        reason += f", beyond it in {above_count} of the last {rule.n} windows"
    return Verdict(
        window_start_ms=row.window_start_ms,
        rule=row.rule,
        subject=row.subject,
        value=row.value,
        limit_value=rule.limit,
        is_above=is_above,
        above_count=above_count,
        verdict=kind,
        reason=reason,
        k=rule.k,
        severity=rule.severity,
    )


def describe_verdicts(verdicts: Verdicts, *, cluster: str, gate: Gate, window_ms: int) -> str:
    """Describes which broker failed when, which windows could not be judged, or that no broker fails; then events."""
    happened = list_events(verdict for verdict in verdicts if verdict.verdict != "fail")
    events = [f"  {format_instant(start_ms)} {text}" for start_ms, text in happened[-_MOST_EVENTS:]]
    of_sources = [verdict for verdict in verdicts if verdict.rule == SOURCE_ARRIVAL]
    events = [*_lines(verdict for verdict in of_sources if verdict.verdict == "warn"), *events]
    failed = [verdict for verdict in verdicts if verdict.verdict == "fail"]
    if any(verdict.rule != SOURCE_ARRIVAL for verdict in failed):
        return "\n".join([f"cluster {cluster}: NOT healthy", *_lines(failed), *events])
    sources = _lines(failed)
    shares = [verdict for verdict in verdicts if verdict.rule == BROKER_SHARE]
    # no byte came in its window, and nothing is known to be missing
    if shares and all(map(_is_silent, shares)):
        starts_ms = sorted({verdict.window_start_ms for verdict in shares})
        windows = "this window" if len(starts_ms) == 1 else f"these {len(starts_ms)} windows"
        text = f"no records in {windows}; the next one ends at {format_instant(starts_ms[-1] + 2 * window_ms)}"
        return "\n".join([f"cluster {cluster}: {text}", *sources, *events])
    unjudged = find_unjudged(verdicts)
    if unjudged is not None or (sources and not shares):
        why = (
            []
            if sources or unjudged is None
            else _lines([unjudged if _is_undecided(unjudged) else replace(unjudged, subject="shares")])
        )
        text = f"health is not known{', data is missing' if sources else ''}"
        return "\n".join([f"cluster {cluster}: {text}", *sources, *why, *events])
    text, above = _describe_shares(verdicts, shares, gate)
    if sources:
        text = f"not every source is complete; judged by the others: {text}"
    return "\n".join([f"cluster {cluster}: {text}", *sources, *_lines(above), *events])


def _describe_shares(verdicts: Verdicts, shares: Verdicts, gate: Gate) -> tuple[str, list[Verdict]]:
    blind_ms = {verdict.window_start_ms for verdict in shares if verdict.verdict in BLIND or _is_undecided(verdict)}
    known = len({verdict.window_start_ms for verdict in verdicts} - blind_ms)
    judged, needed = f"these {known} windows" if known > 1 else "this window", f"in {gate.k} of {gate.n} windows"
    if above := [verdict for verdict in shares if verdict.is_above]:
        brokers = ", ".join(sorted({verdict.subject for verdict in above}))
        return f"no incident, but above the limit in {judged}: {brokers} (an incident needs that {needed})", above
    text = f"healthy, no broker fails in {judged} (to fail, a broker has to be above its share {needed})"
    return f"{text}; of {len(blind_ms)} earlier ones nothing is known" if blind_ms else text, above


def has_share(verdicts: Iterable[Verdict]) -> bool:
    return any(verdict.rule == BROKER_SHARE for verdict in verdicts)


def find_unjudged(verdicts: Iterable[Verdict]) -> Verdict | None:
    """A verdict on a share of the newest window, if that cannot be called healthy.

    None is judged there, because data is missing, a reassignment runs or no record came; or a broker is beyond its limit and
    its traffic, as in a few bursts, is too little to decide whether that is chance.
    """
    shares = [verdict for verdict in verdicts if verdict.rule == BROKER_SHARE]
    newest_ms = max((verdict.window_start_ms for verdict in shares), default=0)
    newest = [verdict for verdict in shares if verdict.window_start_ms == newest_ms]
    if newest and all(one.verdict in BLIND or _is_silent(one) for one in newest):
        return newest[0]
    open_ones = [] if any(one.is_above for one in newest) else filter(_is_undecided, newest)
    return max(open_ones, key=lambda one: one.value or 0.0, default=None)


def find_doubt(verdicts: Collection[Verdict]) -> str | None:
    if not has_share(verdicts):
        return "it was measured and not judged: run it again"
    unjudged = find_unjudged(verdicts)
    return None if unjudged is None else unjudged.reason


def _is_silent(verdict: Verdict) -> bool:
    return verdict.verdict == "not_enough_traffic" and verdict.value is None


def _is_undecided(verdict: Verdict) -> bool:
    return verdict.verdict == "not_enough_traffic" and (verdict.value or 0.0) >= verdict.limit_value


def _lines(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each rule and subject, by its newest window; of many the newest, in turn of each rule."""
    by_rule: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda one: one.window_start_ms):
        by_rule.setdefault((verdict.rule, verdict.subject), []).append(verdict)
    newest = sorted(by_rule.values(), key=lambda rows: (-rows[-1].window_start_ms, rows[-1].rule, rows[-1].subject))
    turns: dict[str, Iterator[int]] = defaultdict(count)
    told = sorted(newest, key=lambda rows: next(turns[rows[-1].rule]))[:MOST_LINES]
    told.sort(key=lambda rows: (rows[-1].window_start_ms, rows[-1].rule, rows[-1].subject))
    lines = []
    for *earlier, last in told:
        subject = "" if last.rule == SOURCE_ARRIVAL else f"{last.subject}: "  # a source's reason begins with its name
        text = f"  {format_instant(last.window_start_ms)} {subject}{last.reason}"
        if earlier:
            text += f" (in {len(earlier) + 1} windows since {format_instant(earlier[0].window_start_ms)})"
        lines.append(format_name(text, _MOST_CHARACTERS))  # a line each, whatever names hold
    return [*lines, *say_more(len(newest) - len(told))]
