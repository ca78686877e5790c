"""Own expectations about rows: a condition that every row holds, unique keys, windows that are there.

Their metrics are aggregates, which Great Expectations bundles: a suite whose checks all hold costs one Spark job,
however many checks it has. Rows are fetched only as evidence of a failure.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import pyspark.sql.functions as F
from great_expectations.core.suite_parameters import SuiteParameterDict  # noqa: TC002  # pydantic reads it
from great_expectations.expectations.expectation import BatchExpectation

from expectations.metrics import declare_aggregate, table_of
from pipeline.model.window import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from great_expectations.execution_engine import SparkDFExecutionEngine
    from pyspark.sql import Column, DataFrame

    from pipeline.model.verdict import Verdict

MAX_ROWS = 20
"""Rows of evidence kept per check."""


def first_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """At most `MAX_ROWS` rows as plain values, timestamps as text of the session's time zone (UTC)."""
    texts = [
        F.col(name).cast("string").alias(name) if kind in {"timestamp", "date"} else F.col(name)
        for name, kind in frame.dtypes
    ]
    return [row.asDict() for row in frame.select(*texts).limit(MAX_ROWS).collect()]


def outcome(count: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `_validate` answers: success without a breaking row, else their number and the first of them."""
    return {
        "success": count == 0,
        "result": {"observed_value": count, "details": {"unexpected_rows": list(rows)}},
    }


def judged(verdicts: Sequence[Verdict], broken: Sequence[Verdict], *, observed: float | None) -> dict[str, Any]:
    """What `_validate` answers where it comes to verdicts: all of them, so that what was found is what gets stored.

    Args:
        verdicts: All of them.
        broken: Those that break the expectation; the first are its rows, columns as in `gold.verdicts`.
        observed: What to tell as observed.
    """
    rows = [
        {
            "window_start": format_instant(verdict.window_start_ms),
            "rule": verdict.rule,
            "subject": verdict.subject,
            "value": verdict.value,
            "reason": verdict.reason,
        }
        for verdict in broken[:MAX_ROWS]
    ]
    details = {"unexpected_rows": rows, "verdicts": [asdict(verdict) for verdict in verdicts]}
    return {"success": not broken, "result": {"observed_value": observed, "details": details}}


def _breaks(condition: str, where: str | None, limit: float | None) -> Column:
    text = condition if limit is None else condition.replace(":limit", repr(float(limit)))
    breaking = ~F.coalesce(F.expr(text), F.lit(False))  # noqa: FBT003  # a literal column
    return breaking if where is None else F.expr(where) & breaking


def _count_breaking(condition: str, where: str | None, limit: float | None) -> Column:
    return F.count_if(_breaks(condition, where, limit))


declare_aggregate("table.breaking_row_count", _count_breaking, keys=("condition", "where", "limit"))


class ExpectRowsToHold(BatchExpectation):
    """Every row, or every row of those a filter names, holds a condition; NULL does not hold.

    Attributes:
        condition: Spark SQL over the table's columns; `:limit` in it stands for `limit`.
        where: Spark SQL filter of the rows it is about; None for all.
        limit: Number for `:limit`, mostly a `$PARAMETER`.
        shown: Columns of the breaking rows to show.
    """

    condition: str
    where: str | None = None
    limit: float | SuiteParameterDict | None = None
    shown: list[str]

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.breaking_row_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("condition", "where", "limit", "shown")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: SparkDFExecutionEngine | None = None,
    ) -> dict[str, Any]:
        count = metrics["table.breaking_row_count"]
        if count == 0 or execution_engine is None:
            return outcome(count, ())
        kwargs = self._get_success_kwargs()
        breaking = _breaks(kwargs["condition"], kwargs["where"], kwargs["limit"])
        frame = table_of(execution_engine, self._get_domain_kwargs())
        return outcome(count, first_rows(frame.filter(breaking).select(*kwargs["shown"])))


def _count_surplus(columns: Sequence[str]) -> Column:
    """Rows beyond the first of their key. A struct counts also where a part of the key is NULL."""
    return F.count(F.lit(1)) - F.count_distinct(F.struct(*columns))


declare_aggregate("table.surplus_row_count", _count_surplus, keys=("columns",))


class ExpectKeyToBeUnique(BatchExpectation):
    """No two rows have the same values in the key's columns.

    Attributes:
        columns: The key, mostly the `$PARAMETER` that the gate fills from the table's declaration.
    """

    columns: list[str] | SuiteParameterDict

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.surplus_row_count",)
    success_keys: ClassVar[tuple[str, ...]] = ("columns",)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: SparkDFExecutionEngine | None = None,
    ) -> dict[str, Any]:
        count = metrics["table.surplus_row_count"]
        if count == 0 or execution_engine is None:
            return outcome(count, ())
        columns = self._get_success_kwargs()["columns"]
        frame = table_of(execution_engine, self._get_domain_kwargs())
        twice = frame.groupBy(*columns).agg(F.count(F.lit(1)).alias("row_count")).filter("row_count > 1")
        return outcome(count, first_rows(twice.orderBy(*columns)))


def _collect_windows(where: str | None) -> Column:
    """Starts of the windows that have a row, UTC milliseconds."""
    return F.collect_set(F.when(F.expr(where or "true"), F.unix_millis("window_start")))


declare_aggregate("table.windows_present", _collect_windows, keys=("where",))


class ExpectWindowsToBePresent(BatchExpectation):
    """Every window asked for has a row.

    Attributes:
        windows_ms: Starts of the windows, UTC milliseconds; mostly a `$PARAMETER`.
        where: Spark SQL filter of the rows that count; None for all.
    """

    windows_ms: list[int] | SuiteParameterDict
    where: str | None = None

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.windows_present",)
    success_keys: ClassVar[tuple[str, ...]] = ("windows_ms", "where")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: SparkDFExecutionEngine | None = None,
    ) -> dict[str, Any]:
        present = set(metrics["table.windows_present"])
        missing = sorted(set(self._get_success_kwargs()["windows_ms"]) - present)
        return outcome(len(missing), [{"window_start": format_instant(start_ms)} for start_ms in missing[:MAX_ROWS]])
