"""From Airflow's run to ours: windows, clusters and clock of a task, and the step it takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.lineage import get_hook_lineage_collector

from dags.secrets import lend_secrets
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.storage import Folder
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, PipelineError
from pipeline.model.window import TimeWindow, milliseconds_of, parse_instant
from pipeline.runs import RunContext, plan_runs

if TYPE_CHECKING:
    from pipeline.cli.steps import Step, StepReport

_TAKEN_UP_MS = milliseconds_of(timedelta(days=1))
_log = logging.getLogger(__name__)


def requested_span(config: PipelineConfig, partition_key: str | None, params: Mapping[str, Any]) -> TimeWindow:
    """The partition's window; without a partition key the range in the parameter `window`.

    Raises:
        ConfigError: if neither is given, or the range is not valid.
    """
    if partition_key:
        start_ms = milliseconds_of(parse_instant(partition_key))
        return TimeWindow(start_ms, start_ms + milliseconds_of(config.window))
    if params.get("window"):
        return TimeWindow.parse(params["window"])
    raise ConfigError(
        "this run has neither a partition key nor the parameter `window`: "
        'trigger it with {"window": "2026-11-21T09:00:00Z/PT6H"}'
    )


def take_step(
    name: str, dag_run: Any, ti: Any, params: Mapping[str, Any], *, take_up: bool = False
) -> dict[str, StepReport]:
    """Takes a step of `pipeline.cli.steps`, named by its function, for every cluster.

    `ti`: Airflow's task instance; its start is the clock.
    `take_up`: Take it first for lost windows of the last day.

    Raises:
        PipelineError: the first error, after every cluster had its turn.
    """
    config = load_config()
    lend_secrets(config)
    runs = plan_runs(
        config,
        requested_span(config, dag_run.partition_key, params),
        run_id=dag_run.run_id,
        now_ms=milliseconds_of(ti.start_date),
        cluster=params.get("cluster"),
        notify=params.get("notify"),
    )
    from pipeline.cli import steps  # after the configuration: Spark comes with it

    errors: list[PipelineError] = []

    def on_error(run: RunContext, _: Step, error: PipelineError) -> None:
        _log.error("cluster %s, windows %s", run.cluster_name, run.span, exc_info=error)
        if run in runs:  # windows taken up that cannot be ingested stop no other
            errors.append(error)

    lost = runs_of_lost_windows(runs) if take_up and dag_run.partition_key else ()
    done, _ = steps.take_steps((*lost, *runs), (getattr(steps, name),), on_error)
    reports = {cluster: report for cluster, (report,) in done.items()}
    _name_tables(config.warehouse, ti, reports)
    if errors:
        raise errors[0]
    return reports


def _name_tables(warehouse: Folder, ti: Any, reports: Mapping[str, StepReport]) -> None:
    """Names the Delta tables written to whatever collects lineage, such as OpenLineage's provider; else nothing happens."""
    collector = get_hook_lineage_collector()
    for name in sorted({name for report in reports.values() for name in report.versions}):
        place = (warehouse.resolve() if isinstance(warehouse, Path) else warehouse).joinpath(*name.split("."))
        collector.add_output_asset(ti.task, uri=place.as_uri() if isinstance(place, Path) else str(place))


def describe_event(reports: Mapping[str, StepReport]) -> dict[str, Any]:
    """What an asset's event carries, by cluster: verdict, summary, warnings, and rows written by table.

    A verdict is `fail` (the health gate failed), `warn` (a check of lesser severity did), `ok`, or `none`: nothing was written.
    """
    return {
        cluster: {
            "verdict": "fail" if not one.is_healthy else "warn" if one.warnings else "ok" if one.versions else "none",
            "summary": one.verdict,
            "warnings": list(one.warnings),
            "rows": dict(one.added_rows),
        }
        for cluster, one in reports.items()
    }


def runs_of_lost_windows(runs: Sequence[RunContext]) -> tuple[RunContext, ...]:
    """Runs over windows of the last day that no run committed: Airflow was down, or their own runs failed."""
    found = [lost for run in runs for lost in run.over_lost_windows(_TAKEN_UP_MS // run.window_ms)]
    for run in found:
        _log.warning("cluster %s: windows %s were never committed; taken up now", run.cluster_name, run.span)
    return tuple(found)


def describe_reports(reports: Mapping[str, StepReport]) -> list[str]:
    """A line per table written, per note and per warning."""
    return [
        f"{cluster}: {line}"
        for cluster, report in reports.items()
        for line in (*report.written, *report.notes, *report.warnings)
    ]
