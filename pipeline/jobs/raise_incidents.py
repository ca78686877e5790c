"""Turns verdicts into incidents and messages, folding windows in time order; ends incidents of what is there no more."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from pipeline.alerting.alertmanager import render_alert
from pipeline.alerting.digest import describe_digest
from pipeline.alerting.incident_mail import describe_broker_share, describe_rule, describe_source
from pipeline.alerting.incidents import IncidentPolicy, fold_verdicts, load_open
from pipeline.alerting.message import Content, render_message
from pipeline.alerting.mutes import Mute, find_mute, read_mutes
from pipeline.alerting.webhook import render_webhook
from pipeline.config.mail import MAIL_CHANNEL
from pipeline.errors import ConfigError
from pipeline.evidence.brief import NOT_JUDGED_ANY_MORE
from pipeline.evidence.incident import BrokerShareEvidence, gather_evidence
from pipeline.model.incident import ENDED, IncidentChange, OpenIncident, incident_of
from pipeline.model.number_text import say_more
from pipeline.model.verdict import HISTORY_FACTOR, Verdict, Verdicts
from pipeline.model.window import DAY_MS, END_OF_TIME_MS, TimeWindow, milliseconds_of
from pipeline.rules import RULES, SOURCE_ARRIVAL, format_measure
from pipeline.runs import JobReport, RunContext
from pipeline.storage.outbox import reported_changes
from pipeline.storage.predicates import format_datafusion_instant, format_datafusion_text
from pipeline.storage.rows import insert_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.values import row_of, tuples_of
from pipeline.verdicts.rules import MOST_LINES
from pipeline.verdicts.sources import CALM_BELOW

_Changes = Sequence[IncidentChange]
_SOURCE_WORSENS_BY = 3.0  # a source that fades is reported a few times, not in every window


def run(run: RunContext, verdicts: Verdicts, inputs: Mapping[TimeWindow, str] | None = None) -> JobReport:
    """Stores verdicts, last: a window with them is done; queues changes' messages. `inputs`: digests of what is judged."""
    if not verdicts:
        return JobReport(notes=("nothing was judged",))
    windows = [run.window_at(start_ms) for start_ms in sorted({verdict.window_start_ms for verdict in verdicts})]
    first_ms = windows[0].start_ms
    opened = load_open(run, first_ms)
    stored = load_since(run, first_ms, opened)
    history = load_history(run, first_ms, [*(one.last for one in opened), *stored])
    earlier = run.query("SELECT DISTINCT incident_id FROM changes", (TimeWindow(0, first_ms),), changes=INCIDENTS)
    changes = fold_verdicts(
        verdicts,
        cluster=run.cluster_name,
        policy_of=partial(_policy, run),
        open_incidents=opened,
        history=history,
        stored=stored,
        judged_until_ms=max(run.starts_in((VERDICTS,), (TimeWindow(first_ms, END_OF_TIME_MS),)), default=0),
        taken=set(earlier["incident_id"].to_pylist()),
    )
    changes = end_gone(run, opened, changes, verdicts)
    problems: tuple[str, ...] = ()
    try:
        mutes = read_mutes(run.config.mail.mutes)
    except ConfigError as error:  # an unreadable file mutes nothing, and this is reported
        mutes, problems = (), (f"nothing is muted: {error}",)
    silenced = _silenced(run, changes, mutes)
    rows = ({**row_of(change, INCIDENTS), "silenced_by": silenced.get(change.key)} for change in changes)
    gone = {change.incident_id for change in changes if _has_no_verdict(change)}
    lost = [change for change in find_lost(run, first_ms, opened, history, mutes) if change.incident_id not in gone]
    news = lost + [change for change in changes if change.key not in silenced]
    judged_from: dict[int, str | None] = dict(run.tuples(VERDICTS, windows, "window_start_ms", "judged_from"))
    judged_from |= {window.start_ms: digest for window, digest in (inputs or {}).items()}
    judged = ({**row_of(one, VERDICTS), "judged_from": judged_from.get(one.window_start_ms)} for one in verdicts)
    starts_ms = {window.start_ms for window in windows}
    starts_ms |= {change.window_start_ms for change in stored if change.window_start_ms >= first_ms}
    # an alert goes on with the incident that its own was merged into: that one has the same labels
    ended = [one for one in changes if not (one.is_open or one.merged_into or _has_no_verdict(one))]
    versions = run.replace(INCIDENTS, rows, [run.window_at(start_ms) for start_ms in sorted(starts_ms)])
    versions[ALERT_OUTBOX.name] = queue_messages(run, news, (*history, *verdicts), ended=ended, known=lost)
    versions |= run.replace(VERDICTS, judged, windows)
    told = changes[:MOST_LINES]
    notes = [_note(change) + (f" ({silenced[change.key]})" if change.key in silenced else "") for change in told]
    return JobReport(table_versions=versions, notes=(*problems, *notes, *say_more(len(changes) - len(told))))


def load_since(run: RunContext, first_ms: int, opened: Sequence[OpenIncident]) -> list[IncidentChange]:
    changes = run.values(IncidentChange, INCIDENTS, (TimeWindow(first_ms, END_OF_TIME_MS),))
    began_ms = min((one.since_ms for one in (*(one.last for one in opened), *changes)), default=first_ms)
    if began_ms >= first_ms:
        return changes
    return [*run.values(IncidentChange, INCIDENTS, (TimeWindow(began_ms, first_ms),)), *changes]


def load_history(run: RunContext, first_ms: int, known: _Changes) -> list[Verdict]:
    longest = max(run.cluster.gate.n, *(rule.n for rule in run.cluster.rules.values()))
    from_ms = max(0, first_ms - HISTORY_FACTOR * longest * run.window_ms)
    began_ms = min((from_ms, *(one.since_ms for one in known)))
    wanted = f"window_start >= {format_datafusion_instant(from_ms)}"
    if began_ms < from_ms:
        subjects = sorted({format_datafusion_text(f"{one.rule} {one.subject}") for one in known})
        wanted += f" OR rule || ' ' || subject IN ({', '.join(subjects)})"
    return run.values(Verdict, VERDICTS, (TimeWindow(began_ms, first_ms),), where=wanted)


def _silenced(run: RunContext, changes: _Changes, mutes: Sequence[Mute]) -> dict[str, str]:
    oldest_ms = run.as_of_ms - milliseconds_of(run.config.mail.tell_within) - run.window_ms
    silenced = {}
    parts: dict[str, list[str]] = defaultdict(list)
    for change in changes:
        if change.merged_into is not None:
            parts[change.merged_into].append(change.incident_id)
    for change in changes:
        mute = find_mute(mutes, run.cluster_name, change, parts[change.incident_id])
        if run.notify is False:
            silenced[change.key] = "a run without notices"
        elif _has_no_verdict(change):
            silenced[change.key] = NOT_JUDGED_ANY_MORE
        elif mute is not None:
            silenced[change.key] = mute.describe()
        elif run.notify is None and change.is_open and change.window_start_ms < oldest_ms:
            silenced[change.key] = "its window ended longer ago than mail.tell_within"
    return silenced


def find_lost(
    run: RunContext, first_ms: int, opened: Iterable[OpenIncident], verdicts: Verdicts, mutes: Sequence[Mute]
) -> list[IncidentChange]:
    """Newest changes of incidents before a window that should have a message and have none, as after the loss of the outbox.

    An end is sent again if it is younger than `mail.give_up_after`, so some ends are told twice. An
    incident whose window has also lost its verdict or loads gets no message: its next change tells of it.
    """
    reported = reported_changes(run.warehouse, run.cluster_name, silenced=True)
    told = {incident_of(key) for keys in reported.values() for key in keys}
    waits_ms = run.as_of_ms - milliseconds_of(run.config.mail.give_up_after)
    before = (TimeWindow(waits_ms, first_ms),) if waits_ms < first_ms else ()
    is_end = "silenced_by IS NULL AND merged_into IS NULL AND state IN ('resolved', 'withdrawn')"
    ends = run.values(IncidentChange, INCIDENTS, before, where=is_end) if before else []
    lost = [one for one in (*(one.last for one in opened), *ends) if one.incident_id not in told]
    if not lost or run.notify is False:
        return []
    sql = "SELECT DISTINCT incident_id, state FROM changes WHERE silenced_by IS NULL"
    # one may have ended after these windows
    heard_changes = run.query(sql, (TimeWindow(0, END_OF_TIME_MS),), changes=INCIDENTS)
    states = list(tuples_of(heard_changes, "incident_id", "state"))
    heard = {one for one, state in states if state not in ENDED}
    over = {one for one, state in states if state in ENDED}
    to_tell = [one for one in lost if one.incident_id in (heard - over if one.is_open else heard)]
    to_tell = [one for one in to_tell if find_mute(mutes, run.cluster_name, one) is None]
    return [one for one in to_tell if _has_evidence(run, one, verdicts)]


def _has_evidence(run: RunContext, change: IncidentChange, verdicts: Verdicts) -> bool:
    try:
        gather_evidence(run, change, verdicts)
    except (ValueError, StopIteration):  # no such verdict, no such row: `retention` took it
        return False
    return True


def _has_no_verdict(change: IncidentChange) -> bool:
    return change.state == "withdrawn" and change.value is None


def _policy(run: RunContext, rule: str) -> IncidentPolicy:
    """A source recovers in the first window in which it is complete, further rules after k windows within their limit."""
    gate = run.cluster.gate
    policy = partial(IncidentPolicy, worsens_by=gate.worsens_by, repeat_ms=milliseconds_of(gate.repeat))
    if rule == SOURCE_ARRIVAL:
        return policy(resolves_at=CALM_BELOW, k=1, worsens_by=_SOURCE_WORSENS_BY)
    further = run.cluster.rules.get(rule)
    if further is None:
        return policy(resolves_at=gate.resolves_at, k=gate.k, resolves_by_limit=gate.resolves_by_limit)
    # overrides by topic have limits of their own: a window is calm where its verdict does not find it above
    worsens_by = math.inf if RULES[rule].is_clock else gate.worsens_by
    return policy(resolves_at=math.inf, k=further.k, worsens_by=worsens_by)


def _note(change: IncidentChange) -> str:
    if change.merged_into is not None:
        return f"incident {change.incident_id} {change.state}: {change.subject}, merged into {change.merged_into}"
    if change.rule == SOURCE_ARRIVAL:
        what = "incomplete or late" if change.is_open else "complete again"
        return f"incident {change.incident_id} {change.state}: source {change.subject} is {what}"
    value = "" if change.value is None else f", {format_measure(change.rule, change.value)}"
    return f"incident {change.incident_id} {change.state}: {change.subject}{value}"


def queue_messages(
    run: RunContext, changes: _Changes, verdicts: Verdicts, *, ended: _Changes = (), known: _Changes = ()
) -> int:
    """Puts changes into the outbox, once per channel; Alertmanager also gets all that `ended`; returns the outbox's version.

    Of `known` incidents people heard, though no message is there.
    """
    reported = reported_changes(run.warehouse, run.cluster_name)
    heard = {change.incident_id for change in known}
    messages = []

    @cache
    def describe(group: tuple[IncidentChange, ...]) -> Content:
        if len(group) > 1:
            return describe_digest(run.cluster_name, group, owner=run.cluster.owner)
        evidence = gather_evidence(run, group[0], verdicts)
        if isinstance(evidence, BrokerShareEvidence):
            return describe_broker_share(evidence)
        return describe_source(evidence) if evidence.change.rule == SOURCE_ARRIVAL else describe_rule(evidence)

    mail = run.config.mail
    recipients = run.cluster.mail_to or mail.to
    renders = {MAIL_CHANNEL: partial(render_message, sender=mail.sender, recipients=recipients, now_ms=run.now_ms)}
    renders |= {one.name: partial(render_webhook, webhook=one, now_ms=run.now_ms) for one in mail.webhooks}
    for channel, render in renders.items():
        groups = _group(_news(changes, reported[channel], heard), mail.digest_above)
        messages += [render(describe(group)) for group in groups]
    every = sorted({change.key: change for change in (*changes, *ended)}.values(), key=lambda c: c.window_start_ms)
    for alertmanager in mail.alertmanagers:
        for change in _news(every, reported[alertmanager.name], heard):
            report = run.config.report_link(run.cluster_name, change.window_start_ms)
            messages.append(render_alert(describe((change,)), change, alertmanager, report=report, now_ms=run.now_ms))
    return insert_rows(run.table_of(ALERT_OUTBOX, messages), run.warehouse, ALERT_OUTBOX)


def _news(changes: Iterable[IncidentChange], reported: set[str], heard: set[str]) -> list[IncidentChange]:
    known = heard | {incident_of(key) for key in reported}
    news = []
    for change in changes:
        if change.is_open:
            known.add(change.incident_id)
        if change.key not in reported and change.incident_id in known:
            news.append(change)
    return news


def _group(changes: _Changes, digest_above: int) -> list[tuple[IncidentChange, ...]]:
    by_window: dict[int, list[IncidentChange]] = defaultdict(list)
    for change in changes:
        by_window[change.window_start_ms].append(change)
    groups: list[tuple[IncidentChange, ...]] = []
    for together in by_window.values():
        groups += [tuple(together)] if len(together) > digest_above else [(change,) for change in together]
    return groups


def end_gone(
    run: RunContext, opened: Iterable[OpenIncident], changes: _Changes, verdicts: Collection[Verdict]
) -> tuple[IncidentChange, ...]:
    """Changes by window, with an end of each incident, also of `opened` before, whose subject is gone in a judged window."""
    judged_ms = sorted({verdict.window_start_ms for verdict in verdicts})
    newest = (one for one in verdicts if one.window_start_ms == judged_ms[-1] and one.value is not None)
    there = {(verdict.rule, verdict.subject) for verdict in newest}
    last = {one.last.incident_id: one.last for one in opened} | {one.incident_id: one for one in changes}
    silent, ends = [one for one in last.values() if one.is_open and (one.rule, one.subject) not in there], []
    skipped = list_skipped(run, min(one.window_start_ms for one in silent)) if silent else ()
    for change in silent:
        gone_ms = find_gone(run, change, skipped)
        if since := [at_ms for at_ms in judged_ms if gone_ms is not None and at_ms >= gone_ms]:
            ends.append(replace(change, state="withdrawn", value=None, window_start_ms=since[0], moved_from_ms=None))
    return tuple(sorted((*changes, *ends), key=lambda one: (one.window_start_ms, one.rule, one.subject)))


def list_skipped(run: RunContext, from_ms: int) -> Collection[int]:
    ensure_tables(run.warehouse, (WINDOW_STATUS,))
    return run.skipped_windows((TimeWindow(from_ms, END_OF_TIME_MS),))


def find_gone(run: RunContext, change: IncidentChange, skipped: Collection[int]) -> int | None:
    """The first window in which a subject has been gone for a day; None if it is there, or nobody can tell."""
    kind, _, name = change.subject.partition(" ")
    rule, table, seen = run.cluster.rules.get(change.rule), BROKER_SHARE, "true"
    if change.rule == SOURCE_ARRIVAL:
        table, is_there = WINDOW_STATUS, f"source = {format_datafusion_text(change.subject)}"
    elif rule is not None and rule.of_topic(name if kind == "topic" else "").severity == "off":
        is_there = "false"
    elif kind == "broker":
        # one that died has a row as long as nobody unregisters it
        is_there = f"broker_id = {int(name)} AND expected_share > 0"
    elif kind == "topic":
        table, is_there = TOPIC_HEALTH, f"topic = {format_datafusion_text(name)}"
        # in a window that nobody observed a topic without traffic has no row
        seen = "bool_or(coalesce(unknown_replicas_count, 0) < partition_count)"
    elif kind in ("client", "group", "zone"):  # their rules measure each that is there
        table, of_rule = RULE_MEASURES, f"rule = {format_datafusion_text(change.rule)}"
        seen, is_there = f"bool_or({of_rule})", f"{of_rule} AND subject = {format_datafusion_text(change.subject)}"
    else:
        return None
    ensure_tables(run.warehouse, (table,))
    sql = (
        f"SELECT window_start, bool_or({is_there}) AS is_there FROM held "  # noqa: S608 - names of ours, texts quoted
        f"GROUP BY window_start HAVING {seen} ORDER BY window_start"
    )
    rows = run.query(sql, (TimeWindow(change.window_start_ms, END_OF_TIME_MS),), held=table)
    rests_on_records = table not in (WINDOW_STATUS, RULE_MEASURES) and is_there != "false"
    missing = skipped if rests_on_records else ()
    seen_ms = change.window_start_ms
    gone_ms: int | None = None
    for start_ms, is_there_then in tuples_of(rows, "window_start_ms", "is_there"):
        if is_there_then:
            seen_ms, gone_ms = start_ms, None
        elif gone_ms is None and start_ms - seen_ms >= DAY_MS and start_ms not in missing:
            gone_ms = start_ms
    return gone_ms
