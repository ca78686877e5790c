"""What all DAGs share: owner, retries, the one-writer pool, the notifier, the parameters of a ranged run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, ExceptionRetryPolicy, Param, RetryAction, RetryRule
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from dags.notifiers import FailureMail, tell_late
from dags.plugin import WRITER_POOL
from pipeline.config_file import load_config
from pipeline.errors import DeliveryError, PipelineError, StorageConflictError

OWNER = "platform"
TAGS = ("partition-health",)

START_DATE = datetime(2020, 1, 1, tzinfo=UTC)
"""Before any recording that may be backfilled; no DAG catches up by itself."""

INGESTED = Asset(name="partition_health_ingested", uri="x-partition-health://ingested")
"""Committed windows of `bronze` and `silver`; partitioned by the window's start."""

REPLAYED = Asset(name="partition_health_replayed", uri="x-partition-health://replayed")
"""Windows whose replay is over, whether it went well or not; partitioned by the window's start."""

RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=[StorageConflictError, DeliveryError], action=RetryAction.RETRY, reason="worth another try"
        ),
        RetryRule(exception=PipelineError, action=RetryAction.FAIL, reason="bad data or configuration does not heal"),
    ]
)
"""Data and configuration fail at once; whatever else goes wrong is taken for infrastructure and tried again."""

DEFAULT_ARGS: dict[str, Any] = {
    "owner": OWNER,
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "retry_policy": RETRY_POLICY,
    "pool": WRITER_POOL,
    "execution_timeout": timedelta(hours=2),
    "on_failure_callback": FailureMail(),
}


def late_alert() -> DeadlineAlert:
    """Tells people of a run that is not over `late_after` after it was queued."""
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=load_config().late_after,
        callback=SyncCallback(tell_late),
        name="late",
    )


def range_params() -> dict[str, Param]:
    """Parameters of a run that is about a range of windows instead of one partition."""
    return {
        "window": Param(
            None,
            type=["null", "string"],
            title="Windows",
            description="START/DURATION or START/END, such as 2026-11-21T09:00:00Z/PT6H; for runs without partition key.",
        ),
        "cluster": Param(
            None, type=["null", "string"], title="Cluster", description="One cluster of the configuration; else all."
        ),
        "notify": Param(
            None,
            type=["null", "boolean"],
            title="Notify",
            description="Tell people of incidents, or nobody; without an answer of windows that are news (mail.tell_within).",
        ),
    }
