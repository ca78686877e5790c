"""A gate: asks for the rows of its suites and runs its Checkpoint. Great Expectations, which takes seconds, comes in when it runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from expectations.reports import SuiteReport, make_reports
from expectations.suite_files import SUITES, ask_for_suspects, named_columns, read_suite
from pipeline.engine import count_task_slots, describe_work
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.stages import run_values
from pipeline.storage.rows import compare_added, compare_contents
from pipeline.tables import TABLES, Table
from pipeline.tables.bronze import LOG_SEGMENTS
from pipeline.tables.incidents import ALERT_OUTBOX
from pipeline.tables.keys import KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, RECORD_BATCHES

if TYPE_CHECKING:
    from great_expectations.checkpoint import CheckpointResult, ValidationAction

_TABLE = re.compile(r"(?<=FROM |JOIN )(?:bronze|silver|gold)\.\w+")
_BY_NAME = {table.name: table for table in TABLES}
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a task of Spark asks the tables for a suite, by the suite's file of SQL or its table; picklable."""

    windows: Sequence[TimeWindow] = ()  # whose rows it is about
    values: Mapping[str, str] = field(default_factory=dict)  # for the braces of the SQL
    _: KW_ONLY
    # columns that only the driver knows
    add: Callable[[pa.Table], pa.Table] | None = field(default=None, compare=False)
    instead: Callable[[RunContext], pa.Table] | None = None  # what answers in place of SQL


Versions = Mapping[str, int]  # of the tables that a step wrote, by name
Batches = Mapping[str, "Callable[[], pa.Table] | Asked"]  # the rows that a suite checks


def run_gate(
    spark: SparkSession | None,
    name: str,
    run: RunContext,
    batches: Batches,
    *,
    versions: Versions = NOTHING,
    parameters: Mapping[str, Any] = NOTHING,
    actions: Sequence[ValidationAction] = (),
) -> tuple[SuiteReport, ...]:
    """Runs a gate's Checkpoint: suites, actions, Data Docs, the configuration's; `GateBrokenError` if a check raised."""
    load_statistics_later()
    from expectations.actions import WriteDataDocs, write_data_docs  # takes two seconds
    from expectations.checkpoints import run_checkpoint

    rows = fetch_rows(spark, run, {**batches, **ask_contents(name, versions)})
    reports: list[SuiteReport] = []

    def write(result: CheckpointResult) -> None:
        reports.extend(make_reports(result, rows))
        write_data_docs(run, reports)

    run_checkpoint(name, rows, parameters, [*actions, WriteDataDocs.by(write)], run.config.checkpoint_actions)
    return tuple(reports)


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


def load_statistics_later() -> None:
    """Spares half a CPU-second and 40 MiB of what Great Expectations imports for three of its checks."""
    scipy = import_module("scipy")
    if "scipy.stats" not in sys.modules:
        scipy.stats = _Later("scipy.stats")  # type: ignore[attr-defined]  # its package looks there first


def fetch_rows(spark: SparkSession | None, run: RunContext, batches: Batches) -> dict[str, pa.Table]:
    asked = [(suite, replace(one, add=None)) for suite, one in batches.items() if isinstance(one, Asked)]
    found = {suite: one() for suite, one in batches.items() if not isinstance(one, Asked)}
    if spark is not None and asked:
        describe_work(f"{run.subject}: check tables")
        slots = min(len(asked), count_task_slots(spark))
        found |= dict(run_values(spark, [asked[slot::slots] for slot in range(slots)], partial(_answer, run)))
    for suite, one in batches.items():
        if isinstance(one, Asked) and one.add is not None:
            found[suite] = one.add(found[suite])
    return {suite: select_named(suite, found[suite]) for suite in batches}


def _answer(run: RunContext, asked: Sequence[tuple[str, Asked]]) -> Iterator[tuple[str, pa.Table]]:
    for name, query in asked:
        if query.instead is not None:
            yield name, query.instead(run)
            continue
        suite = read_suite(name)
        sql = write_query(suite).format(**query.values)
        if suite["meta"].get("rows") != "few":  # of many only those come that may break a check
            sql = ask_for_suspects(sql, suite)
        tables = {name.replace(".", "_"): _BY_NAME[name] for name in _TABLE.findall(sql)}
        yield name, run.query(_TABLE.sub(lambda name: name[0].replace(".", "_"), sql), query.windows, **tables)


def write_query(suite: Mapping[str, Any]) -> str:
    """SQL for a suite's rows: that of its file; without one, the columns of its table that it names."""
    path = SUITES / f"{suite['name']}.sql"
    if path.exists():
        return path.read_text(encoding="utf-8")
    table = _BY_NAME[suite["meta"]["table"]]
    return f"SELECT {', '.join(named_columns(suite, table.column_names))} FROM {table.name}"


def ask_contents(gate: str, versions: Versions) -> Batches:
    """The suite of a gate that compares tables with what their commits note; nothing where the step wrote none."""
    # of the first four other tables repeat the sums, and reading them would cost as much as the gate; later runs change the others
    left_out = {RECORD_BATCHES, ARRIVALS, KEY_TRAFFIC, KEY_MATRICES, LOG_SEGMENTS, ALERT_OUTBOX}
    tables = [(table, versions[table.name]) for table in TABLES if table.name in versions and table not in left_out]
    return {f"{gate}_contents_gate": Asked(instead=partial(_compare_contents, tables))} if tables else {}


def _compare_contents(tables: Sequence[tuple[Table, int]], run: RunContext) -> pa.Table:
    """A row for each table of which a commit, from a version on, notes what it wrote of the cluster or what the run added."""
    names = ("window_start", "row_count", "digest", "noted_row_count", "noted_digest")
    kinds = (pa.timestamp("us", "UTC"), *(pa.int64(),) * 4)
    rows = []
    for table, since in tables:
        if table.write_mode == "merge":
            found = compare_added(run.warehouse, table, (run.cluster_name, run.run_id), run.windows, since)
        else:
            found = compare_contents(run.warehouse, table, run.cluster_name, since)
        rows += [{"table": table.name, **dict(zip(names, found, strict=True))}] if found else []
    return pa.Table.from_pylist(rows, pa.schema([("table", pa.string()), *zip(names, kinds, strict=True)]))


def select_named(suite: str, rows: pa.Table) -> pa.Table:
    named = rows.select(named_columns(read_suite(suite), rows.column_names))
    order = [name for name in ("window_start", "topic", "partition", "broker_id") if name in named.column_names]
    return named.sort_by([(name, "ascending") for name in order]) if order else named
