"""A gate: asks for the rows of its suites and runs its Checkpoint over them.

Light to import: Spark, Polars and Great Expectations come in when a gate runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from expectations.reports import SuiteReport, make_reports
from expectations.suite_files import named_columns, read_suite
from pipeline.model.window import TimeWindow
from pipeline.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from great_expectations.checkpoint import ValidationAction
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a task of Spark asks the tables for a suite; picklable."""

    sql: str  # DataFusion's, with `{name}` for a table
    windows: tuple[TimeWindow, ...]  # whose rows it is about
    tables: Mapping[str, Table]  # by the names in it
    is_few: bool = False  # its rows are few whatever the traffic; of others only those come that may break a check
    add: Callable[[pa.Table], pa.Table] | None = field(
        default=None, compare=False
    )  # columns that only the driver knows


Batches = Mapping[str, "Callable[[], pa.Table] | Asked"]
"""By suite, the rows it checks: at hand, or what a task asks for."""


def run_gate(
    spark: SparkSession | None,
    name: str,
    run: RunContext,
    batches: Batches,
    *,
    parameters: Mapping[str, Any] | None = None,
    actions: Sequence[ValidationAction] = (),
) -> tuple[SuiteReport, ...]:
    """Runs a gate's Checkpoint: its suites, then its actions, Data Docs, and those of the configuration.

    `spark`: None for a gate without queries.

    Raises:
        GateBrokenError: if a check raised: nothing is known about the data then.
        ConfigError: if an action of the configuration has no known type or other settings than that has.
    """
    from expectations.actions import WriteDataDocs  # takes three seconds
    from expectations.checkpoints import run_checkpoint

    rows = fetch_rows(spark, run, batches)
    docs = WriteDataDocs.of(run, rows)
    result = run_checkpoint(name, rows, parameters or {}, [docs, *actions], run.config.checkpoint_actions)
    return make_reports(result, rows)


def fetch_rows(spark: SparkSession | None, run: RunContext, batches: Batches) -> dict[str, pa.Table]:
    """The rows of each suite, in the columns that it names; tasks of one Spark job answer the queries."""
    from pipeline.engine import describe_work

    asked = [(suite, replace(one, add=None)) for suite, one in batches.items() if isinstance(one, Asked)]
    found = {suite: one() for suite, one in batches.items() if not isinstance(one, Asked)}
    if spark is not None and asked:
        from pipeline.engine import count_task_slots
        from pipeline.stages import run_values

        describe_work(f"{run.subject}: check tables")
        slots = min(len(asked), count_task_slots(spark))
        found |= dict(run_values(spark, [asked[slot::slots] for slot in range(slots)], partial(_answer, run)))
    for suite, one in batches.items():
        if isinstance(one, Asked) and one.add is not None:
            found[suite] = one.add(found[suite])
    return {suite: select_named(suite, found[suite]) for suite in batches}


def _answer(run: RunContext, asked: Sequence[tuple[str, Asked]]) -> Iterator[tuple[str, pa.Table]]:
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


def same_columns(joined: str, columns: str, to: str) -> str:
    """SQL for a join on columns of one name.

    >>> same_columns("sums", "window_start, topic", "health")
    'sums.window_start = health.window_start AND sums.topic = health.topic'
    """
    return " AND ".join(f"{joined}.{name} = {to}.{name}" for name in columns.split(", "))
