"""Asks the tables a statement of the folder `sql`; keeps the answer with the Spark SQL that gives the same rows."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal

from pipeline.config.storage import Folder
from pipeline.measures.disks import NO_END_HOURS
from pipeline.model.number_text import format_cell, format_name
from pipeline.model.window import TimeWindow, format_instant, milliseconds_of
from pipeline.runs import RunContext
from pipeline.storage.durability import has_table
from pipeline.storage.predicates import format_datafusion_instant, format_datafusion_text, sql_instant, sql_text
from pipeline.storage.rows import query_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables import TABLES
from pipeline.tables.bronze import WINDOW_STATUS

AnswerRow = dict[str, Any]
LINES_TOGETHER = 5  # brokers whose lines can be distinguished on one plot; of more, each has a strip of its own
STRIPS_SHOWN = 12
BAND = ("lowest", "highest")  # columns over all brokers, where not all have a column of their own
_TABLE = re.compile(r"\b(?:bronze|silver|gold)\.\w+")
_BY_NAME = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    name: str
    sql: str
    columns: tuple[str, ...]
    rows: tuple[AnswerRow, ...] = field(repr=False)

    @property
    def cells(self) -> list[list[str]]:
        return [[format_cell(row[name]) for name in self.columns] for row in self.rows]

    @property
    def numeric(self) -> frozenset[str]:
        return frozenset(name for name in self.columns if any(type(row[name]) in {int, float} for row in self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    warehouse: Folder
    cluster: str
    period: TimeWindow
    window: TimeWindow

    def ask(self, name: str, values: Mapping[str, str] | None = None) -> Answer:
        """The answer to a statement of `sql/`, which Spark and DataFusion read alike; its order is total."""
        statement = files("pipeline.report").joinpath(f"sql/{name}.sql").read_text(encoding="utf-8").rstrip()
        return self.answer(name, statement, values)

    def answer(self, name: str, template: str, values: Mapping[str, str] | None = None) -> Answer:
        """Answers SQL; what stands in its braces is filled in from `values`, or says of which cluster and time rows are."""
        spark = template.format(**self._literals(sql_text, sql_instant), **(values or {}))
        tables = {one.replace(".", "_"): _BY_NAME[one] for one in _TABLE.findall(template)}
        ours = _TABLE.sub(lambda one: one[0].replace(".", "_"), template).format(
            **self._literals(format_datafusion_text, format_datafusion_instant), **(values or {})
        )
        rows = query_rows(self.warehouse, ours, tables)
        return Answer(name=name, sql=f"{spark};", columns=tuple(rows.column_names), rows=tuple(rows.to_pylist()))

    def _literals(self, text: Any, instant: Any) -> dict[str, str]:  # noqa: ANN401 - two functions of one shape
        cluster, window = text(self.cluster), instant(self.window.start_ms)
        first, end = instant(self.period.start_ms), instant(self.period.end_ms)
        day = f"DATE'{format_instant(self.window.start_ms)[:10]}'"
        return {
            "cluster": cluster,
            "first": first,
            "end": end,
            "in_period": f"cluster = {cluster} AND window_start >= {first} AND window_start < {end}",
            "in_window": f"cluster = {cluster} AND window_start = {window}",
            "on_day": f"cluster = {cluster} AND window_date = {day} AND window_start = {window}",
            "no_end_hours": f"{NO_END_HOURS}",
        }


def ask_newest(run: RunContext, until_ms: int) -> Asker | None:
    """Asks about the newest window judged before an instant, and all time before that; None where none was judged."""
    if not has_table(table_path(run.warehouse, WINDOW_STATUS)):
        return None  # before the first run
    until = TimeWindow(0, until_ms)
    asker = Asker(warehouse=run.warehouse, cluster=run.cluster_name, period=until, window=until)
    (row,) = asker.ask("newest").rows
    return None if row["newest"] is None else replace(asker, window=run.window_at(milliseconds_of(row["newest"])))


def pivot_columns(brokers: Sequence[int], expression: str) -> str:
    r"""Writes a statement's columns: one per broker, for many only the first ones, with the minimum and maximum of all.

    >>> print(pivot_columns([1], "share"))
    max(CASE WHEN broker_id = 1 THEN share END) AS broker_1
    >>> print(pivot_columns(range(40), "share").rpartition("\n")[2].strip())
    min(share) AS lowest, max(share) AS highest
    """
    shown = brokers[:STRIPS_SHOWN]
    columns = [f"max(CASE WHEN broker_id = {one} THEN {expression} END) AS broker_{one}" for one in shown]
    if len(brokers) > LINES_TOGETHER:
        columns.append(f"min({expression}) AS {BAND[0]}, max({expression}) AS {BAND[1]}")
    return ",\n       ".join(columns)


MarkKind = Literal[
    "bar", "hot", "minus", "part", "band", "fair", "limit", "range", "dot", "observed", "peers", "history"
]  # areas, a thick line (`range`), lines across (`fair`, `limit`), points
Cell = str | float | Callable[[AnswerRow], Any]  # a column's name, what a function makes of a row, or a constant
Rows = Sequence[AnswerRow]

UNKNOWN = "\N{EN DASH}"


def cell_of(row: AnswerRow, cell: Cell) -> Any:  # noqa: ANN401 - a value of any column
    return row[cell] if isinstance(cell, str) else cell(row) if callable(cell) else cell


def format_known(value: float | None, write: Callable[[float], str]) -> str:
    return UNKNOWN if value is None else write(value)


def format_words(name: str) -> str:
    return name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class ChartColumn:
    title: str
    value: Cell
    write: Callable[[Any], str] = str
    is_text = False

    def text(self, row: AnswerRow) -> str:
        return format_known(cell_of(row, self.value), self.write)


@dataclass(frozen=True, slots=True)
class Words(ChartColumn):
    write: Callable[[Any], str] = format_name
    is_text = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark as it is drawn; `at` and `width` in per cent of the plot or the time axis, `title` what it stands for."""

    kind: str
    at: float
    width: float = 0.0
    title: str = ""
    label: str = ""  # what stands beside it


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float

    def at(self, value: float) -> float:
        """Position of a value on the scale.

        >>> Scale(0, 4).at(1), Scale(0, 4).at(9)
        (25.0, 100.0)
        """
        span = self.high - self.low
        return round(min(max(100 * (value - self.low) / span if span else 0.0, 0.0), 100.0), 3)


@dataclass(frozen=True, slots=True)
class Point:
    """Marks of one kind, a point or a line across in each row where its value is known."""

    kind: MarkKind | Callable[[AnswerRow], MarkKind]
    value: Cell
    write: Callable[[Any], str] | None = None  # of the value, for the mark's title
    name: str = ""  # what the value is, for the mark's title; else the kind
    legend: str = ""
    start: Cell | None = None  # the other end, of an area
    shown: Cell | None = None  # what the mark's title writes, if not the value

    def ends(self, row: AnswerRow) -> tuple[float, ...]:
        ends = tuple(cell_of(row, end) for end in (self.start, self.value) if end is not None)
        return () if None in ends else ends

    def draw(self, row: AnswerRow, scale: Scale) -> Iterable[Mark]:
        if ends := self.ends(row):
            low, *_, high = sorted(scale.at(end) for end in (*ends, *ends[-1:]))
            kind = self.kind if isinstance(self.kind, str) else self.kind(row)
            shown = ends[-1] if self.shown is None else cell_of(row, self.shown)
            title = f"{self.name or kind} {self.write(shown)}" if self.write else ""
            yield Mark(kind=kind, at=low, width=round(high - low, 3), title=title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    name: str  # its statement's
    title: str | Callable[[Rows], str]
    says: str | Callable[[Rows], str]  # what there is to see, in a sentence
    columns: tuple[ChartColumn, ...]  # the plot stands after the first
    marks: tuple[Point, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()  # of kinds of marks without an own text
    scale: Callable[[Sequence[float]], Scale] | None = None  # of all values drawn; else from 0 to the largest
    values: Mapping[str, str] | None = None  # for braces of the statement
    select: Callable[[Rows], Rows] = lambda rows: rows
    suffix: str = ""  # of its answer's name, where a page has several of its statement
    most_rows: int | None = None  # drawn; title and sentence are about all
    is_marked: Cell = lambda _: False
    key: Cell = lambda _: None  # what the page's filter looks at
    group: Cell = lambda _: None  # titles this row and those below it
    note: Cell = lambda _: None
    is_shown_empty: bool = False  # its sentence says something without rows too

    def draw(self, answer: Answer) -> "DrawnTable | None":
        selected = self.select(answer.rows)
        if not selected and not self.is_shown_empty:
            return None
        rows = selected[: self.most_rows]
        ends = [end for row in rows for mark in self.marks if mark.kind != "band" for end in mark.ends(row)]
        scale = self.scale(ends) if self.scale else Scale(min([0.0, *ends]), max([0.0, *ends]) * 1.04 or 1.0)
        kinds = tuple((mark.kind, mark.legend) for mark in self.marks if mark.legend and isinstance(mark.kind, str))
        return DrawnTable(
            answer=answer,
            chart=self,
            title=self.title if isinstance(self.title, str) else self.title(selected),
            says=self.says if isinstance(self.says, str) else self.says(selected),
            rows=tuple((row, tuple(mark for marks in self.marks for mark in marks.draw(row, scale))) for row in rows),
            legend=kinds + self.legend,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTable:
    answer: Answer
    chart: Chart
    title: str
    says: str
    rows: tuple[tuple[AnswerRow, tuple[Mark, ...]], ...]  # with their marks
    legend: tuple[tuple[str, str], ...]  # kind of mark, meaning
