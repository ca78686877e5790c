"""Our own expectations, in SQL: a condition that every row holds, a key without repeats, windows that have rows.

The SQL is what Spark and Polars have in common: Polars judges rows at hand (Arrow in pandas), Spark its own frames.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any, ClassVar

import pandas as pd
import polars as pl
import pyarrow as pa
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.suite_parameters import SuiteParameterDict
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.render import LegacyDiagnosticRendererType, RenderedTableContent
from great_expectations.render.renderer.renderer import renderer

from pipeline.model.number_text import format_cell, format_name
from pipeline.model.window import format_instant, milliseconds_of

MAX_ROWS = 20  # rows of evidence kept per check
_MOST_CHARACTERS = 400


def query(frame: Any, sql: str) -> list[dict[str, Any]]:  # noqa: ANN401 - pandas' or Spark's
    """Answers SQL over a frame, which it names `{rows}`."""
    if not isinstance(frame, pd.DataFrame):
        return list(frame.sparkSession.sql(sql, rows=frame).toArrow().to_pylist())
    rows = pl.DataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    return pl.SQLContext(rows=rows).execute(sql.format(rows="rows"), eager=True).to_dicts()


class SqlExpectation(BatchExpectation, ABC):
    """Expects that queries find nothing wrong."""

    success_keys: ClassVar[tuple[str, ...]]
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    @abstractmethod
    def find(self, frame: object, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """How much is wrong, and rows that show the first of it; `given` has the values of `success_keys`."""

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,  # noqa: ANN401 - of either kind
    ) -> dict[str, Any]:
        frame, _, _ = execution_engine.get_compute_domain(self._get_domain_kwargs(), MetricDomainTypes.TABLE)
        count, rows = self.find(frame, self._get_success_kwargs())
        details = {"unexpected_rows": [_plain(row) for row in rows]}
        return {"success": count == 0, "result": {"observed_value": count, "details": details}}

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
    def _diagnostic_unexpected_table_renderer(
        cls,
        configuration: object = None,
        result: Any = None,  # noqa: ANN401
        runtime_configuration: object = None,
    ) -> list[RenderedTableContent] | None:
        """The breaking rows in Data Docs; Great Expectations puts text of cells into the page as it is."""
        rows = result.result["details"]["unexpected_rows"] if result is not None else []
        if not rows:
            return None
        shown = [[format_cell(value, _MOST_CHARACTERS) for value in row.values()] for row in rows]
        table = [[escape(format_name(cell, _MOST_CHARACTERS)) for cell in cells] for cells in shown]
        return [RenderedTableContent(content_block_type="table", header_row=list(rows[0]), table=table)]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: format_instant(milliseconds_of(value)) if isinstance(value, datetime) else value
        for name, value in row.items()
    }


class ExpectRowsToHold(SqlExpectation):
    """Expects that every row, or every row that a filter selects, fulfils a condition; NULL does not.

    Attributes:
        condition: SQL over the table's columns; `:limit` in it stands for `limit`.
        where: SQL filter of the rows it is about; None for all.
        limit: Number for `:limit`, mostly a `$PARAMETER`.
        shown: Columns of the breaking rows to show.
    """

    condition: str
    where: str | None = None
    limit: int | SuiteParameterDict | None = None
    shown: list[str]

    success_keys: ClassVar[tuple[str, ...]] = ("condition", "where", "limit", "shown")

    def find(self, frame: object, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Counts the breaking rows."""
        condition = given["condition"]
        if given["limit"] is not None:
            condition = condition.replace(":limit", str(given["limit"]))
        breaking = f"FROM {{rows}} WHERE ({given['where'] or 'true'}) AND NOT coalesce(({condition}), false)"
        count = query(frame, f"SELECT count(1) AS n {breaking}")[0]["n"]
        shown = f"SELECT {', '.join(given['shown'])} {breaking} LIMIT {MAX_ROWS}"
        return count, query(frame, shown) if count else []


class ExpectKeyToBeUnique(SqlExpectation):
    """Expects that no two rows have the same values in the key's columns; NULL equals NULL.

    Attributes:
        columns: The key, mostly the `$PARAMETER` that the gate fills from the table's declaration.
    """

    columns: list[str] | SuiteParameterDict

    success_keys: ClassVar[tuple[str, ...]] = ("columns",)

    def find(self, frame: object, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Counts the rows beyond the first of their key."""
        key = ", ".join(given["columns"])
        repeats = f"SELECT {key}, count(1) AS row_count FROM {{rows}} GROUP BY {key} HAVING count(1) > 1"
        surplus = f"SELECT cast(sum(row_count - 1) AS bigint) AS n FROM ({repeats}) AS repeats"
        count = query(frame, surplus)[0]["n"] or 0
        return count, query(frame, f"{repeats} ORDER BY {key} LIMIT {MAX_ROWS}") if count else []


class ExpectWindowsToBePresent(SqlExpectation):
    """Expects that every window has a row.

    Attributes:
        windows_ms: Starts of the windows, UTC milliseconds; mostly a `$PARAMETER`.
        where: SQL filter of the rows that count; None for all.
    """

    windows_ms: list[int] | SuiteParameterDict
    where: str | None = None

    success_keys: ClassVar[tuple[str, ...]] = ("windows_ms", "where")

    def find(self, frame: object, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """Counts the windows without a row."""
        sql = f"SELECT DISTINCT window_start FROM {{rows}} WHERE {given['where'] or 'true'}"
        present = {milliseconds_of(row["window_start"]) for row in query(frame, sql)}
        missing = sorted(set(given["windows_ms"]) - present)
        return len(missing), [{"window_start": format_instant(start_ms)} for start_ms in missing[:MAX_ROWS]]
