"""The gate: runs a suite over rows and reports what was found.

Light to import: Spark, Polars and Great Expectations come in when a suite runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import DataGateError, GateBrokenError
from pipeline.model.window import TimeWindow
from pipeline.tables import TABLES, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.runs import RunContext

SHOWN_ROWS = 5  # rows per failed check in an error's text


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Result of one expectation, named by `meta.check`: the number of breaking rows and the first of them."""

    name: str
    severity: str
    description: str
    success: bool
    observed: int
    rows: tuple[Mapping[str, Any], ...] = ()

    def describe(self) -> str:
        """The failure in text: description, what was observed, the first rows."""
        lines = [f"{self.name}: {self.description} Found {self.observed}."]
        rows = ("    " + ", ".join(f"{name} {value}" for name, value in row.items()) for row in self.rows[:SHOWN_ROWS])
        return "\n".join([*lines, *rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """Result of a suite: one result per expectation, in the suite's order.

    `table`: the one that was judged, if it was one.
    `result`: Great Expectations' own.
    """

    suite: str
    checks: tuple[CheckResult, ...] = ()
    table: str = ""
    result: Any = field(default=None, repr=False, compare=False)

    @property
    def page(self) -> str:
        """Name of its page in Data Docs; several tables share a suite."""
        own = f"{self.table.partition('.')[2]}_gate"
        return self.suite if not self.table or self.suite == own else f"{self.suite}-{self.table}"

    @property
    def success(self) -> bool:
        """No critical check failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """Critical checks that failed."""
        return tuple(check for check in self.checks if not check.success and check.severity == "critical")

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        """Checks below critical that failed: worth a line, no reason to stop."""
        return tuple(check for check in self.checks if not check.success and check.severity != "critical")

    def describe_failures(self) -> str:
        """Every failed critical check with its first rows."""
        found = "\n".join(f"  {check.describe()}" for check in self.failures)
        return f"{self.suite}: {len(self.failures)} of {len(self.checks)} checks failed\n{found}"


def raise_for_data_gate(reports: Iterable[GateReport]) -> None:
    """Stops the run where a table is not to be trusted; after all suites, so that each had its turn.

    Raises:
        DataGateError: naming every failed critical check with its first rows.
    """
    failed = [report.describe_failures() for report in reports if not report.success]
    if failed:
        raise DataGateError("\n".join(failed))


def check_table(
    spark: SparkSession,
    run: RunContext,
    table: Table,
    windows: Sequence[TimeWindow],
    suite: str | None = None,
    **parameters: object,
) -> GateReport:
    """Runs a suite, by default the table's own, over the cluster's rows in some windows; over few rows without Spark.

    The suite finds the table's key in the parameter `key`; `parameters` are values for its other `$PARAMETER`s.
    """
    from expectations.engine import read_suite  # takes three seconds

    name = suite or f"{table.name.partition('.')[2]}_gate"
    text = json.dumps(read_suite(name))
    columns = [one for one in table.column_names if one in table.key or re.search(rf"\b{one}\b", text)]
    is_small = run.has_few_rows(table, windows)
    rows = run.load(table, windows, columns) if is_small else run.frame(spark, table, windows).select(*columns)
    return replace(run_suite(name, rows, {"key": list(table.key), **parameters}), table=table.name)


def run_suite(suite_name: str, rows: pa.Table | DataFrame, parameters: Mapping[str, Any] | None = None) -> GateReport:
    """Runs a suite of `expectations/suites`, named by its file, over rows that are cut to what is to be judged.

    A suite about a declared table (`meta.table`) finds that table's key in the parameter `key`.

    Raises:
        GateBrokenError: if a check raised: nothing is known about the data then.
    """
    from expectations import engine  # takes three seconds

    document = engine.read_suite(suite_name)
    keys = {declared.name: list(declared.key) for declared in TABLES}
    known = {"key": keys.get(document["meta"].get("table"), [])}
    result = engine.validate(suite_name, rows, {**known, **(parameters or {})})
    by_name = {one.expectation_config.meta["check"]: one for one in result.results}
    return GateReport(
        suite=suite_name,
        checks=tuple(
            _check_result(suite_name, entry, by_name[entry["meta"]["check"]]) for entry in document["expectations"]
        ),
        result=result,
    )


def _check_result(suite_name: str, entry: Mapping[str, Any], result: Any) -> CheckResult:  # noqa: ANN401
    name = entry["meta"]["check"]
    raised = list(_exceptions(result.exception_info))
    if raised:
        raise GateBrokenError(f"{suite_name}: {name} could not be evaluated: {raised[0]}")
    return CheckResult(
        name=name,
        severity=entry["severity"],
        description=entry["description"],
        success=result.success,
        observed=result.result["observed_value"],
        rows=tuple(result.result["details"]["unexpected_rows"]),
    )


def _exceptions(info: Mapping[str, Any] | None) -> Iterable[str]:
    """Messages of what was raised: GX nests them under metric ids when a metric raised, not when a check did."""
    for part in (info, *(info or {}).values()):
        if isinstance(part, dict) and part.get("raised_exception"):
            yield str(part.get("exception_message"))
