"""Settings all DAGs share: owner, retries, the pool of writers, the notifier, the parameters of a ranged run."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, ExceptionRetryPolicy, Param, RetryAction, RetryRule
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from dags.notifiers import FailureMail, mail_late_run
from dags.plugin import WRITERS
from dags.report_link import ReportLink
from pipeline import errors
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.sections import AirflowNames
from pipeline.config_file import load_usable

_NAMES = load_usable().airflow
INGESTED = Asset(name=_NAMES.name("ingested"), uri="x-partition-health://ingested")  # committed windows
REPLAYED = Asset(name=_NAMES.name("replayed"), uri="x-partition-health://replayed")  # also those that failed
JUDGED = Asset(name=_NAMES.name("judged"), uri="x-partition-health://judged")  # for others' DAGs
RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(exception=errors.SystemFailedError, action=RetryAction.RETRY, reason="worth another try"),
        RetryRule(
            exception=[
                *(errors.ConfigError, errors.InputError, errors.NothingUsableError, errors.TableMismatchError),
                *(errors.DataGateError, errors.GateBrokenError, errors.HealthGateError, errors.UnexpectedError),
            ],
            action=RetryAction.FAIL,
            reason="bad data or configuration, or a fault of ours: a retry does not help",
        ),
    ]
)  # data and configuration fail at once; whatever else goes wrong is taken for infrastructure and tried again
_LONGEST_OWNER = 200  # Airflow's log of what happens has 500 characters; with more, Postgres starts no task
_DEFAULT_ARGS: dict[str, Any] = {
    "retries": 5,  # half an hour in all: an API server or a broker may take that long to be up
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=10),
    "retry_policy": RETRY_POLICY,
    "pool": _NAMES.name(WRITERS),
    # of those that wait for a slot a window that is further goes first, and lost windows last. `hand_over` holds one, before all
    # others, though it writes nothing: beside the pool, lost windows would take the slot while it runs, and the next step waits
    "weight_rule": "absolute",
    "execution_timeout": timedelta(hours=2),
    "on_failure_callback": FailureMail(),
}
_PARAMS = {
    "window": Param(
        None, type=["null", "string"],
        maxLength=200,  # it stands in logs and in the mail about a failure
        title="Windows",
        description="START/DURATION or START/END, such as 2026-11-21T09:00:00Z/PT6H; for runs without partition key.",
    ),
    "cluster": Param(
        None, type=["null", "string"], maxLength=200, title="Cluster",
        description="One cluster of the configuration; else all.",
    ),
    "notify": Param(
        None, type=["null", "boolean"], title="Notify",
        description="Notify for all incidents or none; by default for those of recent windows (mail.tell_within).",
    ),
}  # fmt: skip  # a table: short fields share a line


def turns(config: PipelineConfig, task_id: str) -> list[int]:
    """Numbers of the tasks that a step is mapped to, one a cluster: `plan_runs` says whose turn is which."""
    return list(range(len(config.clusters_of_task(task_id))))


def each_cluster(config: PipelineConfig, priority: int = 1) -> dict[str, Any]:
    """Settings of a task mapped to clusters: of several, one that goes wrong is tried for minutes only, as others wait."""
    settings: dict[str, Any] = {"map_index_template": "{{ cluster }}", "priority_weight": priority}
    if len(config.cluster_names) > 1:
        settings |= {"retries": 2, "execution_timeout": config.late_after, "on_failure_callback": None}
    return settings


def link_reports(dag: DAG) -> None:
    for task in dag.tasks:
        task.operator_extra_links = (ReportLink(),)


def dag_settings(name: str, *, of_windows: bool = True) -> dict[str, Any]:
    """A DAG's id (`name` and prefix), page (`NAME.md`), shared settings; one about windows takes a range, tells if it is late."""
    config, page = load_usable(), Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    owners = ", ".join(dict.fromkeys(cluster.owner for cluster in config.clusters.values() if cluster.owner))
    owner = owners if len(owners) <= _LONGEST_OWNER else f"{owners[: _LONGEST_OWNER - 1]}…"
    settings: dict[str, Any] = {
        "dag_id": config.airflow.name(name),
        "doc_md": page.replace(AirflowNames().prefix, config.airflow.prefix),
        "start_date": datetime(2020, 1, 1, tzinfo=UTC),  # before any recording that may be backfilled
        "catchup": False,
        "max_active_runs": 1,
        "default_args": {**_DEFAULT_ARGS, "owner": owner or "platform"},
        "tags": ["partition-health"],
    }
    if of_windows:
        settings["params"] = _PARAMS
        settings["deadline"] = DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=config.late_after,
            callback=SyncCallback(mail_late_run),
            name="late",
        )
    return settings
