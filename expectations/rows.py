"""Our own expectations, for what Great Expectations has none: a condition in SQL that every row holds, windows that have rows.

The SQL is what Spark and Polars have in common: Spark looks for suspects with it (`expectations.suite_files`), Polars judges.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

import pandas as pd
import polars as pl
import pyarrow as pa
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.suite_parameters import SuiteParameterDict
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer

from pipeline.model.window import format_instant, milliseconds_of

MAX_ROWS = 20  # rows of evidence kept per check
Untyped: TypeAlias = Any  # what Great Expectations hands over
ROW = "_row"  # column with the number of a row


def query(frame: pd.DataFrame, sql: str) -> list[dict[str, Any]]:
    rows = pl.DataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    return pl.SQLContext(rows=rows).execute(sql, eager=True).to_dicts()


class SqlExpectation(BatchExpectation, ABC):
    """Expects that queries find nothing wrong."""

    success_keys: ClassVar[tuple[str, ...]]
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    counted: ClassVar[str]  # what `find` counts

    @classmethod
    @abstractmethod
    def describe(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """The check in words, with `$NAME` where SQL stands, and that SQL by name; `given` as the suite has it."""

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Untyped = None, result: Untyped = None, **_: object
    ) -> list[RenderedStringTemplateContent]:
        template, sql = cls.describe((configuration or result.expectation_config).kwargs)
        styles = {"params": {name: {"tag": "code"} for name in sql}}
        text = {"template": template, "params": sql, "styling": styles}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=text)]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.OBSERVED_VALUE)
    def _diagnostic_observed_value_renderer(cls, result: Untyped = None, **_: object) -> str:
        return f"{result.result['observed_value']:,} {cls.counted}"

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _diagnostic_unexpected_statement_renderer(
        cls, result: Untyped = None, **_: object
    ) -> list[RenderedStringTemplateContent]:
        """Adds the SQL to a failed check, whose description in the suite stands before it."""
        return [] if result.success else cls._prescriptive_renderer(result=result)

    @abstractmethod
    def find(self, frame: pd.DataFrame, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """How much is wrong, and rows that show the first of it; `given` has the values of `success_keys`."""

    def _validate(self, metrics: object, execution_engine: Untyped = None, **_: object) -> dict[str, Any]:
        frame, _, _ = execution_engine.get_compute_domain(self._get_domain_kwargs(), MetricDomainTypes.TABLE)
        count, rows = self.find(frame, self._get_success_kwargs())
        details = {"unexpected_rows": rows}
        return {"success": count == 0, "result": {"observed_value": count, "details": details}}


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of evidence; instants as text."""
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
    counted: ClassVar[str] = "rows"

    @classmethod
    def describe(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        sql = {"condition": str(given["condition"])}
        if given.get("limit") is not None:
            sql["condition"] = sql["condition"].replace(":limit", str(given["limit"]))
        if not given.get("where"):
            return "Expected of every row: $condition.", sql
        return "Expected of rows with $where: $condition.", sql | {"where": str(given["where"])}

    def find(self, frame: pd.DataFrame, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        condition = given["condition"]
        if given["limit"] is not None:
            condition = condition.replace(":limit", str(given["limit"]))
        breaking = f"FROM rows WHERE ({given['where'] or 'true'}) AND NOT coalesce(({condition}), false)"
        count = query(frame, f"SELECT count(1) AS n {breaking}")[0]["n"]
        shown = f"SELECT {ROW} {breaking} LIMIT {MAX_ROWS}"
        return count, query(frame, shown) if count else []


class ExpectWindowsToBePresent(SqlExpectation):
    """Expects that every window has a row.

    Attributes:
        windows_ms: Starts of the windows, UTC milliseconds; mostly a `$PARAMETER`.
        where: SQL filter of the rows that count; None for all.
    """

    windows_ms: list[int] | SuiteParameterDict
    where: str | None = None

    success_keys: ClassVar[tuple[str, ...]] = ("windows_ms", "where")
    counted: ClassVar[str] = "windows"

    @classmethod
    def describe(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        if not given.get("where"):
            return "Expected: a row of every window.", {}
        return "Expected: a row with $where of every window.", {"where": str(given["where"])}

    def find(self, frame: pd.DataFrame, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        sql = f"SELECT DISTINCT window_start FROM rows WHERE {given['where'] or 'true'}"
        present = {milliseconds_of(row["window_start"]) for row in query(frame, sql)}
        missing = sorted(set(given["windows_ms"]) - present)
        return len(missing), [{"window_start": format_instant(start_ms)} for start_ms in missing[:MAX_ROWS]]
