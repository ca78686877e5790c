"""Own expectations about rows: a condition that every row holds, unique keys, windows that are there.

Their metrics are aggregates, which Great Expectations bundles: a suite whose checks all hold costs one Spark job,
however many checks it has. Rows are fetched only as evidence of a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyspark.sql.functions as F
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.core.suite_parameters import SuiteParameterDict  # noqa: TC002  # pydantic reads it
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_partial
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from pipeline.model.window import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

MAX_ROWS = 20
"""Rows of evidence kept per check."""


def table_of(execution_engine: SparkDFExecutionEngine, domain_kwargs: Mapping[str, Any]) -> DataFrame:
    """The frame under validation."""
    frame, _, _ = execution_engine.get_compute_domain(domain_kwargs, domain_type=MetricDomainTypes.TABLE)
    result: DataFrame = frame
    return result


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


def _breaks(condition: str, where: str | None, limit: float | None) -> Column:
    text = condition if limit is None else condition.replace(":limit", repr(float(limit)))
    breaking = ~F.coalesce(F.expr(text), F.lit(False))  # noqa: FBT003  # a literal column
    return breaking if where is None else F.expr(where) & breaking


class BreakingRowCount(TableMetricProvider):
    """Rows that break a condition."""

    metric_name = "table.breaking_row_count"
    value_keys = ("condition", "where", "limit")

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805  # GX binds it to the class
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Column, dict[str, Any], dict[str, Any]]:
        breaking = _breaks(**metric_value_kwargs)
        return F.count_if(breaking), metric_domain_kwargs, {}


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


class SurplusRowCount(TableMetricProvider):
    """Rows beyond the first of their key."""

    metric_name = "table.surplus_row_count"
    value_keys = ("columns",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Column, dict[str, Any], dict[str, Any]]:
        # A struct counts also where a part of the key is NULL.
        key = F.struct(*metric_value_kwargs["columns"])
        return F.count(F.lit(1)) - F.count_distinct(key), metric_domain_kwargs, {}


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


class WindowsPresent(TableMetricProvider):
    """Starts of the windows that have a row, UTC milliseconds."""

    metric_name = "table.windows_present"
    value_keys = ("where",)

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Column, dict[str, Any], dict[str, Any]]:
        counted = F.when(F.expr(metric_value_kwargs["where"] or "true"), F.unix_millis("window_start"))
        return F.collect_set(counted), metric_domain_kwargs, {}


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
