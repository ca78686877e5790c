"""From Airflow's run to ours: which windows, which clusters, what the time is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dags.secrets import lend_secrets
from pipeline.config.pipeline_config import load_config
from pipeline.errors import ConfigError
from pipeline.model.window import TimeWindow, milliseconds_of, parse_instant
from pipeline.runs import RunContext, plan_runs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pipeline.config.pipeline_config import PipelineConfig


def requested_span(config: PipelineConfig, partition_key: str | None, params: Mapping[str, Any]) -> TimeWindow:
    """The partition's window; without a partition key the range in the parameter `window`.

    Raises:
        ConfigError: if neither is given, or the range is none.
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


def contexts(dag_run: Any, ti: Any, params: Mapping[str, Any]) -> tuple[RunContext, ...]:
    """One context per cluster, from the values Airflow hands a task; the clock is the start of the task.

    Raises:
        ConfigError: if the configuration cannot be used or the run names no windows.
    """
    config = load_config()
    lend_secrets(config)
    return plan_runs(
        config,
        requested_span(config, dag_run.partition_key, params),
        run_id=dag_run.run_id,
        now_ms=epoch_ms(ti.start_date),
        cluster=params.get("cluster"),
        notify=params.get("notify"),
    )


def epoch_ms(instant: datetime) -> int:
    """Milliseconds since the epoch."""
    return round(instant.timestamp() * 1000)
