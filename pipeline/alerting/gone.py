"""Ends incidents of what is there no more: a rule that is off, a source or a broker. No window is judged of them again."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from pipeline.model.incident import IncidentChange, OpenIncident
from pipeline.model.verdict import Verdict
from pipeline.model.window import DAY_MS, END_OF_TIME_MS, TimeWindow
from pipeline.rules import SOURCE_ARRIVAL
from pipeline.runs import RunContext
from pipeline.storage.predicates import format_datafusion_text
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.values import tuples_of


def end_gone(
    run: RunContext, opened: Iterable[OpenIncident], changes: Sequence[IncidentChange], verdicts: Collection[Verdict]
) -> tuple[IncidentChange, ...]:
    """Changes by window, with an end of each incident, also of `opened` before, whose subject is gone in a judged window."""
    judged_ms = sorted({verdict.window_start_ms for verdict in verdicts})
    there = {(verdict.rule, verdict.subject) for verdict in verdicts if verdict.window_start_ms == judged_ms[-1]}
    last = {one.last.incident_id: one.last for one in opened} | {one.incident_id: one for one in changes}
    ends = []
    for change in (one for one in last.values() if one.is_open and (one.rule, one.subject) not in there):
        gone_ms = find_gone(run, change)
        since = [at_ms for at_ms in judged_ms if gone_ms is not None and at_ms >= gone_ms]
        if since:
            ends.append(replace(change, state="withdrawn", value=None, window_start_ms=since[0], moved_from_ms=None))
    return tuple(sorted((*changes, *ends), key=lambda one: (one.window_start_ms, one.rule, one.subject)))


def find_gone(run: RunContext, change: IncidentChange) -> int | None:
    """The first window in which an incident's subject has been gone for a day; None if it is there, or nobody can tell.

    A broker that is away for less may be back, and its disk no less full.
    """
    kind, _, name = change.subject.partition(" ")
    rule, table = run.cluster.rules.get(change.rule), BROKER_SHARE
    if change.rule == SOURCE_ARRIVAL:
        table, is_there = WINDOW_STATUS, f"source = {format_datafusion_text(change.subject)}"
    elif rule is not None and rule.of_topic(name if kind == "topic" else "").severity == "off":
        is_there = "false"
    elif kind == "broker":
        is_there = f"broker_id = {int(name)}"
    else:
        return None
    ensure_tables(run.warehouse, (table,))
    sql = f"SELECT window_start, bool_or({is_there}) AS is_there FROM held GROUP BY window_start ORDER BY window_start"
    rows = run.query(sql, (TimeWindow(change.window_start_ms, END_OF_TIME_MS),), held=table)
    seen_ms = change.window_start_ms
    gone_ms: int | None = None
    for start_ms, is_there_then in tuples_of(rows, "window_start_ms", "is_there"):
        if is_there_then:
            seen_ms, gone_ms = start_ms, None
        elif gone_ms is None and start_ms - seen_ms >= DAY_MS:
            gone_ms = start_ms
    return gone_ms
