"""A run over one cluster: its windows, its clock, and its rows in the tables; and what a job reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from pipeline.config.storage import Folder
from pipeline.engine import describe_work
from pipeline.errors import ConfigError
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, Windows, format_instant, milliseconds_of, spanning
from pipeline.stages import then
from pipeline.storage.data_files import insert_missing, replace_in_tables, replace_windows
from pipeline.storage.files import Scope, write_tables
from pipeline.storage.frames import arrow_schema, fit_frame, fit_rows, rows_of
from pipeline.storage.predicates import format_datafusion_predicate
from pipeline.storage.rows import load_rows, query_rows, replace_rows
from pipeline.storage.window_status import lost_windows, trusted_windows
from pipeline.tables import Table
from pipeline.tables.bronze import CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, RECORD_BATCHES
from pipeline.tables.values import find_column, row_of, tuples_of, values_of
from pipeline.verdicts.sources import SkippedWindow, SourceStatus, find_skipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.config.pipeline_config import Cluster, PipelineConfig

Row = dict[str, Any]
_Value = TypeVar("_Value")
TableRows = Iterable[tuple[str, Any]]  # a table's name, and rows as `RunContext.replace` takes them
CATCH_UP_MS = 31 * DAY_MS  # no table's retention is shorter
"""How far back a job takes up windows that nobody named: what a run reads does not grow with the years."""
MOST_TURNS = 12  # hours of such windows that a job takes up in one run, which has to end within its time limit


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    config: PipelineConfig  # the whole configuration
    cluster_name: str  # which cluster of it
    windows: tuple[TimeWindow, ...]  # windows the run is about, ascending
    run_id: str  # identity of the run, written into every row
    now_ms: int  # the clock
    force: bool = False  # replace stored windows even where the source now covers less
    # whether to send messages about incidents; None sends those of recent windows (`mail.tell_within`)
    notify: bool | None = None

    @property
    def cluster(self) -> Cluster:
        return self.config.clusters[self.cluster_name]

    @property
    def warehouse(self) -> Folder:
        return self.config.warehouse

    @property
    def window_ms(self) -> int:
        return milliseconds_of(self.config.window)

    @property
    def span(self) -> TimeWindow:
        return spanning(self.windows)

    @property
    def subject(self) -> str:
        return f"{self.cluster_name} {self.span}"

    @property
    def as_of_ms(self) -> int:
        """The run's now: the configured end of a recording, else the clock."""
        return self.now_ms if self.cluster.as_of is None else milliseconds_of(self.cluster.as_of)

    def window_at(self, start_ms: int) -> TimeWindow:
        return TimeWindow(start_ms, start_ms + self.window_ms)

    def pending_windows(self, *written: Table) -> tuple[TimeWindow, ...]:
        """Trusted windows of this run, and earlier ones up to `CATCH_UP_MS` before it, that none of the job's tables holds yet."""
        reach = (TimeWindow(max(0, self.span.start_ms - CATCH_UP_MS), self.span.end_ms),)
        done_ms = self.starts_in(written, reach)
        trusted, wanted = trusted_windows(self.warehouse, self.cluster_name, reach), set(self.windows)
        return tuple(sorted(w for w in trusted if w in wanted or w.start_ms not in done_ms))

    def in_turns(self, windows: Windows) -> Iterator[tuple[TimeWindow, ...]]:
        """The run's own windows first, then others, newest first: twelve turns of an hour, each of which a job commits."""
        wanted, at_once = set(self.windows), max(1, HOUR_MS // self.window_ms)
        own, others = (sorted(w for w in windows if (w in wanted) is is_own) for is_own in (True, False))
        if own:
            yield tuple(own)
        for end in range(len(others), max(0, len(others) - MOST_TURNS * at_once), -at_once):
            yield tuple(others[max(0, end - at_once) : end])

    def starts_in(self, tables: Iterable[Table], windows: Windows) -> set[int]:
        """Starts of the windows of which one of the tables has rows, milliseconds."""
        found = (self.query("SELECT DISTINCT window_start FROM held", windows, held=table) for table in tables)
        return {start_ms for starts in found for (start_ms,) in tuples_of(starts, "window_start_ms")}

    def starts_to_replay(self, windows: Windows) -> set[int]:
        """Starts of the windows that a replay makes rows of: it has those of all topics, or of what is stored of keys alone."""
        return self.starts_in((CLUSTER_STATE,) if self.config.replay.arrivals else (KEY_TRAFFIC, ARRIVALS), windows)

    def split_by_rows(self, windows: Windows) -> tuple[tuple[TimeWindow, ...], str]:
        """The windows whose rows are kept, and a sentence about the others: their batches were counted, and dropped since."""
        if not windows:
            return (), ""
        counted = "SELECT DISTINCT window_start FROM traffic WHERE batch_count > 0 AND count_kind IS DISTINCT FROM 'upper_bound'"
        sql = f"{counted} EXCEPT SELECT DISTINCT window_start FROM batches"  # noqa: S608 - our own words
        starts = self.query(sql, windows, traffic=PARTITION_TRAFFIC, batches=RECORD_BATCHES)
        dropped = {start_ms for (start_ms,) in tuples_of(starts, "window_start_ms")}
        if not dropped:
            return tuple(windows), ""
        text = (
            f"{len(dropped)} window{'' if len(dropped) == 1 else 's'} up to {format_instant(max(dropped))}: record batches are no longer kept"
            " (sums_only, retention), so replay and shares stay as they are; ingest again what the logs still hold"
        )
        return tuple(window for window in windows if window.start_ms not in dropped), text

    def over_lost_windows(self, most_count: int) -> tuple[RunContext, ...]:
        """The same run over windows before its own, at most so many, that are not trusted; one per hour without a gap."""
        at_once = max(1, HOUR_MS // self.window_ms)
        return tuple(
            replace(self, windows=windows[first : first + at_once])
            for windows in lost_windows(self.warehouse, self.cluster_name, self.windows[0], most_count)
            for first in range(0, len(windows), at_once)
        )

    def list_given_up(self, taken: Iterable[RunContext], most_count: int) -> list[TimeWindow]:
        """Windows that runs took up in vain, and that no later run takes up."""
        later = replace(self, windows=(self.window_at(self.span.end_ms),)).over_lost_windows(most_count)
        again = {window for run in later for window in run.windows}
        gone = [window for run in taken for window in run.windows if window not in again]
        trusted = trusted_windows(self.warehouse, self.cluster_name, gone) if gone else ()
        return [window for window in gone if window not in trusted]

    def load(
        self, table: Table, windows: Windows | None = None, columns: Sequence[str] = (), *, where: str = ""
    ) -> pa.Table:
        """The cluster's rows of a table; of all windows by default, with all columns; `where` is further SQL."""
        if windows is not None and not windows:
            return arrow_schema(table).empty_table()
        return load_rows(
            self.warehouse, table, cluster=self.cluster_name, windows=windows or (), columns=columns, where=where
        )

    def rows(self, table: Table, windows: Windows | None = None, columns: Sequence[str] = ()) -> list[Row]:
        """The same as dictionaries."""
        loaded: list[Row] = self.load(table, windows, columns).to_pylist()
        return loaded

    def values(
        self, kind: type[_Value], table: Table, windows: Windows | None = None, *, where: str = ""
    ) -> list[_Value]:
        """The same as values of a dataclass, see `values_of`."""
        return values_of(kind, self.load(table, windows, where=where))

    def skipped_windows(self, windows: Windows) -> dict[int, SkippedWindow]:
        """Windows of these whose records are not all there, or too old to be judged, by start."""
        statuses = self.values(SourceStatus, WINDOW_STATUS, windows)
        return find_skipped(statuses, max_age_ms=milliseconds_of(self.cluster.freshness))

    def tuples(self, table: Table, windows: Windows | None, *names: str, where: str = "") -> Iterator[tuple[Any, ...]]:
        """Some columns of the same, row by row, see `tuples_of`."""
        columns = [find_column(name, table.column_names) for name in names]
        return tuples_of(self.load(table, windows, columns, where=where), *names)

    def query(self, sql: str, windows: Windows, **tables: Table) -> pa.Table:
        """Answers DataFusion's SQL over the cluster's rows of some windows; keywords name the tables in it."""
        stored = {f"stored_{name}": table for name, table in tables.items()}
        cut = {
            name: format_datafusion_predicate(table, self.cluster_name, windows) if windows else "false"
            for name, table in tables.items()
        }
        views = ", ".join(f"{name} AS (SELECT * FROM stored_{name} WHERE {where})" for name, where in cut.items())  # noqa: S608
        return query_rows(self.warehouse, f"WITH {views} {sql}", stored)

    def fit(self, table: Table, frame: DataFrame) -> DataFrame:
        """A DataFrame in a table's declared columns; `cluster`, `window_date` and `run_id` are filled in."""
        return fit_frame(frame, table, cluster=self.cluster_name, run_id=self.run_id)

    def replace_frame(self, spark: SparkSession, table: Table, frame: DataFrame, windows: Windows) -> dict[str, int]:
        """As `replace`, by a DataFrame: for tables that grow with the traffic."""
        describe_work(f"{self.subject}: {table.name}")
        scope, rows = Scope.of(self.cluster_name, windows), self.fit(table, frame)
        return {table.name: replace_windows(spark, rows, self.warehouse, table, scope)}

    def to_files(
        self, work: Callable[[Any], TableRows], tables: Sequence[Table], windows: Windows
    ) -> Callable[[Any], Iterable[pa.Table]]:
        """A kernel that writes what another one yields to data files of tables; it gives rows of `WRITTEN`, see `replace_by_files`."""
        return partial(then, work, partial(self._write_files, {table.name: table for table in tables}, windows))

    def replace_by_files(
        self, doing: str, answers: DataFrame, tables: Sequence[Table], windows: Windows
    ) -> dict[str, int]:
        """As `replace`, of several tables, by what tasks write with `to_files`; returns versions by table."""
        describe_work(f"{self.subject}: {doing} ({', '.join(table.name for table in tables)})")
        scope = Scope.of(self.cluster_name, windows)
        return replace_in_tables(answers.sparkSession, answers, self.warehouse, tables, scope)

    def _write_files(self, tables: Mapping[str, Table], windows: Windows, by_table: TableRows) -> Iterator[pa.Table]:
        rows = ((name, self.table_of(tables[name], part)) for name, part in by_table)
        return write_tables(self.warehouse, tables, Scope.of(self.cluster_name, windows), rows)

    def insert_missing(self, spark: SparkSession, table: Table, frame: DataFrame, windows: Windows) -> dict[str, int]:
        """Adds the rows of some windows' dates whose key is not stored yet; returns the version by table."""
        describe_work(f"{self.subject}: {table.name}")
        scope, rows = Scope.of(self.cluster_name, windows), self.fit(table, frame)
        return {table.name: insert_missing(spark, rows, self.warehouse, table, scope, run_id=self.run_id)}

    def replace(self, table: Table, rows: Iterable[Any] | pa.Table, windows: Windows) -> dict[str, int]:
        """Replaces windows' rows in one commit; the version by table; `TableMismatchError` or `StorageConflictError`."""
        new = self.table_of(table, rows)
        return {table.name: replace_rows(new, self.warehouse, table, cluster=self.cluster_name, windows=windows)}

    def table_of(self, table: Table, rows: Iterable[Any] | pa.Table) -> pa.Table:
        """Rows as `replace` takes them, in the declared columns."""
        if isinstance(rows, pa.Table):
            return fit_rows(rows, table, cluster=self.cluster_name, run_id=self.run_id)
        named = ({"cluster": self.cluster_name, **row_of(row, table)} for row in rows)
        return rows_of(table, named, run_id=self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    table_versions: Mapping[str, int] = field(default_factory=dict)  # Delta version of each table after the job
    notes: tuple[str, ...] = ()  # things a person should know, in sentences


def plan_runs(
    config: PipelineConfig,
    span: TimeWindow,
    *,
    run_id: str,
    now_ms: int,
    cluster: str | None = None,
    force: bool = False,
    notify: bool | None = None,
) -> tuple[RunContext, ...]:
    """One context per cluster, or the one named, over the windows of the span; the first window's number says who begins."""
    if cluster is not None and cluster not in config.clusters:
        raise ConfigError(f"no cluster {cluster!r} in the configuration; there are: {', '.join(config.clusters)}")
    names = tuple(config.clusters) if cluster is None else (cluster,)
    windows = tuple(span.split(milliseconds_of(config.window)))
    first = windows[0].start_ms // milliseconds_of(config.window) % len(names)
    return tuple(
        RunContext(
            config=config, cluster_name=name, windows=windows, run_id=run_id, now_ms=now_ms, force=force, notify=notify
        )
        for name in (*names[first:], *names[:first])
    )
