"""Reports failed and late runs to the platform's people: by mail where SMTP is configured, else as a file in the outbox."""

import json
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.definitions.context import Context

from pipeline.model.window import Windows

TRACEBACK_LINES = 15
LOG_LINES = 20
_LOG_TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 300


class FailureMail(BaseNotifier):
    """Mails `describe_failure` to the recipients of the configuration."""

    def notify(self, context: Context) -> None:
        from dags.mail import deliver_text  # keeps DAG files light

        deliver_text(*describe_failure(context))


def describe_failure(context: Any) -> tuple[str, str]:
    ti, dag_run = context["ti"], context["dag_run"]
    error = context.get("exception")
    windows = _windows_of(dag_run.partition_key, context.get("params"))
    lines = [
        *_head(f"{ti.dag_id}.{ti.task_id}, try {ti.try_number}", dag_run.run_id, windows),
        f"Log       {ti.log_url}",
        "",
        f"{type(error).__name__}: {error}" if error else "Airflow gives no exception (killed or timed out).",
    ]
    if isinstance(error, BaseException) and error.__traceback__ is not None:
        lines += ["", *"".join(traceback.format_tb(error.__traceback__)).splitlines()[-TRACEBACK_LINES:]]
    if log_lines := read_tail(log_path(ti)):
        lines += ["", f"The last {len(log_lines)} lines of its log:", "", *log_lines]
    lines += ["", "What to do: see the triage notes of the DAG (its page in Airflow, tab Details).", ""]
    return f"[partition health] task {ti.dag_id}.{ti.task_id} failed: {windows}", "\n".join(lines)


def mail_failed_clusters(ti: Any, dag_run: Any, task_id: str, failed: Mapping[str, str], *, of: int) -> None:
    """One mail about all clusters of a run, `of` in number, for which a mapped task failed, with the reason of each."""
    from dags.mail import deliver_text  # keeps DAG files light

    windows = _windows_of(dag_run.partition_key, dag_run.conf)
    lines = [
        *_head(f"{ti.dag_id}.{task_id}", dag_run.run_id, windows),
        "",
        *(line for name, reason in failed.items() for line in (f"{name}:", f"  {reason}", "")),
        "The other clusters went on. Each task of the run in Airflow has its cluster's name, and its log.",
        "",
    ]
    subject = f"{len(failed)} of {of} clusters failed in {ti.dag_id}.{task_id}: {windows}"
    deliver_text(f"[partition health] {subject}", "\n".join(lines))


def mail_given_up(ti: Any, dag_run: Any, cluster: str, windows: Windows, errors: Sequence[Exception]) -> None:
    """One mail about earlier windows that a run took up in vain, and that no later one takes up."""
    from dags.mail import deliver_text  # keeps DAG files light

    lines = [
        *_head(f"{ti.dag_id}.{ti.task_id}", dag_run.run_id, dag_run.partition_key),
        *("", f"Windows of {cluster} that could not be ingested, and that no run takes up again:", ""),
        *(f"  {window}" for window in windows),
        *("", *(f"{type(error).__name__}: {error}" for error in errors), ""),
        "What to do: mend the cause, then ingest them by a run with the parameter `window`.",
        "",
    ]
    deliver_text(f"[partition health] {cluster}: no data of {windows[0]}, and no further try", "\n".join(lines))


def _windows_of(partition_key: str | None, conf: Mapping[str, Any] | None) -> str:
    return partition_key or (conf or {}).get("window") or "no window"


def _head(task: str, run_id: str, windows: str) -> list[str]:
    return [f"Task      {task}", f"Run       {run_id}", f"Window    {windows}"]


def log_path(ti: Any) -> Path:
    from airflow.sdk.configuration import conf  # reads and makes files of its own

    template = jinja2.Template(conf.get("logging", "log_filename_template"))
    return Path(str(conf.get("logging", "base_log_folder")), template.render(ti=ti, try_number=ti.try_number))


def read_tail(path: Path) -> tuple[str, ...]:
    """The last lines of a log, of text or of JSON with `timestamp`, `level` and `event`; none where there is no such file."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LOG_TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    return tuple(_as_text(line)[:_LONGEST_LINE] for line in lines[-LOG_LINES:])


def _as_text(line: str) -> str:
    """`{"timestamp": …, "level": …, "event": …}` as time, level, event; other lines as they are."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "event" not in entry:
        return line
    event = " ".join(str(entry["event"]).split())
    return f"{str(entry.get('timestamp', ''))[:19]} {entry.get('level', '')} {event}"


def mail_late_run(context: Mapping[str, Any]) -> None:
    """Mails that a run missed its deadline; `context`: Airflow's, with `dag_run`, and `deadline` with its `deadline_time`."""
    from dags.mail import deliver_text  # keeps DAG files light

    dag_run = context["dag_run"]
    if dag_run.get("state") in {"success", "failed"} or dag_run.get("run_type") == "backfill":
        return
    windows = _windows_of(dag_run.get("partition_key"), dag_run.get("conf"))
    lines = (
        f"Run       {dag_run['dag_id']}, {dag_run.get('dag_run_id') or dag_run.get('run_id')}",
        f"Window    {windows}",
        f"Queued    {dag_run.get('queued_at')}",
        f"Due       {context['deadline']['deadline_time']}",
        "",
        "The run is late. This window is unjudged until it finishes, unless all it still does is to take up lost ones.",
        "",
        "What to do: see the run in Airflow. Queued and not started: the scheduler or its workers are busy or away, or an",
        "earlier run holds the writer pool. Running for long: its log says which step. `late_after` in the configuration",
        "sets the time.",
        "",
    )
    deliver_text(f"[partition health] {dag_run['dag_id']} is late: {windows}", "\n".join(lines))
