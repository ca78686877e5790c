"""Data quality: sources, quarantined input, and what could not be judged."""

from functools import partial

from pipeline.model.number_text import format_count, format_name, format_percent, format_span
from pipeline.model.window import milliseconds_of
from pipeline.report import queries
from pipeline.report.answers import AnswerRow
from pipeline.report.table_chart import ChartColumn, Point, Rows, Scale, TableChart, Words, format_known, format_words
from pipeline.rules import format_measure

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
    return f"{lacking} of {len(rows)} sources lack something." if lacking else "Everything expected arrived."


def _say_count(name: str, some: str, none: str, rows: Rows) -> str:
    count = sum(row[name] for row in rows)
    return f"{format_count(count)} {some}" if count else none


SOURCES = TableChart(
    name="sources", sql=queries.SOURCES, title="Sources", says=_say_sources, is_shown_empty=True,
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
    marks=(Point("bar", _part_arrived, legend="part of what was expected that arrived", start=0.0),),
    is_marked=lambda row: _part_arrived(row) not in {None, 1.0}, note=lambda row: _reason(row["missing"] or ""),
)  # fmt: skip  # a table: short fields share a line

JUDGED = TableChart(
    name="judged", sql=queries.JUDGED, title="Above a limit in this window",
    says=lambda rows: "Failing first; a warning fails once it has lasted long enough." if rows else "Nothing is above its limit.",
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

QUARANTINE = TableChart(
    name="quarantine", sql=queries.QUARANTINE, title="Quarantine",
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

ABSTENTIONS = TableChart(
    name="abstentions", sql=queries.ABSTENTIONS, title="Abstentions",
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
