"""A gate: runs its Checkpoint over the rows of its suites and reports what was found.

Light to import: Spark, Polars and Great Expectations come in when a gate runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from expectations.suite_files import named_columns, read_suite
from pipeline.errors import DataGateError, GateBrokenError
from pipeline.model.window import TimeWindow
from pipeline.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from great_expectations.checkpoint import CheckpointResult, ValidationAction
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

SHOWN_ROWS = 5  # rows per failed check in an error's text


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a task of Spark asks the tables for a suite; picklable."""

    sql: str  # DataFusion's, with `{name}` for a table
    windows: tuple[TimeWindow, ...]  # whose rows it is about
    tables: Mapping[str, Table]  # by the names in it
    is_few: bool = False  # its rows are few whatever the traffic; of others only those come that may break a check
    add: Callable[[pa.Table], pa.Table] | None = field(
        default=None, compare=False
    )  # columns that only the driver knows


Batches = Mapping[str, "Callable[[], pa.Table] | Query"]
"""By suite, the rows it checks: at hand, or what a task asks for."""


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

    `result`: Great Expectations' own.
    """

    suite: str
    checks: tuple[CheckResult, ...] = ()
    result: Any = field(default=None, repr=False, compare=False)

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


def run_gate(
    spark: SparkSession | None,
    name: str,
    run: RunContext,
    batches: Batches,
    *,
    parameters: Mapping[str, Any] | None = None,
    actions: Sequence[ValidationAction] = (),
) -> tuple[GateReport, ...]:
    """Runs a gate's Checkpoint: its suites, then its actions, Data Docs, and those of the configuration.

    `spark`: None for a gate without queries.

    Raises:
        GateBrokenError: if a check raised: nothing is known about the data then.
        ConfigError: if an action of the configuration is none of Great Expectations'.
    """
    from expectations.actions import WriteDataDocs  # takes three seconds
    from expectations.checkpoints import run_checkpoint

    rows = fetch_rows(spark, run, batches)
    docs = WriteDataDocs.of(run, rows)
    result = run_checkpoint(name, rows, parameters or {}, [docs, *actions, *run.config.checkpoint_actions])
    return list_reports(result, rows)


def fetch_rows(spark: SparkSession | None, run: RunContext, batches: Batches) -> dict[str, pa.Table]:
    """The rows of each suite, in the columns that it names; tasks of one Spark job answer the queries."""
    from pipeline.engine import describe_work

    asked = [(suite, replace(one, add=None)) for suite, one in batches.items() if isinstance(one, Query)]
    found = {suite: one() for suite, one in batches.items() if not isinstance(one, Query)}
    if spark is not None and asked:
        from pipeline.engine import count_task_slots
        from pipeline.stages import run_values

        describe_work(f"{run.subject}: check tables")
        slots = min(len(asked), count_task_slots(spark))
        found |= dict(run_values(spark, [asked[slot::slots] for slot in range(slots)], partial(_answer, run)))
    for suite, one in batches.items():
        if isinstance(one, Query) and one.add is not None:
            found[suite] = one.add(found[suite])
    return {suite: select_named(suite, found[suite]) for suite in batches}


def _answer(run: RunContext, asked: Sequence[tuple[str, Query]]) -> Iterator[tuple[str, pa.Table]]:
    """Work of a task: the rows of some suites."""
    from expectations.suspects import ask_for_suspects

    for suite, query in asked:
        sql = query.sql if query.is_few else ask_for_suspects(query.sql, read_suite(suite))
        names = {name: name for name in query.tables}
        yield suite, run.query(sql.format_map(names), query.windows, **query.tables)


def select_named(suite: str, rows: pa.Table) -> pa.Table:
    """Rows in the columns that a suite names, in order of the first of these."""
    document = read_suite(suite)
    named = rows.select(named_columns(document, rows.column_names))
    order = [name for name in ("window_start", "topic", "partition", "broker_id") if name in named.column_names]
    return named.sort_by([(name, "ascending") for name in order]) if order else named


def list_reports(result: CheckpointResult, rows: Mapping[str, pa.Table]) -> tuple[GateReport, ...]:
    """A report for each suite of a Checkpoint.

    Raises:
        GateBrokenError: if a check raised.
    """
    return tuple(
        _make_report(validated.suite_name, validated, rows[validated.suite_name])
        for validated in result.run_results.values()
    )


def _make_report(suite: str, validated: Any, rows: pa.Table) -> GateReport:  # noqa: ANN401
    by_name = {one.expectation_config.meta["check"]: one for one in validated.results}
    entries = read_suite(suite)["expectations"]
    checks = tuple(_check_result(suite, entry, by_name[entry["meta"]["check"]], rows) for entry in entries)
    return GateReport(suite=suite, checks=checks, result=validated)


def _check_result(suite: str, entry: Mapping[str, Any], result: Any, rows: pa.Table) -> CheckResult:  # noqa: ANN401
    from expectations.checkpoints import list_unexpected

    name = entry["meta"]["check"]
    raised = list(_exceptions(result.exception_info))
    if raised:
        raise GateBrokenError(f"{suite}: {name} could not be evaluated: {raised[0]}")
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


def _exceptions(info: Mapping[str, Any] | None) -> Iterable[str]:
    """Messages of what was raised: GX nests them under metric ids when a metric raised, not when a check did."""
    for part in (info, *(info or {}).values()):
        if isinstance(part, dict) and part.get("raised_exception"):
            yield str(part.get("exception_message"))


def same_columns(joined: str, columns: str, to: str) -> str:
    """SQL for a join on columns of one name.

    >>> same_columns("sums", "window_start, topic", "health")
    'sums.window_start = health.window_start AND sums.topic = health.topic'
    """
    return " AND ".join(f"{joined}.{name} = {to}.{name}" for name in columns.split(", "))
