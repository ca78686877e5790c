"""Turns what the health gate found into verdicts, incidents and messages: `gold.verdicts`, `incidents`, `alert_outbox`.

Incidents are folded over windows in time order, from the first window judged to the newest one known, starting from
the incidents that were open before. A message is queued once per change and channel: the outbox keeps the first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pipeline.alerting.incidents import Course, fold_verdicts, open_before
from pipeline.alerting.mutes import find_mute, read_mutes
from pipeline.alerting.rule_words import format_measure
from pipeline.errors import ConfigError
from pipeline.jobs.raise_incidents.messages import queue_messages
from pipeline.measures.source_arrivals import CALM_BELOW
from pipeline.measures.source_arrivals import RULE as SIGHT_RULE
from pipeline.model.incident import IncidentChange
from pipeline.model.verdict import Verdict
from pipeline.model.window import milliseconds_of
from pipeline.runs import JobReport, row_of
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.alerting.mutes import Mute
    from pipeline.model.incident import OpenIncident
    from pipeline.runs import RunContext

_SIGHT_WORSENS_BY = 3.0
"""Of what is missing, over what was: a source that fades is told a few times, not in every window."""


def run(run: RunContext, verdicts: Sequence[Verdict]) -> JobReport:
    """Stores the verdicts, folds them into incidents and queues a message for each change of state.

    Args:
        run: What the run is about.
        verdicts: What the gate found, for every window from the first judged to the newest known.
    """
    if not verdicts:
        return JobReport(notes=("nothing was judged",))
    windows = [run.window_at(start_ms) for start_ms in sorted({verdict.window_start_ms for verdict in verdicts})]
    first_ms = windows[0].start_ms
    history = [v for v in run.values(Verdict, VERDICTS) if v.window_start_ms < first_ms]
    changes = _fold(run, verdicts, history, open_before(run.values(IncidentChange, INCIDENTS), first_ms))
    mutes, problems = _mutes(run)
    silenced = _silenced(run, changes, mutes)
    rows = ({**row_of(change, INCIDENTS), "silenced_by": silenced.get(change.key)} for change in changes)
    news = [change for change in changes if change.key not in silenced]
    versions = {
        VERDICTS.name: run.replace(VERDICTS, verdicts, windows),
        INCIDENTS.name: run.replace(INCIDENTS, rows, windows),
        ALERT_OUTBOX.name: queue_messages(run, news, (*history, *verdicts)),
    }
    notes = [_note(change) + (f" ({silenced[change.key]})" if change.key in silenced else "") for change in changes]
    return JobReport(table_versions=versions, notes=(*problems, *notes))


def _mutes(run: RunContext) -> tuple[tuple[Mute, ...], tuple[str, ...]]:
    """What is kept quiet. A file that cannot be read keeps nothing quiet: people are told, that too."""
    try:
        return read_mutes(run.config.mail.mutes), ()
    except ConfigError as error:
        return (), (f"nothing is muted: {error}",)


def _silenced(run: RunContext, changes: Sequence[IncidentChange], mutes: Sequence[Mute]) -> dict[str, str]:
    """Why nobody is told, by key of the change."""
    if run.notify is False:
        return {change.key: "a run without notices" for change in changes}
    oldest_ms = run.as_of_ms - milliseconds_of(run.config.mail.tell_within) - run.window_ms
    no_news = {
        change.key: "its window ended longer ago than mail.tell_within"
        for change in changes
        if run.notify is None and change.window_start_ms < oldest_ms
    }
    found = {change.key: find_mute(mutes, run.cluster_name, change) for change in changes}
    return no_news | {key: mute.describe() for key, mute in found.items() if mute is not None}


def _fold(
    run: RunContext, verdicts: Sequence[Verdict], history: Sequence[Verdict], opened: Sequence[OpenIncident]
) -> tuple[IncidentChange, ...]:
    """Changes of all rules by window, each rule on its own course."""
    changes: list[IncidentChange] = []
    for rule in sorted({verdict.rule for verdict in verdicts}):
        changes += fold_verdicts(
            [verdict for verdict in verdicts if verdict.rule == rule],
            cluster=run.cluster_name,
            course=_course(run, rule),
            open_incidents=[incident for incident in opened if incident.rule == rule],
            history=[verdict for verdict in history if verdict.rule == rule],
        )
    return tuple(sorted(changes, key=lambda change: (change.window_start_ms, change.rule, change.subject)))


def _course(run: RunContext, rule: str) -> Course:
    """A source is well again in the first window it arrives whole, further rules after k windows within their limit."""
    gate = run.cluster.gate
    repeat_ms = milliseconds_of(gate.repeat)
    if rule == SIGHT_RULE:
        return Course(resolves_at=CALM_BELOW, k=1, worsens_by=_SIGHT_WORSENS_BY, repeat_ms=repeat_ms)
    further = run.cluster.rules.get(rule)
    if further is None:
        return Course(
            resolves_at=gate.resolves_at,
            k=gate.k,
            worsens_by=gate.worsens_by,
            repeat_ms=repeat_ms,
            resolves_by_limit=gate.resolves_by_limit,
        )
    # overrides by topic have limits of their own: a window is calm where its verdict does not find it above
    return Course(resolves_at=math.inf, k=further.k, worsens_by=gate.worsens_by, repeat_ms=repeat_ms)


def _note(change: IncidentChange) -> str:
    if change.rule == SIGHT_RULE:
        what = "the pipeline is blind" if change.state == "new" else "the pipeline sees again"
        return f"incident {change.incident_id} {change.state}: {what}, source {change.subject}"
    value = "" if change.value is None else f", {format_measure(change.rule, change.value)}"
    return f"incident {change.incident_id} {change.state}: {change.subject}{value}"
