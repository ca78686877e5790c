"""Asks the tables a statement of `queries` and keeps the answer with the Spark SQL that gives the same rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.config.storage import Folder
from pipeline.model.number_text import format_cell
from pipeline.model.window import TimeWindow, format_instant, milliseconds_of
from pipeline.report.queries import NEWEST
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
BAND = ("lowest", "highest")
"""Columns over all brokers, where not all have a column of their own or lines would cover each other."""
_TABLE = re.compile(r"\b(?:bronze|silver|gold)\.\w+")
_BY_NAME = {table.name: table for table in TABLES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows of a statement, and the statement as `partition-health sql` takes it."""

    name: str
    sql: str
    columns: tuple[str, ...]
    rows: tuple[AnswerRow, ...] = field(repr=False)

    @property
    def cells(self) -> list[list[str]]:
        """The rows as `partition-health sql` prints them."""
        return [[format_cell(row[name]) for name in self.columns] for row in self.rows]

    @property
    def numeric(self) -> frozenset[str]:
        return frozenset(
            name
            for name in self.columns
            if any(isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in self.rows)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Context of the report's queries: a warehouse, a cluster, the period and its newest window."""

    warehouse: Folder
    cluster: str
    period: TimeWindow
    window: TimeWindow

    def ask(self, name: str, template: str, values: Mapping[str, str] | None = None) -> Answer:
        """The answer to a statement of `queries`, named as its chart; `values`: for braces both languages write alike."""
        spark = template.format(**self._literals(sql_text, sql_instant), **(values or {}))
        tables = {one.replace(".", "_"): _BY_NAME[one] for one in _TABLE.findall(template)}
        ours = _TABLE.sub(lambda one: one[0].replace(".", "_"), template).format(
            **self._literals(format_datafusion_text, format_datafusion_instant), **(values or {})
        )
        rows = query_rows(self.warehouse, ours, tables)
        return Answer(name=name, sql=f"{spark};", columns=tuple(rows.column_names), rows=tuple(rows.to_pylist()))

    def _literals(self, text: Any, instant: Any) -> dict[str, str]:  # noqa: ANN401 - two functions of one shape
        return {
            "cluster": text(self.cluster),
            "first": instant(self.period.start_ms),
            "end": instant(self.period.end_ms),
            "window": instant(self.window.start_ms),
            "date": f"DATE'{format_instant(self.window.start_ms)[:10]}'",
        }


def ask_newest(run: RunContext, until_ms: int) -> Asker | None:
    """Asks about the newest window judged before an instant, and all time before that; None where none was judged."""
    if not has_table(table_path(run.warehouse, WINDOW_STATUS)):
        return None  # before the first run
    until = TimeWindow(0, until_ms)
    asker = Asker(warehouse=run.warehouse, cluster=run.cluster_name, period=until, window=until)
    (row,) = asker.ask("newest", NEWEST).rows
    if row["newest"] is None:
        return None
    return replace(asker, window=run.window_at(milliseconds_of(row["newest"])))


def pivot_columns(brokers: Sequence[int], expression: str) -> str:
    r"""Writes a statement's columns: one per broker, for many only the first ones, with the minimum and maximum of all.

    >>> print(pivot_columns([1], "share"))
    max(CASE WHEN broker_id = 1 THEN share END) AS broker_1
    >>> print(pivot_columns(range(40), "share").rpartition("\n")[2].strip())
    min(share) AS lowest, max(share) AS highest
    """
    columns = [
        f"max(CASE WHEN broker_id = {broker} THEN {expression} END) AS broker_{broker}"
        for broker in brokers[:STRIPS_SHOWN]
    ]
    if len(brokers) > LINES_TOGETHER:
        columns.append(f"min({expression}) AS {BAND[0]}, max({expression}) AS {BAND[1]}")
    return ",\n       ".join(columns)
