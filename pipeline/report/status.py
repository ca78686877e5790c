"""The first screen: is anything wrong, since when, what to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from pipeline.alerting.incidents import open_before
from pipeline.evidence.brief import EXCUSED, NOT_JUDGED_ANY_MORE, WITHDRAWN, describe_brief, explain_cause
from pipeline.evidence.incident import BrokerShareEvidence, IncidentEvidence, gather_evidence
from pipeline.model.incident import IncidentChange
from pipeline.model.number_text import format_clock, format_count, format_name, format_percent, format_span
from pipeline.model.verdict import Verdict, Verdicts
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.report.answers import AnswerRow, Chart, ChartColumn, Point, Rows, Scale, Words, format_known, format_words
from pipeline.rules import BROKER_SHARE, SOURCE_ARRIVAL, format_measure, is_excused
from pipeline.runs import RunContext
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import INCIDENTS
from pipeline.verdicts.rules import find_doubt

_REASON_LENGTH = 400
_MOST_EXPLAINED = 3
_ORDER = (BROKER_SHARE, SOURCE_ARRIVAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    tone: Literal["alarm", "calm", "unknown"]
    badge: str
    headline: str
    facts: tuple[tuple[str, str], ...]  # question and answer
    others: tuple[str, ...] = ()  # sentences about further incidents
    # by hot broker, the first incident's first, paragraphs on what makes it so
    explained: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def find_status(run: RunContext, window: TimeWindow) -> Status:
    changes = run.values(IncidentChange, INCIDENTS)
    opened = [incident.last for incident in open_before(changes, window.end_ms)]
    opened.sort(key=lambda change: (_ORDER.index(change.rule) if change.rule in _ORDER else 9, change.since_ms))
    if not opened:
        return _calm(run, window, [change for change in changes if change.window_start_ms < window.end_ms])
    first, *rest = opened
    hot = [change for change in opened if change.rule == BROKER_SHARE][:_MOST_EXPLAINED]
    starts_ms = {change.window_start_ms for change in (first, *hot)} | {window.start_ms}
    verdicts = run.values(Verdict, VERDICTS, [run.window_at(start_ms) for start_ms in sorted(starts_ms)])
    gathered = {change.key: _gather_newest(run, change, verdicts) for change in (first, *hot)}
    found = [evidence for evidence in gathered.values() if isinstance(evidence, BrokerShareEvidence)]
    is_blind = first.rule == SOURCE_ARRIVAL
    brief = describe_brief(gathered[first.key])
    return Status(
        tone="unknown" if is_blind else "alarm",
        badge="DATA MISSING" if is_blind else "FAIL",
        headline=brief.headline,
        facts=brief.facts,
        others=tuple(_sentence(change) for change in rest),
        explained={evidence.broker_id: explain_cause(evidence) for evidence in found},
    )


def _gather_newest(run: RunContext, change: IncidentChange, verdicts: Verdicts) -> IncidentEvidence:
    own = [v for v in verdicts if (v.rule, v.subject) == (change.rule, change.subject) and v.value is not None]
    newest = max(own, key=lambda verdict: verdict.window_start_ms, default=None)
    if newest is not None and newest.window_start_ms > change.window_start_ms:
        change = replace(change, state="continuing", window_start_ms=newest.window_start_ms, value=newest.value)
    return gather_evidence(run, change, verdicts)


def _calm(run: RunContext, window: TimeWindow, changes: list[IncidentChange]) -> Status:
    verdicts = run.values(Verdict, VERDICTS, (window,))
    judged = [v for v in verdicts if v.rule == BROKER_SHARE]
    warned = [v for v in verdicts if v.verdict == "warn"]
    ended = (change for change in changes if not change.is_open)
    last = max(ended, key=lambda change: change.window_start_ms, default=None)
    facts = [("Since", "no incident was ever opened")]
    if last is not None:
        end_ms, end = last.window_start_ms + run.window_ms, "resolved"
        if last.state == "withdrawn":
            end = WITHDRAWN if last.value is not None else f"withdrawn: {NOT_JUDGED_ANY_MORE}"
            at_end = (run.window_at(last.window_start_ms),) if last.rule == BROKER_SHARE else ()
            if any(v.subject == last.subject and is_excused(v) for v in run.values(Verdict, VERDICTS, at_end)):
                end = EXCUSED
        facts = [
            ("Since", f"{format_clock(end_ms)}, when incident {last.incident_id} was {end}"),
            ("It was", f"{_sentence(last)} for {format_span(end_ms - last.since_ms)}"),
        ]
    if (doubt := find_doubt(verdicts)) is not None:
        why = ("Why", format_name(doubt, _REASON_LENGTH))
        return Status(tone="unknown", badge="UNKNOWN", headline="This window cannot be judged", facts=(why, *facts))
    if warned:
        facts.append(("Watch", f"{len(warned)} warnings: above a limit, but no rule fails"))
    headline = "Nothing is wrong"
    if above := [verdict for verdict in judged if verdict.is_above]:
        headline = f"No incident, but above the limit in this window: {', '.join(v.subject for v in above)}"
        facts += [(v.subject.capitalize(), format_name(v.reason, _REASON_LENGTH)) for v in above]
    elif all(v.verdict == "not_enough_traffic" for v in judged):
        headline = "Nothing is wrong, but there is too little traffic to judge"
    return Status(tone="calm", badge="OK", headline=headline, facts=(*facts, ("Do", "nothing")))


def _sentence(change: IncidentChange) -> str:
    peak = "" if change.peak_value is None else f", at most {format_measure(change.rule, change.peak_value)}"
    limit = format_measure(change.rule, change.limit_value)
    return f"{format_name(change.subject)}, {change.rule.replace('_', ' ')}{peak} where {limit} is the limit"


_name = partial(format_name, limit=120)
_reason = partial(format_name, limit=400)


def _part_arrived(row: AnswerRow) -> float | None:
    return min(1.0, row["arrived_count"] / row["expected_count"]) if row["expected_count"] else None


def _age(row: AnswerRow) -> str | None:
    if row["newest_at"] is None or row["as_of"] is None:
        return None
    age_ms = max(0, milliseconds_of(row["as_of"]) - milliseconds_of(row["newest_at"]))
    return format_span(age_ms - age_ms % 1000)


def _say_sources(rows: Rows) -> str:
    lacking = sum(bool(row["missing"]) or (row["expected_count"] or 0) > row["arrived_count"] for row in rows)
    return f"{lacking} of {len(rows)} sources are incomplete." if lacking else "All expected data arrived."


def _say_count(name: str, some: str, none: str, rows: Rows) -> str:
    count = sum(row[name] for row in rows)
    return f"{format_count(count)} {some}" if count else none


SOURCES = Chart(
    name="sources", title="Sources", says=_say_sources, is_shown_empty=True,
    scale=lambda _: Scale(0.0, 1.0),
    columns=(
        Words("source", "source", str),
        ChartColumn("complete", _part_arrived, format_percent),
        ChartColumn("arrived", "arrived_count", format_count),
        ChartColumn("expected", "expected_count", format_count),
        ChartColumn("age of newest", _age),
        ChartColumn("problems", "problem_count", format_count),
        Words("data gate", "is_trusted", lambda trusted: "passed" if trusted else "not passed"),
    ),
    marks=(Point("bar", _part_arrived, legend="part of the expected data that arrived", start=0.0),),
    is_marked=lambda row: _part_arrived(row) not in {None, 1.0}, note=lambda row: _reason(row["missing"] or ""),
)  # fmt: skip  # a table: short fields share a line

JUDGED = Chart(
    name="judged", title="Above a limit in this window",
    says=lambda rows: "Failures first. A warning is not yet in enough windows to fail, or its rule only warns." if rows else "Nothing is above its limit.",
    is_shown_empty=True,
    columns=(
        Words("subject", "subject", _name),
        ChartColumn("value", lambda row: format_known(row["value"], partial(format_measure, row["rule"]))),
        ChartColumn("limit", lambda row: format_measure(row["rule"], row["limit_value"])),
        Words("verdict", "verdict"),
        Words("rule", "rule", format_words),
        Words("reason", "reason", _reason),
    ),
    is_marked=lambda row: row["verdict"] == "fail",
)  # fmt: skip  # a table: short fields share a line

QUARANTINE = Chart(
    name="quarantine", title="Quarantine",
    says=partial(_say_count, "place_count", "places in the input were refused or are suspect.", "No input was refused."),
    is_shown_empty=True,
    columns=(
        Words("reason", "reason", _reason),
        ChartColumn("places", "place_count", format_count),
        Words("source", "source"),
        Words("severity", "severity"),
        Words("first file", "first_path", _name),
    ),
)  # fmt: skip  # a table: short fields share a line

ABSTENTIONS = Chart(
    name="abstentions", title="Abstentions",
    says=partial(_say_count, "subject_count", "subjects were not judged.", "Every subject was judged."),
    is_shown_empty=True,
    columns=(
        Words("rule", "rule", format_words),
        ChartColumn("subjects", "subject_count", format_count),
        Words("verdict", "verdict", format_words),
        Words("such as", "first_subject", _name),
        Words("reason", "first_reason", _reason),
    ),
)  # fmt: skip  # a table: short fields share a line
