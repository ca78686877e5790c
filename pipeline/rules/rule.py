"""Definition of a rule: a limit on one measure, with everything that measures, judges, words and documents it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from pipeline.measures.outages import Outage
from pipeline.model.number_text import format_count
from pipeline.model.window import milliseconds_of
from pipeline.tables import Table

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInput:
    # rows of a table in the windows to measure and in so many before the first
    rows: Callable[[Table, int], Sequence[Row]]
    # rows of `bronze.log_segments` whose retention is over at the end of the last window
    deletable_segments: Callable[[], Sequence[Row]]
    starts_ms: Sequence[int]  # starts of the windows to measure, UTC milliseconds
    window_ms: int
    disk_bytes: Mapping[int, int]  # capacity of brokers' disks, where the configuration has it
    appended: Callable[[], Sequence[Row]] = tuple  # rows of `sum_appended`, of moments in the windows to measure
    outages: Sequence[Outage] = ()  # of brokers of a live cluster, around the windows to measure
    broker_zones: Mapping[int, str] = field(default_factory=dict)  # where the configuration names them: `zones.brokers`


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMeasure:
    """One measure of one subject in one window; fields are columns of `gold.rule_measures`.

    `topic` is "" where it is about none, `value` is None where there was nothing to measure, `p_value` where chance plays no
    part.
    """

    window_start_ms: int
    rule: str
    subject: str
    topic: str = ""
    value: float | None
    p_value: float | None = None
    is_enough: bool = True
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A limit on one measure."""

    name: str  # key in the configuration, and in tables
    measure: Callable[[str, RuleInput], Iterator[RuleMeasure]]  # yields its measures, under its name
    limit: float  # value from which a window is above, by default
    k: int = 2  # windows above that make a failure ..
    n: int = 3  # ... among this many; by default.
    meaning: str  # what is wrong beyond the limit, as a mail says it
    advice: str
    doc: str  # what is measured, for `docs/RULES.md`
    format: Callable[[float], str] = format_count  # writes a value of the measure
    is_falling: bool = False  # small values are bad: a window is above at the limit or under it
    needs_all_records: bool = False  # not judged where records are missing or a reassignment runs
    severity: str = "warning"  # `critical` makes incidents, `warning` only makes verdicts; by default


def measure_topic_by_rule(
    rule: str, row: Row, value: float, detail: str, p_value: float | None = None, *, is_enough: bool = True
) -> RuleMeasure:
    return RuleMeasure(
        window_start_ms=milliseconds_of(row["window_start"]),
        rule=rule,
        subject=f"topic {row['topic']}",
        topic=row["topic"],
        value=value,
        p_value=p_value,
        is_enough=is_enough,
        detail=detail,
    )


def measure_broker(rule: str, start_ms: int, broker_id: int, value: float, detail: str) -> RuleMeasure:
    """A measure of a broker, in the window that starts then."""
    return RuleMeasure(window_start_ms=start_ms, rule=rule, subject=f"broker {broker_id}", value=value, detail=detail)


def measure_column(table: Table, column: str, words: str) -> Callable[[str, RuleInput], Iterator[RuleMeasure]]:
    """Measures a column of a table of topics or brokers, row by row; NULL and single clients are left out.

    `words`: what it says: a format string over the row's columns.

    Raises:
        KeyError: if the table lacks the column, or one of those in `words`.
    """
    for name in (column, *(named for _, named, _, _ in Formatter().parse(words) if named)):
        table.column(name)

    def measure(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
        for row in given.rows(table, 0):
            value = row[column]
            if value is None or row.get("client_id", "*") != "*":
                continue
            detail = words.format_map(row)
            if "topic" in row:
                yield measure_topic_by_rule(rule, row, float(value), detail)
            else:
                yield measure_broker(rule, milliseconds_of(row["window_start"]), row["broker_id"], value, detail)

    return measure
