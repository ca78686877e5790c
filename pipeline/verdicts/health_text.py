"""Verdicts on a run's windows in words: what the terminal and the asset event say."""

from collections.abc import Iterable, Sequence

from pipeline.config.rules import Gate
from pipeline.model.verdict import Verdict
from pipeline.model.window import format_instant
from pipeline.rules import BROKER_SHARE, SOURCE_ARRIVAL
from pipeline.verdicts.rules import list_events

_MOST_EVENTS = 12


def describe_verdicts(verdicts: Sequence[Verdict], *, cluster: str, gate: Gate, window_ms: int) -> str:
    """Describes which broker failed when, which windows could not be judged, or that no broker fails.

    Brokers above the limit in fewer windows than make an incident are named. What is found in many windows is one line.
    The newest windows' brokers that were away and leaders that moved follow.
    """
    happened = list_events(verdict for verdict in verdicts if verdict.verdict != "fail")
    events = [f"  {format_instant(start_ms)} {text}" for start_ms, text in happened[-_MOST_EVENTS:]]
    of_sources = [verdict for verdict in verdicts if verdict.rule == SOURCE_ARRIVAL]
    events = [*_lines(verdict for verdict in of_sources if verdict.verdict == "warn"), *events]
    failed = [verdict for verdict in verdicts if verdict.verdict == "fail"]
    if any(verdict.rule != SOURCE_ARRIVAL for verdict in failed):
        return "\n".join([f"cluster {cluster}: NOT healthy", *_lines(failed), *events])
    sources = _lines(failed)
    shares = [verdict for verdict in verdicts if verdict.rule == BROKER_SHARE]
    if sources and all(verdict.verdict in {"incomplete", "stale"} for verdict in shares):
        return "\n".join([f"cluster {cluster}: health is not known, data is missing", *sources, *events])
    # no byte came in its window, and nothing is known to be missing
    if shares and all((verdict.verdict == "not_enough_traffic" and verdict.value is None) for verdict in shares):
        return "\n".join([f"cluster {cluster}: {_describe_empty(shares, window_ms)}", *sources, *events])
    text, above = _describe_shares(verdicts, shares, gate)
    if sources:
        text = f"not every source is complete; judged by the others: {text}"
    return "\n".join([f"cluster {cluster}: {text}", *sources, *_lines(above), *events])


def _describe_shares(
    verdicts: Sequence[Verdict], shares: Sequence[Verdict], gate: Gate
) -> tuple[str, Sequence[Verdict]]:
    """What is said where no broker fails, and the verdicts on brokers above the limit."""
    count = len({verdict.window_start_ms for verdict in verdicts})
    judged, needed = f"these {count} windows" if count > 1 else "this window", f"in {gate.k} of {gate.n} windows"
    above = [verdict for verdict in shares if verdict.is_above]
    if above:
        brokers = ", ".join(sorted({verdict.subject for verdict in above}))
        return f"no incident, but above the limit in {judged}: {brokers} (an incident needs that {needed})", above
    text = f"healthy, no broker fails in {judged} (to fail, a broker has to be above its share {needed})"
    return text, above


def _describe_empty(shares: Iterable[Verdict], window_ms: int) -> str:
    starts_ms = sorted({verdict.window_start_ms for verdict in shares})
    windows = "this window" if len(starts_ms) == 1 else f"these {len(starts_ms)} windows"
    return f"no records in {windows}; the next one ends at {format_instant(starts_ms[-1] + 2 * window_ms)}"


def _lines(verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each rule and subject, by its newest window; the newest ones where there are many."""
    by_rule: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda one: one.window_start_ms):
        by_rule.setdefault((verdict.rule, verdict.subject), []).append(verdict)
    rows = sorted(by_rule.values(), key=lambda rows: (rows[-1].window_start_ms, rows[-1].rule, rows[-1].subject))
    return [_line(same) for same in rows]


def _line(same: Sequence[Verdict]) -> str:
    last = same[-1]
    subject = "" if last.rule == SOURCE_ARRIVAL else f"{last.subject}: "  # a source's reason begins with its name
    text = f"  {format_instant(last.window_start_ms)} {subject}{last.reason}"
    return f"{text} (in {len(same)} windows since {format_instant(same[0].window_start_ms)})" if len(same) > 1 else text
