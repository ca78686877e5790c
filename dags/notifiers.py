"""Tells the platform's people that a task failed: by mail where SMTP is configured, else as a file in the outbox."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier

from dags.task_log import last_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk.definitions.context import Context

TRACEBACK_LINES = 15


def describe_failure(context: Any) -> tuple[str, str]:  # Airflow's typed mapping
    """Subject and text about a failed task.

    Args:
        context: Airflow's context of the task, with `exception` where the task raised one.
    """
    ti, dag_run = context["ti"], context["dag_run"]
    error = context.get("exception")
    windows = dag_run.partition_key or context.get("params", {}).get("window") or "no window"
    subject = f"[partition health] task {ti.dag_id}.{ti.task_id} failed: {windows}"
    lines = [
        f"Task      {ti.dag_id}.{ti.task_id}, try {ti.try_number}",
        f"Run       {dag_run.run_id}",
        f"Window    {windows}",
        f"Log       {ti.log_url}",
        "",
        f"{type(error).__name__}: {error}"
        if error is not None
        else "Airflow gives no exception (killed or timed out).",
    ]
    if isinstance(error, BaseException) and error.__traceback__ is not None:
        frames = "".join(traceback.format_tb(error.__traceback__)).splitlines()
        lines += ["", *frames[-TRACEBACK_LINES:]]
    log_lines = last_lines(ti)
    if log_lines:
        lines += ["", f"The last {len(log_lines)} lines of its log:", "", *log_lines]
    lines += ["", "What to do: see the triage notes of the DAG (its page in Airflow, tab Details).", ""]
    return subject, "\n".join(lines)


class FailureMail(BaseNotifier):
    """Mails `describe_failure` to the recipients of the configuration."""

    def notify(self, context: Context) -> None:
        """Sends the mail; an error while sending is raised, and Airflow logs it."""
        from dags.mail import deliver_text  # keeps DAG files light

        subject, text = describe_failure(context)
        deliver_text(subject, text)


def describe_lateness(context: Mapping[str, Any]) -> tuple[str, str]:
    """Subject and text about a run that is not over in time.

    Args:
        context: What Airflow tells of a missed deadline: `dag_run`, and `deadline` with its `deadline_time`.
    """
    dag_run = context["dag_run"]
    windows = dag_run.get("partition_key") or (dag_run.get("conf") or {}).get("window") or "no window"
    subject = f"[partition health] {dag_run['dag_id']} is late: {windows}"
    lines = (
        f"Run       {dag_run['dag_id']}, {dag_run.get('dag_run_id') or dag_run.get('run_id')}",
        f"Window    {windows}",
        f"Queued    {dag_run.get('queued_at')}",
        f"Due       {context['deadline']['deadline_time']}",
        "",
        "It is not over in time: until it is, nobody knows how healthy this window was.",
        "",
        "What to do: see the run in Airflow. Queued and not started: the scheduler or its workers are busy or away, or an",
        "earlier run holds the writer pool. Running for long: its log says which step. `late_after` in the configuration",
        "sets the time.",
        "",
    )
    return subject, "\n".join(lines)


def tell_late(context: Mapping[str, Any]) -> None:
    """Mails `describe_lateness` over the configuration's server: Airflow shows connections to tasks alone."""
    from dags.mail import deliver_text  # keeps DAG files light

    deliver_text(*describe_lateness(context))
