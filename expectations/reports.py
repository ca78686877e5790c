"""What a gate found: a report for each suite, with a result for each expectation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expectations.suite_files import read_suite
from pipeline.errors import DataGateError, GateBrokenError
from pipeline.model.number_text import format_name

if TYPE_CHECKING:
    import pyarrow as pa
    from great_expectations.checkpoint import CheckpointResult

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
        head = f"{self.name}: {self.description} Found {self.observed}."
        rows = [", ".join(f"{name} {format_name(str(one), 1_000)}" for name, one in row.items()) for row in self.rows]
        return "\n    ".join([head, *rows[:SHOWN_ROWS]])


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteReport:
    """Result of a suite: one result per expectation, in the suite's order. `result`: Great Expectations' own."""

    suite: str
    checks: tuple[CheckResult, ...] = ()
    result: Any = field(default=None, repr=False, compare=False)

    @property
    def success(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        return tuple(check for check in self.checks if not check.success and check.severity == "critical")

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        return tuple(check for check in self.checks if not check.success and check.severity != "critical")


def raise_for_data_gate(reports: Iterable[SuiteReport]) -> None:
    """`DataGateError` names every failed critical check of all suites with its first rows: a table is not to be trusted."""
    failed = []
    for one in (report for report in reports if not report.success):
        failed.append(f"{one.suite}: {len(one.failures)} of {len(one.checks)} checks failed")
        failed += [f"  {check.describe()}" for check in one.failures]
    if failed:
        raise DataGateError("\n".join(failed))


def make_reports(result: CheckpointResult, rows: Mapping[str, pa.Table]) -> tuple[SuiteReport, ...]:
    reports = []
    for validated in result.run_results.values():
        suite: str = validated.suite_name
        by_name = {one.expectation_config.meta["check"]: one for one in validated.results}
        entries = read_suite(suite)["expectations"]
        checks = (_check_result(suite, entry, by_name[entry["meta"]["check"]], rows[suite]) for entry in entries)
        reports.append(SuiteReport(suite=suite, checks=tuple(checks), result=validated))
    return tuple(reports)


def _check_result(suite: str, entry: Mapping[str, Any], result: Any, rows: pa.Table) -> CheckResult:  # noqa: ANN401
    from expectations.checkpoints import list_unexpected

    name, info = entry["meta"]["check"], result.exception_info or {}
    for part in (info, *info.values()):  # nested under metric ids when a metric raised, not when a check did
        if isinstance(part, dict) and part.get("raised_exception"):
            raise GateBrokenError(f"{suite}: {name} could not be evaluated: {part.get('exception_message')}")
    given, shown = result.result, read_suite(suite)["meta"].get("shown", rows.column_names)
    columns = [column for column in entry["kwargs"].get("shown", shown) if column in rows.column_names]
    return CheckResult(
        name=name,
        severity=entry["severity"],
        description=entry["description"],
        success=result.success,
        observed=given.get("unexpected_count", given.get("observed_value")),
        rows=tuple(list_unexpected(result, rows, columns)),
    )
