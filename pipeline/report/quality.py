"""Data quality: sources, quarantined input, and what could not be judged."""

from functools import partial

from pipeline.model.number_text import format_count, format_name, format_percent, format_span
from pipeline.model.window import milliseconds_of
from pipeline.report.answers import Answer, AnswerRow
from pipeline.report.brokers import NONE, known
from pipeline.report.marks import ChartRow, Legend, Scale, TableChart
from pipeline.rules import format_measure

_NAME_LENGTH = 120
_REASON_LENGTH = 400


def draw_sources(answer: Answer) -> TableChart:
    """Draws each source's expected and received data."""
    lacking = [row for row in answer.rows if row["missing"] or (row["expected_count"] or 0) > row["arrived_count"]]
    scale = Scale(0.0, 1.0)
    return TableChart(
        answer=answer,
        title="Sources",
        says=f"{len(lacking)} of {len(answer.rows)} sources lack something."
        if lacking
        else "Everything expected arrived.",
        columns=("source", "complete", "arrived", "expected", "age of newest", "problems", "data gate"),
        texts=frozenset({6}),
        rows=[_source_row(row, scale) for row in answer.rows],
        legend=(Legend(kind="bar", text="part of what was expected that arrived"),),
    )


def _source_row(row: AnswerRow, scale: Scale) -> ChartRow:
    expected, arrived = row["expected_count"], row["arrived_count"]
    part = None if not expected else min(1.0, arrived / expected)
    age = None
    if row["newest_at"] is not None and row["as_of"] is not None:
        age = max(0, milliseconds_of(row["as_of"]) - milliseconds_of(row["newest_at"]))
    return ChartRow(
        cells=(
            row["source"],
            known(part, format_percent),
            format_count(arrived),
            known(expected, format_count),
            NONE if age is None else format_span(age - age % 1000),
            format_count(row["problem_count"]),
            "passed" if row["is_trusted"] else "not passed",
        ),
        marks=() if part is None else (scale.area("bar", 0.0, part),),
        is_marked=part is not None and part < 1.0,
        note=format_name(row["missing"] or "", _REASON_LENGTH),
    )


def draw_judged(answer: Answer) -> TableChart:
    """Draws everything above a limit in the window: failing and warning."""
    return TableChart(
        answer=answer,
        title="Above a limit in this window",
        says="Failing first; a warning fails once it has lasted long enough."
        if answer.rows
        else "Nothing is above its limit.",
        columns=("subject", "value", "limit", "verdict", "rule", "reason"),
        texts=frozenset({3, 4, 5}),
        rows=[
            ChartRow(
                cells=(
                    format_name(row["subject"], _NAME_LENGTH),
                    known(row["value"], partial(format_measure, row["rule"])),
                    format_measure(row["rule"], row["limit_value"]),
                    row["verdict"],
                    row["rule"].replace("_", " "),
                    format_name(row["reason"], _REASON_LENGTH),
                ),
                is_marked=row["verdict"] == "fail",
            )
            for row in answer.rows
        ],
    )


def draw_quarantine(answer: Answer) -> TableChart:
    """Input that was refused or is suspect, by reason."""
    count = sum(row["place_count"] for row in answer.rows)
    return TableChart(
        answer=answer,
        title="Quarantine",
        says=f"{format_count(count)} places in the input were refused or are suspect."
        if count
        else "No input was refused.",
        columns=("reason", "places", "source", "severity", "first file"),
        texts=frozenset({2, 3, 4}),
        rows=[
            ChartRow(
                cells=(
                    format_name(row["reason"], _REASON_LENGTH),
                    format_count(row["place_count"]),
                    row["source"],
                    row["severity"],
                    format_name(row["first_path"], _NAME_LENGTH),
                )
            )
            for row in answer.rows
        ],
    )


def draw_abstentions(answer: Answer) -> TableChart:
    """Draws the subjects that were not judged, and why."""
    count = sum(row["subject_count"] for row in answer.rows)
    return TableChart(
        answer=answer,
        title="Abstentions",
        says=f"{format_count(count)} subjects were not judged." if count else "Every subject was judged.",
        columns=("rule", "subjects", "verdict", "such as", "reason"),
        texts=frozenset({2, 3, 4}),
        rows=[
            ChartRow(
                cells=(
                    row["rule"].replace("_", " "),
                    format_count(row["subject_count"]),
                    row["verdict"].replace("_", " "),
                    format_name(row["first_subject"], _NAME_LENGTH),
                    format_name(row["first_reason"], _REASON_LENGTH),
                )
            )
            for row in answer.rows
        ],
    )
