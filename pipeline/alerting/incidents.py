"""Incidents: a fold over verdicts in window order.

The fold keeps no state but the list of open incidents, and the ids that people know (`pipeline/alerting/incident_ids.py`).
Peak, window count and calm windows are computed from the verdicts, so a run over many windows, many runs over one each, and a
recomputation give the same changes.

1. A subject without an open incident gets one in the first window that is `fail` and itself above the limit (a
   window may be `fail` for its predecessors' sake alone: k of n).
2. `since` is the earliest window above among those the verdict counted (`above_count`), not looking past k calm
   windows in a row, which would have ended an earlier incident.
3. A window is *calm* when its value is below `resolves_at`, or the gate excuses it as hash luck. The k-th calm window in
   a row after the opening resolves the incident, or withdraws it where it is excused. A window that was judged and is not calm starts the count again.
4. A window above whose value is `worsens_by` times the value last reported makes an open incident `worse`; a window
   that is not calm, `repeat_ms` or more after the last change, makes it `continuing`. Neither while its rule is `warning`.
5. A window that was not judged (`not_enough_traffic`, `incomplete`, `stale`, or no value) says nothing: it is
   skipped, neither calm nor a break in a row of calm ones. An incident on a cluster gone silent stays open.
6. A row of calm windows that came late does not end an incident that people know to go on after it: it was open in a
   failing window that was judged before.
7. Incidents that people know keep their ids, see `settle_ids`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.alerting.incident_ids import Episode, KnownIncident, fails, is_judged, list_known, make_change, settle_ids
from pipeline.model.incident import ENDED, IncidentChange, IncidentState, OpenIncident
from pipeline.model.verdict import Verdict, Verdicts
from pipeline.model.window import TimeWindow
from pipeline.rules import is_excused, times_worse, worst_of
from pipeline.runs import RunContext
from pipeline.storage.predicates import format_datafusion_text
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.values import values_of

_Subject = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentPolicy:
    resolves_at: float  # a value below it is calm
    k: int  # calm windows in a row that end an incident; the k of the gate's k-of-n
    worsens_by: float = 1.25  # so many times worse than the value last reported makes it `worse`, such as 1.25
    repeat_ms: int = 0  # after so long without a change it is `continuing`; 0 for never
    # in place of `resolves_at` by limit, for windows with another limit: topics may have one
    resolves_by_limit: Mapping[float, float] = field(default_factory=dict)

    def is_calm(self, verdict: Verdict) -> bool:
        return is_judged(verdict) and not verdict.is_above and (is_excused(verdict) or self.is_well(verdict))

    def is_well(self, verdict: Verdict) -> bool:
        return (verdict.value or 0.0) < self.resolves_by_limit.get(verdict.limit_value, self.resolves_at)


def as_open(change: IncidentChange, before: OpenIncident | None = None) -> OpenIncident:
    """An incident after a change that leaves it open; without the incident before it the change opened it."""
    return OpenIncident(
        last=change,
        opened_ms=before.opened_ms if before else change.window_start_ms,
        reported_value=worst_of(change.rule, (change.value, before.reported_value if before else None)),
    )


def open_before(changes: Iterable[IncidentChange], window_start_ms: int) -> tuple[OpenIncident, ...]:
    """Incidents open before a window, by stored rows of `gold.incidents`; later changes, which a run replaces, left out."""
    opened: dict[str, OpenIncident] = {}
    for change in sorted(changes, key=lambda change: change.window_start_ms):
        if change.window_start_ms >= window_start_ms:
            break
        if not change.is_open:
            opened.pop(change.incident_id, None)
        elif change.state == "new" or change.incident_id in opened:
            opened[change.incident_id] = as_open(change, opened.get(change.incident_id))
    return tuple(sorted(opened.values(), key=lambda one: (one.last.rule, one.last.subject, one.opened_ms)))


def load_open(run: RunContext, window_start_ms: int) -> tuple[OpenIncident, ...]:
    """Incidents open before a window; of the changes stored before it only those of incidents that did not end are read."""
    ensure_tables(run.warehouse, (INCIDENTS,))  # an older warehouse lacks columns of it
    states = ", ".join(format_datafusion_text(state) for state in sorted(ENDED))
    ended = f"SELECT incident_id FROM changes WHERE state IN ({states})"
    sql = f"SELECT * FROM changes WHERE incident_id NOT IN ({ended})"
    stored = run.query(sql, (TimeWindow(0, window_start_ms),), changes=INCIDENTS)
    return open_before(values_of(IncidentChange, stored), window_start_ms)


def fold_verdicts(
    verdicts: Verdicts,
    *,
    cluster: str,
    policy_of: Callable[[str], IncidentPolicy],
    open_incidents: Sequence[OpenIncident] = (),
    history: Verdicts = (),
    stored: Sequence[IncidentChange] = (),
    judged_until_ms: int = 0,
    taken: Collection[str] = (),
) -> tuple[IncidentChange, ...]:
    """Folds verdicts into changes by the rules above; `history` and `stored` reach back to the start of incidents open or stored."""
    if not verdicts:
        return ()
    first_ms = min(verdict.window_start_ms for verdict in verdicts)
    past = _by_subject(verdict for verdict in history if verdict.window_start_ms < first_ms)
    known = list_known(open_incidents, stored, judged_until_ms)
    known_of: dict[_Subject, list[KnownIncident]] = defaultdict(list)
    for one in known:
        known_of[one.last.rule, one.last.subject].append(one)
    in_use = {*taken, *(one.incident_id for one in known)}
    changes: list[IncidentChange] = []
    by_subject = _by_subject(verdicts)
    for subject in sorted({*by_subject, *known_of}):
        earlier, own = past.get(subject, []), known_of.get(subject, [])
        # an incident is walked from its beginning, also one that was open before: today's verdicts may not have it any more
        began = [one.since_ms for one in own if one.is_open or one.until_ms >= first_ms]
        start_ms = min((first_ms, *began))
        seen = [verdict for verdict in earlier if verdict.window_start_ms < start_ms]
        rows = [*earlier[len(seen) :], *by_subject.get(subject, [])]
        episodes = _find_episodes(seen, rows, own, policy_of(subject[0]))
        changes += settle_ids(episodes, own, seen, first_ms=first_ms, cluster=cluster, in_use=in_use)
    return tuple(sorted(changes, key=lambda change: (change.window_start_ms, change.rule, change.subject)))


def _find_episodes(
    seen: list[Verdict], rows: Verdicts, known: Sequence[KnownIncident], policy: IncidentPolicy
) -> list[Episode]:
    """Walks a subject's verdicts in time order, adding them to those seen; the ids of the changes are still open."""
    episodes: list[Episode] = []
    incident: OpenIncident | None = None
    failing = [verdict.window_start_ms for verdict in rows if fails(verdict)]
    for verdict in rows:
        seen.append(verdict)
        if incident is None:
            change = make_change("new", "", _since_ms(seen, policy), seen) if fails(verdict) else None
        else:
            state, last = _next_state(seen, incident, policy), incident.last
            change = None if state is None else make_change(state, last.incident_id, last.since_ms, seen)
        if change is None:
            continue
        at_ms, spans = change.window_start_ms, [(one.opened_ms, one.until_ms) for one in known]
        # people know an incident that was open in this window and in a failing one after it
        goes_on = any(opens <= at_ms and any(at_ms < at <= until for at in failing) for opens, until in spans)
        if goes_on and not change.is_open:
            continue
        if incident is None:
            episodes.append(Episode(opened_ms=change.window_start_ms, since_ms=change.since_ms))
        episodes[-1].changes.append(change)
        incident = as_open(change, incident) if change.is_open else None
    return episodes


def _by_subject(verdicts: Iterable[Verdict]) -> dict[_Subject, list[Verdict]]:
    rows: dict[_Subject, list[Verdict]] = {}
    for verdict in sorted(verdicts, key=lambda verdict: verdict.window_start_ms):
        rows.setdefault((verdict.rule, verdict.subject), []).append(verdict)
    return rows


def _next_state(seen: Verdicts, incident: OpenIncident, policy: IncidentPolicy) -> IncidentState | None:
    latest = seen[-1]
    if policy.is_calm(latest):
        calm_count = 0
        for verdict in reversed(seen):
            if verdict.window_start_ms <= incident.opened_ms or (is_judged(verdict) and not policy.is_calm(verdict)):
                break
            calm_count += policy.is_calm(verdict)
        return None if calm_count < policy.k else "resolved" if policy.is_well(latest) else "withdrawn"
    if not is_judged(latest) or latest.value is None or latest.severity != "critical":
        return None
    before = incident.reported_value
    if latest.is_above and before is not None and times_worse(latest.rule, latest.value, before) >= policy.worsens_by:
        return "worse"
    is_due = policy.repeat_ms > 0 and latest.window_start_ms - incident.last.window_start_ms >= policy.repeat_ms
    return "continuing" if is_due else None


def _since_ms(seen: Verdicts, policy: IncidentPolicy) -> int:
    latest = seen[-1]
    since_ms, above_count, calm_count = latest.window_start_ms, 0, 0
    for verdict in reversed(seen):
        if verdict.is_above:
            since_ms = verdict.window_start_ms
            above_count += 1
        if policy.is_calm(verdict):
            calm_count += 1
        elif is_judged(verdict):
            calm_count = 0
        if above_count >= latest.above_count or calm_count >= policy.k:
            break
    return since_ms
