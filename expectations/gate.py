"""The gate: runs a suite over a frame and says what was found.

Light to import (no Spark, no Great Expectations), so that DAG files may name it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.errors import DataGateError, GateBrokenError
from pipeline.model.verdict import Verdict
from pipeline.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame

SHOWN_ROWS = 5
"""Rows per failed check in an error's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one expectation found.

    Attributes:
        name: The check's name in the suite (`meta.check`).
        severity: `critical` or `warning`.
        description: What it expects, in a sentence.
        success: Whether it held.
        observed: Number of breaking rows; for the broker share the largest failing ratio, None without one.
        rows: The first breaking rows.
        verdicts: Every verdict it came to, for checks that judge.
    """

    name: str
    severity: str
    description: str
    success: bool
    observed: float | None
    rows: tuple[Mapping[str, Any], ...] = ()
    verdicts: tuple[Verdict, ...] = ()

    def describe(self) -> str:
        """The failure in text: description, what was observed, the first rows."""
        lines = [f"{self.name}: {self.description} Found {self.observed}."]
        rows = ("    " + ", ".join(f"{name} {value}" for name, value in row.items()) for row in self.rows[:SHOWN_ROWS])
        return "\n".join([*lines, *rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """What a suite found, in the suite's order.

    Attributes:
        suite: Its name.
        checks: One result per expectation.
    """

    suite: str
    checks: tuple[CheckResult, ...] = field(default=())

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

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every verdict of its checks."""
        return tuple(verdict for check in self.checks for verdict in check.verdicts)

    def describe_failures(self) -> str:
        """Every failed critical check with its first rows."""
        found = "\n".join(f"  {check.describe()}" for check in self.failures)
        return f"{self.suite}: {len(self.failures)} of {len(self.checks)} checks failed\n{found}"


def raise_for_data_gate(reports: Iterable[GateReport]) -> None:
    """Stops the run where a table is not to be trusted.

    Args:
        reports: Of all suites, so that each had its turn.

    Raises:
        DataGateError: naming every failed critical check with its first rows.
    """
    failed = [report.describe_failures() for report in reports if not report.success]
    if failed:
        raise DataGateError("\n".join(failed))


def run_suite(suite_name: str, frame: DataFrame, parameters: Mapping[str, Any] | None = None) -> GateReport:
    """Runs a suite of `expectations/suites` over a frame.

    A suite about a declared table (`meta.table`) finds that table's key in the parameter `key` without being told.

    Args:
        suite_name: File name without `.json`.
        frame: Rows of the table, already cut to what is to be judged. Read once, and once more for each failed check.
        parameters: Values for the suite's `$PARAMETER`s.

    Raises:
        GateBrokenError: if a check raised: nothing is known about the data then.
    """
    from expectations import engine  # takes six seconds

    document = engine.read_suite(suite_name)
    table = document["meta"].get("table")
    keys = [list(declared.key) for declared in TABLES if declared.name == table]
    known = {"key": keys[0]} if keys else {}
    results = engine.validate(suite_name, frame, {**known, **(parameters or {})})
    by_name = {result.expectation_config.meta["check"]: result for result in results}
    return GateReport(
        suite=suite_name,
        checks=tuple(
            _check_result(suite_name, entry, by_name[entry["meta"]["check"]]) for entry in document["expectations"]
        ),
    )


def _check_result(suite_name: str, entry: Mapping[str, Any], result: Any) -> CheckResult:  # noqa: ANN401
    name = entry["meta"]["check"]
    raised = list(_exceptions(result.exception_info))
    if raised:
        raise GateBrokenError(f"{suite_name}: {name} could not be evaluated: {raised[0]}")
    details = result.result.get("details", {})
    return CheckResult(
        name=name,
        severity=entry["severity"],
        description=entry["description"],
        success=result.success,
        observed=result.result["observed_value"],
        rows=tuple(details.get("unexpected_rows", ())),
        verdicts=tuple(Verdict(**verdict) for verdict in details.get("verdicts", ())),
    )


def _exceptions(info: Mapping[str, Any] | None) -> Iterable[str]:
    """Messages of what was raised: GX nests them under metric ids when a metric raised, not when a check did."""
    for part in (info, *(info or {}).values()):
        if isinstance(part, dict) and part.get("raised_exception"):
            yield str(part.get("exception_message"))
