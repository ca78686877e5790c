"""Deploys only while no broker of the cluster carries more than its share.

Scheduled on the asset of judged windows: one run a window, which skips `deploy` while the health gate fails, and also where a
window could not be judged. Copy it, name your cluster, and put your deployment in the place of `deploy`.
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
    def is_healthy(inlet_events: Any = None) -> bool:
        """Asks the newest asset event for the cluster's verdict: `ok` and `warn` go on."""
        judged = inlet_events[JUDGED][-1].extra.get(CLUSTER, {"verdict": "none", "summary": "not judged"})
        print(f"{CLUSTER}: {judged['verdict']}: {judged['summary']}")  # noqa: T201  # the task's log
        return judged["verdict"] in {"ok", "warn"}

    deploy = BashOperator(task_id="deploy", bash_command="echo 'your deployment here'")

    is_healthy() >> deploy
