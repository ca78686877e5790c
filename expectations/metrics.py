"""Metrics of Great Expectations over whole tables, declared in a line each; a class of their own takes fifteen."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyspark.sql.functions as F
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_partial, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame


def table_of(execution_engine: SparkDFExecutionEngine, domain_kwargs: Mapping[str, Any]) -> DataFrame:
    """The frame under validation."""
    frame, _, _ = execution_engine.get_compute_domain(domain_kwargs, domain_type=MetricDomainTypes.TABLE)
    result: DataFrame = frame
    return result


def rows_for(frame: DataFrame, value_type: type[Any], *others: str) -> list[dict[str, Any]]:
    """Rows with the fields of a frozen value, its `window_start_ms` from `window_start`.

    Args:
        frame: Has a column for every field.
        value_type: A dataclass.
        others: Columns to take along.
    """
    names = [field.name for field in fields(value_type) if field.name != "window_start_ms"]
    chosen = frame.select(F.unix_millis("window_start").alias("window_start_ms"), *names, *others)
    rows: list[dict[str, Any]] = chosen.toArrow().to_pylist()
    return rows


def declare_aggregate(name: str, aggregate: Callable[..., Column], *, keys: tuple[str, ...]) -> None:
    """Declares a metric that one aggregation gives: Great Expectations bundles those of a suite into one job.

    Args:
        name: As expectations ask for it.
        aggregate: Makes the column from the values of `keys`.
        keys: Attributes of an expectation that it depends on.
    """

    @metric_partial(
        engine=SparkDFExecutionEngine,
        partial_fn_type=MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=MetricDomainTypes.TABLE,
    )
    def _spark(  # noqa: PLR0917  # as it is called
        cls: type,
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> tuple[Column, dict[str, Any], dict[str, Any]]:
        return aggregate(**metric_value_kwargs), metric_domain_kwargs, {}

    _declare(name, keys, _spark)


def declare_rows(name: str, read: Callable[[DataFrame], object]) -> None:
    """Declares a metric that is read off the rows, collected: for tables that are small.

    Args:
        name: As expectations ask for it.
        read: Reads the frame.
    """

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(  # noqa: PLR0917  # as it is called
        cls: type,
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> object:
        return read(table_of(execution_engine, metric_domain_kwargs))

    _declare(name, (), _spark)


def _declare(name: str, keys: tuple[str, ...], spark: Callable[..., Any]) -> None:
    """Making the class registers it."""
    members = {"metric_name": name, "value_keys": keys, "_spark": spark, "__module__": __name__}
    type(TableMetricProvider)(f"Metric_{name.replace('.', '_')}", (TableMetricProvider,), members)
