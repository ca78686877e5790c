"""Tells the platform's people that a task failed: by mail where SMTP is configured, else as a file in the outbox."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

TRACEBACK_LINES = 15


def describe_failure(context: Any) -> tuple[str, str]:  # noqa: ANN401 - Airflow's typed mapping
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
    lines += ["", "What to do: see the triage notes of the DAG (its page in Airflow, tab Details).", ""]
    return subject, "\n".join(lines)


class FailureMail(BaseNotifier):
    """Mails `describe_failure` to the recipients of the configuration."""

    def notify(self, context: Context) -> None:
        """Sends the mail; an error while sending is raised, and Airflow logs it."""
        from dags.mail import deliver_text  # noqa: PLC0415  # keeps DAG files light

        subject, text = describe_failure(context)
        deliver_text(subject, text)
