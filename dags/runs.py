"""From Airflow's run to ours: windows, clusters and clock of a task, and the step it takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.lineage import get_hook_lineage_collector

from dags.notifiers import mail_failed_clusters, mail_given_up
from dags.report_link import ReportLink
from dags.secrets import lend_secrets
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config_file import load_usable
from pipeline.errors import ConfigError, PipelineError
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import TimeWindow, milliseconds_of, parse_instant
from pipeline.progress import PHASES, Begin, ignore_phase
from pipeline.runs import RunContext, plan_runs

if TYPE_CHECKING:
    from pipeline.steps import Step, StepReport


_TAKEN_UP_MS = milliseconds_of(timedelta(days=1))
_log = logging.getLogger(__name__)
HANDED_OVER = "handed_over"
"""Key under which every task leaves what became of its cluster: the phase of its step that it is at, then its part of the event or
what went wrong. One key for all: to ask for what nobody left is an error line in Airflow's log."""
UNKNOWN_FAILURE = "an unexpected error, a time limit, or killed: see its log"


def requested_span(config: PipelineConfig, partition_key: str | None, params: Mapping[str, Any]) -> TimeWindow:
    """The partition's window; without a partition key the range in the parameter `window`. `ConfigError` without either."""
    if partition_key:
        start_ms = milliseconds_of(parse_instant(partition_key))
        return TimeWindow(start_ms, start_ms + milliseconds_of(config.window))
    if params.get("window"):
        return TimeWindow.parse(params["window"])
    raise ConfigError(
        "this run has neither a partition key nor the parameter `window`: "
        'trigger it with {"window": "2026-11-21T09:00:00Z/PT6H"}'
    )


def take_step(name: str, turn: int, dag_run: Any, ti: Any, params: Mapping[str, Any]) -> StepReport:
    """Takes a step for the cluster whose turn it is, keeps what `hand_over_clusters` passes on; raises the cluster's `PipelineError`."""
    run, at = _find_run(turn, dag_run, ti, params), PHASES[name][0]

    def begin(phase: str) -> None:
        nonlocal at
        at = phase
        leave(ti, run.cluster_name, phase=phase)

    try:
        begin(at)
        report = _take_step(name, run, ti, begin)
        notes, warnings, (verdict,) = (  # Postgres takes no NUL in JSON, and names may hold one
            tuple(escape_hidden(line, keep="\n") for line in lines)
            for lines in (report.notes, report.warnings, (report.verdict,))
        )
        report = replace(report, notes=notes, warnings=warnings, verdict=verdict)
        leave(ti, run.cluster_name, event=describe_event(report))
    except PipelineError as error:
        reason = escape_hidden(f"{type(error).__name__}: {error}", keep="\n")
        leave(ti, run.cluster_name, phase=at, failure=reason)
        raise
    return report


def take_up_lost(name: str, turn: int, dag_run: Any, ti: Any, params: Mapping[str, Any]) -> None:
    """Takes a step for a cluster's windows of the last day that are not trusted; mails those that no later run takes up."""
    ti.task.operator_extra_links = (ReportLink(),)  # also where it is skipped
    # at first try alone: one that kills its process would be tried, and be told, with each
    if not dag_run.partition_key or ti.try_number > 1:
        raise AirflowSkipException("the first try of a scheduled run takes up lost windows")
    run = _find_run(turn, dag_run, ti, params)
    most_count = _TAKEN_UP_MS // run.window_ms
    lost = run.over_lost_windows(most_count)
    for one in lost:
        _log.warning("cluster %s: windows %s are not ingested; taken up now", one.cluster_name, one.span)
    errors = _take(name, lost)[1] if lost else []
    if gone := run.list_given_up(lost, most_count):
        mail_given_up(ti, dag_run, run.cluster_name, gone, errors)


def _find_run(turn: int, dag_run: Any, ti: Any, params: Mapping[str, Any]) -> RunContext:
    """The run of the cluster whose turn it is; names the task after it."""
    ti.task.operator_extra_links = (ReportLink(),)  # Airflow makes the task of a mapped one without its links
    config = load_usable()
    lend_secrets(config)
    names = (params["cluster"],) if params.get("cluster") else config.cluster_names
    for name in names[turn : turn + 1]:
        if reason := config.unusable.get(name):
            _name_task(name)
            leave(ti, name, failure=reason)
            raise ConfigError(reason)
    span, now_ms = requested_span(config, dag_run.partition_key, params), milliseconds_of(ti.start_date)
    asked: dict[str, Any] = {name: params.get(name) for name in ("cluster", "notify")}
    runs = plan_runs(config, span, run_id=dag_run.run_id, now_ms=now_ms, **asked)[turn : turn + 1]
    if not runs:
        raise AirflowSkipException(f"the run is about cluster {params.get('cluster')} alone")
    _name_task(runs[0].cluster_name)
    return runs[0]


def _name_task(cluster: str) -> None:
    get_current_context()["cluster"] = cluster  # type: ignore[typeddict-unknown-key]  # `map_index_template` shows it


def leave(ti: Any, cluster: str, **said: object) -> None:
    """Leaves what `hand_over_clusters` and `dags.phases` ask for of a cluster: `phase`, `failure` or `event`."""
    ti.xcom_push(key=HANDED_OVER, value={kind: {cluster: value} for kind, value in said.items()})


def _take_step(name: str, run: RunContext, ti: Any, begin: Begin) -> StepReport:
    done, errors = _take(name, (run,), begin)
    if errors:
        raise errors[0]
    ((report,),) = done.values()
    collector, warehouse = get_hook_lineage_collector(), run.warehouse  # does nothing without a lineage provider
    for table in sorted(report.versions):
        place = (warehouse.resolve() if isinstance(warehouse, Path) else warehouse).joinpath(*table.split("."))
        collector.add_output_asset(ti.task, uri=place.as_uri() if isinstance(place, Path) else str(place))
    return report


def _take(
    name: str, runs: tuple[RunContext, ...], begin: Begin = ignore_phase
) -> tuple[dict[str, list[StepReport]], list[PipelineError]]:
    from pipeline import steps  # after the configuration: Spark comes with it

    def on_error(run: RunContext, _: Step, error: PipelineError) -> None:
        _log.error("cluster %s, windows %s", run.cluster_name, run.span, exc_info=error)

    return steps.take_steps(runs, (getattr(steps, name),), on_error, begin=lambda _, phase: begin(phase))


def hand_over_clusters(
    task_id: str, dag_run: Any, ti: Any, params: Mapping[str, Any], *, needs_one: bool = True
) -> dict[str, Any]:
    """What an asset's event carries of the clusters that are done; mails the failures of the others, if of several."""
    config = load_usable()
    names = [params["cluster"]] if params.get("cluster") else config.clusters_of_task(task_id)
    left = read_left(ti, task_id, len(names))
    done, failed = (
        {name: value for one in left for name, value in (one.get(kind) or {}).items()} for kind in ("event", "failure")
    )
    missing = {name: failed.get(name, UNKNOWN_FAILURE) for name in names if name not in done}
    if missing and len(config.cluster_names) > 1:
        try:
            mail_failed_clusters(ti, dag_run, task_id, missing, of=len(names))
        except Exception:  # no mail server holds up clusters that are done
            _log.exception("no mail could be sent about clusters that failed: %s", missing)
            if not done:
                raise
    if needs_one and not done:
        raise AirflowSkipException("no cluster came to its end")
    return done


def read_left(ti: Any, task_id: str, count: int) -> list[dict[str, Any]]:
    """What a mapped task has left of each of its clusters, by kind; nothing of one that ended before it knew which."""
    return [one or {} for one in ti.xcom_pull(task_ids=task_id, key=HANDED_OVER, map_indexes=range(count))]


def describe_event(report: StepReport) -> dict[str, Any]:
    """A cluster's part of an event: rows by table, and its verdict: `fail`, `warn`, `ok`, or `none` where nothing was judged."""
    good = "warn" if report.warnings else "ok" if report.versions else "none"
    return {
        "verdict": "fail" if not report.is_healthy else good if report.is_known else "none",
        "summary": report.verdict,
        "warnings": list(report.warnings),
        "rows": dict(report.added_rows),
    }
