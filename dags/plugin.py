"""Airflow plugin: makes the pool of writers, says in its log why a try never began, and lists the reports in Airflow's pages."""

import contextlib
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from dags.report_address import URL_PREFIX
from dags.reports_page import reports_app

_OF_RUN = f"{URL_PREFIX}/run/{{DAG_ID}}/{{RUN_ID}}"
WRITERS = "writer"  # the pool's name, without the configuration's prefix


@hookimpl
def on_starting(component: Any) -> None:  # a Job in scheduler and dag processor, a marker in tasks
    """Called by Airflow's components as they start; only the long-running ones (a `Job`) may touch its database."""
    if type(component).__name__ == "Job":
        ensure_writer_pool()


def ensure_writer_pool() -> None:
    from airflow.models.pool import Pool  # the database side of Airflow
    from sqlalchemy.exc import IntegrityError

    name, slots = plan_pool()
    if Pool.get_pool(name) is not None:
        return
    with contextlib.suppress(IntegrityError):  # scheduler and dag processor start at the same time
        what = "Steps at a time: a cluster each, as many as fit the machine."
        Pool.create_or_update_pool(name=name, slots=slots, description=what, include_deferred=False)


def plan_pool() -> tuple[str, int]:
    from pipeline.config.sections import AirflowNames
    from pipeline.config_file import load_usable
    from pipeline.environment import count_steps_at_once
    from pipeline.errors import ConfigError

    try:
        config = load_usable()
    except ConfigError:  # DAG files report it
        return AirflowNames().name(WRITERS), 1
    return config.airflow.name(WRITERS), count_steps_at_once(len(config.clusters))


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """Called in the task with an exception, which is in its log; in the scheduler with a text, which is not."""
    if isinstance(error, str) and task_instance.dag_id.startswith(plan_pool()[0].removesuffix(WRITERS)):
        from dags.notifiers import log_path  # Airflow's SDK

        append_to_log(log_path(task_instance), error, task_instance.end_date)


def append_to_log(log: Path, error: str, now: datetime) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    entry = {"timestamp": now.isoformat(), "level": "error", "event": error, "logger": "scheduler"}
    with log.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(entry) + "\n")


class PartitionHealthPlugin(AirflowPlugin):
    """Registered as an entry point of the package."""

    name = "partition_health"
    listeners = [sys.modules[__name__]]  # noqa: RUF012
    fastapi_apps = [{"app": reports_app, "url_prefix": URL_PREFIX, "name": "partition_health"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {"name": "Partition health", "href": f"{URL_PREFIX}/", "destination": "nav", "url_route": "partition-health"},
        {"name": "Report", "href": _OF_RUN, "destination": "dag_run", "url_route": "partition-health-run"},
    ]
