"""Mails about one change of an incident: what all of them share, those about a rule or a source, and the SQL that shows their rows."""

from collections.abc import Iterable, Mapping, Sequence

from pipeline.alerting.message import Attachment, Content, MailColumn, MailSection, MailTable, number_columns
from pipeline.evidence.brief import describe_brief, explain_cause, format_predicted
from pipeline.evidence.incident import BrokerShareEvidence, IncidentEvidence
from pipeline.model.number_text import format_between, format_clock, format_name, format_percent, format_ratio
from pipeline.model.promise import Promise, Recommendation
from pipeline.rules import RULES, format_measure
from pipeline.storage.predicates import sql_instant, sql_text

BADGES = {"new": "FAIL", "worse": "WORSE", "continuing": "STILL", "resolved": "RESOLVED", "withdrawn": "WITHDRAWN"}
_SOURCE_BADGES = {
    "new": "DATA MISSING", "worse": "MORE DATA MISSING", "continuing": "DATA STILL MISSING",
    "resolved": "DATA COMPLETE", "withdrawn": "DATA COMPLETE",
}  # fmt: skip  # a table: short fields share a line
_LINK_LIMIT = 1_000
_MUTE_MS = 7 * 86_400_000
_MOST_BROKERS = 12


def describe_incident(
    evidence: IncidentEvidence,
    *,
    badge: str,
    subject_line: str,
    figures: Mapping[str, str],
    sections: Iterable[MailSection | None],
    attachments: tuple[Attachment, ...] = (),
) -> Content:
    change = evidence.change
    return Content(
        cluster=evidence.cluster,
        key=change.key,
        tells=(change.key,),
        incident_id=change.incident_id,
        state=change.state,
        window_start_ms=change.window_start_ms,
        tone="alarm" if change.is_open else "calm",
        badge=badge,
        subject_line=f"{subject_line} #{change.incident_id}",
        brief=describe_brief(evidence),
        figures=figures,
        sections=tuple(section for section in sections if section is not None),
        footer=_small_print(evidence),
        attachments=attachments,
        report=format_name(evidence.report, _LINK_LIMIT) if evidence.report else "",
    )


def _small_print(evidence: IncidentEvidence) -> tuple[str, ...]:
    change, time_zone, end_ms = evidence.change, evidence.time_zone, evidence.window.end_ms
    owned = f"Owner: {format_name(evidence.owner)}. " if evidence.owner else ""
    zone = "All times are UTC."
    if time_zone != "UTC":
        began, ended = (format_clock(at_ms, time_zone) for at_ms in (change.since_ms, end_ms))
        zone += f" In {time_zone} it began at {began}, and this window ended at {ended}."
    lines = [
        f"{owned}Incident {change.incident_id}, rule {format_name(change.rule)}. You get a mail when an incident opens, "
        f"gets much worse, goes on for long, or ends. {zone}"
    ]
    if change.is_open:
        until = format_clock(end_ms + _MUTE_MS).partition(" ")[0]
        lines.append(
            f"The next window to be judged ends at {format_clock(evidence.next_end_ms)}. To mute this incident: "
            f"{evidence.command('mute')} {change.incident_id} --until {until} --reason '...'. Limit and owner are under "
            f"{evidence.limits_at} of the cluster in the configuration."
        )
    if isinstance(evidence, BrokerShareEvidence):
        gate = evidence.gate
        lines.append(
            f"It is resolved after {gate.k} window{'' if gate.k == 1 else 's'} below {format_ratio(gate.resolves_at)}. To measure "
            f"and judge these windows again: {evidence.command('run')} --window {evidence.span}"
        )
    return tuple(lines)


def describe_rule(evidence: IncidentEvidence) -> Content:
    change, rule = evidence.change, RULES[evidence.change.rule]
    limit = format_measure(change.rule, change.limit_value)
    value = "" if change.value is None else format_measure(change.rule, change.value)
    measure = {change.rule.replace("_", " "): value} if value else {}
    badge, measured = BADGES[change.state], f"{value}, limit {limit}" if value else f"limit {limit}"
    meaning = rule.meaning if change.is_open else f"no longer: {rule.meaning}"
    cluster, subject = format_name(evidence.cluster, 60), format_name(change.subject, 120)
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=f"[{badge}] {cluster} {subject}: {meaning} ({measured})",
        figures=measure | {"limit": limit},
        sections=(MailSection(title="The rows behind this", code=verdicts_query(evidence)),),
    )


def describe_source(evidence: IncidentEvidence) -> Content:
    change, badge = evidence.change, _SOURCE_BADGES[evidence.change.state]
    missing = change.value if change.is_open else change.peak_value
    lacks = "has been incomplete or late since" if change.is_open else "is complete again; data was missing since"
    since = format_clock(change.since_ms)
    query = (
        "SELECT window_start, source, expected_count, arrived_count, missing, newest_at\n"
        "FROM bronze.window_status\n"
        f"WHERE cluster = {sql_text(evidence.cluster)} AND window_start >= {sql_instant(change.since_ms)}\n"
        "ORDER BY window_start, source;"
    )
    return describe_incident(
        evidence,
        badge=badge,
        subject_line=f"[{badge}] cluster {format_name(evidence.cluster)}: source {change.subject} {lacks} {since}",
        figures={} if missing is None else {"of the expected data is missing": format_percent(missing)},
        sections=(MailSection(title="The rows behind this", code=query),) if change.is_open else (),
    )


def verdicts_query(evidence: IncidentEvidence) -> str:
    change = evidence.change
    return (
        "SELECT window_start, value, limit_value, verdict, reason FROM gold.verdicts\n"
        f"WHERE cluster = {sql_text(evidence.cluster)} AND rule = {sql_text(change.rule)}\n"
        f"  AND subject = {sql_text(change.subject)} AND window_start >= {sql_instant(change.since_ms)}\n"
        "ORDER BY window_start;"
    )


def incidents_query(cluster: str, window_start_ms: int) -> str:
    return (
        "SELECT incident_id, state, rule, subject, since, value, limit_value\n"
        "FROM gold.incidents\n"
        f"WHERE cluster = {sql_text(cluster)} AND window_start = {sql_instant(window_start_ms)}\n"
        "ORDER BY state, value DESC;"
    )


MOST_ACTIONS = 5
_VERBS = {
    "new": "carries", "worse": "now carries", "continuing": "still carries", "resolved": "is back to",
    "withdrawn": "carries",
}  # fmt: skip  # a table: short fields share a line


def describe_broker_share(evidence: BrokerShareEvidence) -> Content:
    """Words, tables and files of a mail about a broker's share; `ValueError` if the window has no share of it."""
    change, fair, limit = evidence.change, evidence.broker.expected_share, format_ratio(evidence.change.limit_value)
    share, ratio = evidence.share
    actions = evidence.recommendations if change.is_open else ()
    why = explain_cause(evidence) if change.is_open else ()
    figures = {"share of bytes in": format_percent(share, 1), "fair share": format_percent(fair, 1)}
    if change.is_open:
        figures[f"of its share, limit {limit}"] = format_ratio(ratio)
    elif change.peak_value is not None:
        figures["at the peak"] = format_ratio(change.peak_value)
    plan = _first_plan(actions)
    names = ("reassignment_json", "election_json", "rollback_json")
    files = [
        Attachment(name=name.replace("_json", ".json"), subtype="json", text=text)
        for name in names
        if plan is not None and (text := getattr(plan, name)) is not None
    ]
    if diffs := [row.config_diff for row in actions[:MOST_ACTIONS] if row.config_diff is not None]:
        files.append(Attachment(name="producer-config.diff", subtype="plain", text="\n".join(diffs)))
    return describe_incident(
        evidence,
        badge=BADGES[change.state],
        subject_line=(
            f"[{BADGES[change.state]}] {format_name(evidence.cluster, 60)} broker {evidence.broker_id} "
            f"{_VERBS[change.state]} {format_percent(share)} of bytes in, fair share {format_percent(fair)} "
            f"({format_ratio(ratio)}, limit {limit})"
        ),
        figures=figures,
        sections=(
            _brokers_section(evidence),
            MailSection(title="Why it is hot", text=why) if why else None,
            promises_section(evidence.promises, is_open=change.is_open),
            _execute_section(actions),
        ),
        attachments=tuple(files),
    )


def _brokers_section(evidence: BrokerShareEvidence) -> MailSection:
    """Brokers by id, of many the one concerned and those furthest above their fair shares, with a bar for each share."""
    own, is_open, limit = evidence.broker_id, evidence.change.is_open, evidence.change.limit_value
    ranked = sorted(evidence.brokers, key=lambda one: (one.broker_id != own, -(one.share_ratio or 0.0), one.broker_id))
    shown = sorted(ranked[:_MOST_BROKERS], key=lambda one: one.broker_id)
    left_out = len(ranked) - len(shown)
    after = evidence.recommendations[0].broker_ratios if is_open and evidence.recommendations else {}
    heads = ("share", "fair share", "limit", *(("after action 1",) if after else ()))
    rows = []
    for one in shown:
        ratios = [limit, *([after.get(one.broker_id)] if after else [])]
        parts = [one.share or 0.0, one.expected_share, *(ratio and ratio * one.expected_share for ratio in ratios)]
        rows.append((f"broker {one.broker_id}", *("" if part is None else format_percent(part, 1) for part in parts)))
    highest = max([one.share or 0.0 for one in shown], default=0.0) or 1.0
    table = MailTable(
        columns=(MailColumn("", is_short=True), *number_columns(*heads)),
        rows=tuple(rows),
        marked=frozenset(at for at, one in enumerate(shown) if one.broker_id == own and is_open),
        bars=tuple((one.share or 0.0) / highest for one in shown),
        note=f"{left_out} other brokers are below these." if left_out else "",
    )
    return MailSection(
        title=f"Brokers, {format_between(evidence.window.start_ms, evidence.window.end_ms)}", table=table
    )


def _execute_section(recommendations: Sequence[Recommendation]) -> MailSection | None:
    plan = _first_plan(recommendations)
    if plan is None:
        return None
    later = "" if plan is recommendations[0] else "This is not the first advice: do it only if that does not help. "
    reassign = "kafka-reassign-partitions --bootstrap-server $BOOTSTRAP --reassignment-json-file reassignment.json"
    elect = "kafka-leader-election --bootstrap-server $BOOTSTRAP --election-type preferred"
    moves = [f"{reassign} --execute", f"{reassign} --verify"] if plan.reassignment_json is not None else []
    how = f"{later}Use the files that are attached to the mail."
    if moves:
        how += " Repeat `--verify` until everything is complete, then elect."
    if plan.moved_bytes:
        how += " `--throttle BYTES_PER_SECOND` beside `--execute` limits the copying; in the end `--verify` removes the limit."
    if plan.rollback_json is not None:
        how += " `rollback.json` has the present assignment; elect after it, too."
    return MailSection(
        title=f"How to {plan.title}",
        text=(plan.text, how),
        code="\n".join([*moves, f"{elect} --path-to-json-file election.json"]),
    )


def _first_plan(recommendations: Sequence[Recommendation]) -> Recommendation | None:
    return next((row for row in recommendations if row.election_json is not None), None)


MOST_PROMISES = 8
_OTHER_POINTS = 1.0  # a prediction that today's traffic moves by more is said as it is on that traffic, too


def promises_section(promises: Sequence[Promise], *, is_open: bool) -> MailSection | None:
    """Advice carried out in the incident's windows, promised and actual share; other advice only once it is over."""
    done, left = _newest(promises)
    said = [_describe(promise) for promise in done]
    if not is_open:
        said += [f"Not carried out: {promise.title}; {_announced(promise)}." for promise in left]
    title = "Earlier advice, and its result"
    return MailSection(title=title, text=tuple(said[:MOST_PROMISES])) if said else None


def _newest(promises: Sequence[Promise]) -> tuple[list[Promise], list[Promise]]:
    done: dict[object, Promise] = {}
    left: dict[object, Promise] = {}
    for one in sorted(promises, key=lambda one: (one.window_start_ms, one.promised_ms)):
        if one.carried_out_ms is None:
            left[one.action, one.topic] = one
        elif one.is_decided or not (one.key in done and done[one.key].is_decided):
            done[one.key] = one
    kinds = {(one.action, one.topic) for one in done.values()}
    return (
        sorted(done.values(), key=lambda one: (one.carried_out_ms or 0, one.rank)),
        sorted((one for kind, one in left.items() if kind not in kinds), key=lambda one: one.rank),
    )


def _describe(promise: Promise) -> str:
    said = f"Done by the end of the window from {format_clock(promise.carried_out_ms or 0)}: {promise.title}."
    if promise.actual_ratio is not None:
        said += f" A{_announced(promise).removeprefix('a')}"
        moved = abs((promise.corrected_ratio or 0.0) - (promise.predicted_ratio or 0.0)) * promise.expected_share * 100
        if promise.corrected_ratio is not None and moved > _OTHER_POINTS:
            ends = promise.corrected_ratio_low, promise.corrected_ratio, promise.corrected_ratio_high
            said += f", which is {format_predicted(promise.expected_share, *ends)} on the present traffic"
        said += f"; the share is {format_percent(promise.actual_ratio * promise.expected_share, 1)}"
        without = format_percent((promise.without_ratio or 0.0) * promise.expected_share, 1)
        said += f", and would be {without} without the action." if promise.without_ratio else "."
    outcome = promise.outcome.replace("_", " ")
    return f"{said} {outcome[:1].upper()}{outcome[1:]}: {promise.reason}."


def _announced(promise: Promise) -> str:
    ends = promise.predicted_ratio_low, promise.predicted_ratio, promise.predicted_ratio_high
    predicted = format_predicted(promise.expected_share, *ends) or "no share"
    return f"advice of {format_clock(promise.promised_ms)} predicted {predicted}"
