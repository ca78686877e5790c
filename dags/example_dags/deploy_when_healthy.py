"""Deploys only while no broker of the cluster carries more than its share.

Scheduled on the asset of judged windows: one run a window, which skips `deploy` while the health gate fails, and also where a
window could not be judged or is not the newest one, as in a backfill. Copy it, name your cluster, and put your deployment in the place of `deploy`.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, PartitionedAssetTimetable, task

from dags.defaults import JUDGED

CLUSTER = "demo"

with DAG(
    dag_id="example_deploy_when_healthy",
    schedule=PartitionedAssetTimetable(assets=JUDGED),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["example", "partition-health"],
) as dag:

    @task.short_circuit(inlets=[JUDGED])
    def is_healthy(inlet_events: Any = None, dag_run: Any = None) -> bool:
        """Asks the newest window's last event for the cluster's verdict: `ok` and `warn` go on, if the run is about that window."""
        newest = max(reversed(inlet_events[JUDGED]), key=lambda event: event.partition_key or "")  # a range has no key
        judged = newest.extra.get(CLUSTER, {"verdict": "none", "summary": "not judged"})
        print(f"{CLUSTER} {newest.partition_key}: {judged['verdict']}: {judged['summary']}")  # noqa: T201  # the task's log
        return judged["verdict"] in {"ok", "warn"} and dag_run.partition_key in {None, newest.partition_key}

    deploy = BashOperator(task_id="deploy", bash_command="echo 'your deployment here'")

    is_healthy() >> deploy
