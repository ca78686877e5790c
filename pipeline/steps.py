"""The steps of a run, in order: the command `run` takes all of them, each DAG takes one."""

import logging
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from expectations.gates import check_health, check_ingested, check_measured, check_replayed
from expectations.reports import SuiteReport
from pipeline.environment import return_memory
from pipeline.errors import PipelineError, RowsNotKeptError, StorageConflictError, SystemFailedError, UnexpectedError
from pipeline.jobs import (
    forecast,
    ingest,
    judge_health,
    keep_sums,
    measure_rules,
    raise_incidents,
    recommend,
    replay,
    score_health,
)
from pipeline.jobs.replay import WindowReplay
from pipeline.model.number_text import escape_hidden, format_name, format_slug, format_span
from pipeline.model.verdict import Verdicts
from pipeline.model.window import HOUR_MS, TimeWindow, spanning
from pipeline.progress import Begin, Progress, ignore_phase
from pipeline.report.metrics import publish_metrics
from pipeline.report.page import list_missing, write_reports
from pipeline.runs import JobReport, RunContext
from pipeline.stages import count_tasks
from pipeline.storage.engines import running_engine
from pipeline.storage.locks import holding
from pipeline.storage.session import SparkErrors
from pipeline.storage.tables_on_disk import count_added_rows, ensure_tables
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.verdicts.rules import describe_verdicts, find_unjudged, has_share

_log = logging.getLogger(__name__)
_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """Result of a step for one cluster: tables written, a line per note and failed warning, the health gate's verdict."""

    versions: Mapping[str, int] = field(default_factory=dict)
    added_rows: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_healthy: bool = True
    is_known: bool = True  # the newest window was judged, not only looked at
    verdict: str = ""

    @property
    def written(self) -> tuple[str, ...]:
        """A line per table written."""
        return tuple(f"{name} at version {version}" for name, version in self.versions.items())


Step = Callable[[SparkSession, RunContext, Begin], StepReport]  # says which of its `PHASES` begins


@contextmanager
def _holding_cluster(run: RunContext, doing: str) -> Iterator[None]:
    """One process at a time does this to a cluster; others wait an hour, or a longer window, and then fail."""
    wait_ms = max(run.window_ms, HOUR_MS)
    with holding(run.config.local_folder, f"{doing}-{format_slug(run.cluster_name)}", wait_s=wait_ms / 1000) as is_ours:
        if not is_ours:
            waited = f"another process has been {doing} it for {format_span(wait_ms)}"
            hint = "end that one if it hangs; the next run takes these windows up"
            raise StorageConflictError(f"cluster {run.cluster_name}: {waited}: {hint}")
        yield


def ingest_windows(spark: SparkSession, run: RunContext, begin: Begin = ignore_phase) -> StepReport:
    """Reads the sources into bronze and silver; the data gates decide whether the windows are trusted."""
    with _holding_cluster(run, "ingesting"):
        report = ingest.run(spark, run, begin)
        begin("gate")
        return _report(run, (report,), check_ingested(spark, run, report.table_versions))


def replay_windows(spark: SparkSession, run: RunContext, begin: Begin = ignore_phase) -> StepReport:
    """Replays trusted windows through every candidate; the run's own first, each turn with a commit of its own."""
    windows, unkept = run.split_by_rows(replay.pending_windows(run))
    if unkept and not windows:
        raise RowsNotKeptError(f"cluster {run.cluster_name}: {unkept}")
    reports, checked = [JobReport(notes=(unkept,) if unkept else ())], list[SuiteReport]()
    for turn in [*run.in_turns(windows)] or [()]:
        try:
            report = replay.run(spark, run, turn, begin)
            begin("gate")
            checked += check_replayed(spark, run, turn, report.table_versions)
        except Exception as error:  # what is wrong with earlier windows stops no later ones
            if not turn or {*turn} & {*run.windows}:
                raise
            report = JobReport(notes=(f"earlier windows {spanning(turn)} could not be replayed: {error}",))
            _log.exception("cluster %s, windows %s", run.cluster_name, spanning(turn))
        reports.append(report)
    return _report(run, reversed(reports), checked)  # of each table the commit of the run's own windows is told


def judge_windows(spark: SparkSession, run: RunContext, begin: Begin = ignore_phase) -> StepReport:
    """Measures, judges, queues messages."""
    with _holding_cluster(run, "judging"):
        ensure_tables(run.warehouse, (WINDOW_STATUS,))  # an older one lacks columns
        inputs = score_health.digest_inputs(run, score_health.pending_windows(run))
        own = {window: digest for window, digest in inputs.items() if window in run.windows}
        try:
            return _judge_windows(spark, run, inputs, begin)
        except Exception as error:  # what is wrong with earlier windows stops no later ones
            if not own or len(own) == len(inputs):
                raise
            _log.exception("cluster %s: its own windows are judged without earlier ones", run.cluster_name)
            report = _judge_windows(spark, run, own, begin)
            earlier = tuple(window for window in inputs if window not in own)
            note = f"earlier windows {spanning(earlier)} could not be judged: {error}"
            return replace(report, notes=(note, *report.notes))


def _judge_windows(spark: SparkSession, run: RunContext, inputs: Mapping[TimeWindow, str], begin: Begin) -> StepReport:
    windows = tuple(inputs)
    if not windows:
        return StepReport(verdict=f"cluster {run.cluster_name}: no trusted window to judge")
    if score_health.judged_windows(run, inputs) == {*windows}:
        return _repeat_verdict(spark, run, windows, begin)
    begin("measures")
    reports = [score_health.run(spark, run, windows), forecast.run(run, windows), measure_rules.run(run, windows)]
    begin("advice")
    reports.append(recommend.run(run, windows, lambda window: WindowReplay(spark, run, window).replay))
    begin("verdicts")
    verdicts = judge_health.run(run, windows)
    health = check_health(run, verdicts, lambda: reports.append(raise_incidents.run(run, verdicts, inputs)))
    begin("report")
    reports.append(JobReport(notes=(*write_reports(run, windows), *publish_metrics(run))))
    begin("gate")  # last: measures that do not add up silence no incident
    written = {name: version for report in reports for name, version in report.table_versions.items()}
    checked = check_measured(spark, run, windows, verdicts, written)
    held = score_health.digest_inputs(run, keep_sums.held_windows(run))
    reports.append(keep_sums.run(run, score_health.judged_windows(run, held)))
    return _add_health(_report(run, reports, checked), run, verdicts, health)


def _repeat_verdict(spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...], begin: Begin) -> StepReport:
    """The verdict on windows that another run judged from the same inputs; writes no table."""
    text = f"windows {spanning(windows)} are judged already, and nothing that they were judged from has changed since"
    _log.info("cluster %s: %s", run.cluster_name, text)
    begin("verdicts")
    verdicts = judge_health.run(run, windows)
    health = check_health(run, verdicts)
    written = run.config.report_path(run.cluster_name, windows[-1].start_ms).exists() and not list_missing(run)
    begin("report")
    reports = [JobReport(notes=(text, *(() if written else write_reports(run, windows))))]
    begin("gate")
    checked = check_measured(spark, run, windows, verdicts)
    return _add_health(_report(run, reports, checked), run, verdicts, health)


STEPS: tuple[Step, ...] = (ingest_windows, replay_windows, judge_windows)


def _report(run: RunContext, reports: Iterable[JobReport], checked: Iterable[SuiteReport]) -> StepReport:
    done = tuple(reports)
    versions = {name: version for job in done for name, version in job.table_versions.items()}
    return StepReport(
        versions=versions,
        added_rows=count_added_rows(run.warehouse, versions),
        notes=tuple(note for job in done for note in job.notes),
        warnings=tuple(check.describe() for gate in checked for check in gate.warnings),
    )


def _add_health(report: StepReport, run: RunContext, verdicts: Verdicts, health: SuiteReport) -> StepReport:
    is_known = (not verdicts or has_share(verdicts)) and find_unjudged(verdicts) is None
    cluster, gate = run.cluster_name, run.cluster.gate
    verdict = describe_verdicts(verdicts, cluster=cluster, gate=gate, window_ms=run.window_ms)
    return replace(report, is_healthy=health.success, is_known=is_known, verdict=verdict)


def take_steps(
    runs: tuple[RunContext, ...],
    steps: tuple[Step, ...],
    on_error: Callable[[RunContext, Step, PipelineError], None],
    *,
    begin: Callable[[RunContext, str], None] = lambda run, phase: None,
    progress: Progress | None = None,
    session: SparkSession | None = None,
) -> tuple[dict[str, list[StepReport]], list[PipelineError]]:
    """Takes steps for one cluster after the other, in one session; no cluster stops another. Reports of those at their end, and errors."""
    done: dict[str, list[StepReport]] = {}
    errors: list[PipelineError] = []
    if replay_windows in steps:
        replay.check(runs[0].config)
    progress = progress or Progress()
    own = nullcontext(session) if session else running_engine(runs[0].config.spark, app_name=runs[0].run_id)
    with own as spark:
        for run in runs:
            reports = []
            for step in steps:
                try:
                    doing = f"cluster {run.cluster_name}: {step.__name__.replace('_', ' ')}"
                    with progress.step(doing, count_tasks), SparkErrors():
                        reports.append(step(spark, run, partial(begin, run)))
                    return_memory()
                except Exception as caught:  # noqa: BLE001 - no cluster stops the others
                    error = caught if isinstance(caught, PipelineError) else _describe_fault(caught, doing)
                    on_error(run, step, error)
                    errors.append(error)
                    if step is not replay_windows:
                        break
            else:
                done[run.cluster_name] = reports
    return done, errors


def _describe_fault(caught: Exception, doing: str) -> PipelineError:
    """The error of a step that ended by an exception which is no `PipelineError`; its stack goes to the log."""
    what = f"{type(caught).__name__}: {format_name(str(caught), _SHOWN)}"
    fault = UnexpectedError(f"{doing}: a fault of this program, {what}; please report it")
    if isinstance(caught, OSError | MemoryError):
        fault = SystemFailedError(f"{doing}: the machine or its network failed, {what}; run again")
    fault.__cause__ = caught
    _log.error("%s", escape_hidden("".join(traceback.format_exception(caught)), keep="\n"))
    return fault
