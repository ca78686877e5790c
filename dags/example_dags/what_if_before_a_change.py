"""Asks what a change of brokers would do to shares before it is made, and lets it through only where all stays within a limit.

Trigger it with the broker that is about to go; `partition-health what-if --help` has the other changes. It reads the newest window.
What nobody can predict, as where load follows a slow broker, or where that window is old or could not be judged, is not let through.
"""

import json
import subprocess
from datetime import UTC, datetime
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param, task

with DAG(
    dag_id="example_what_if_before_a_change",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={
        "cluster": Param("demo", type="string"),
        "lose_broker": Param(3, type="integer", description="The broker that is to be taken away."),
        "most_ratio": Param(1.5, type="number", description="Highest share ratio that is allowed afterwards."),
    },
    doc_md=__doc__,
    tags=["example", "partition-health"],
) as dag:

    @task
    def ask_what_if(params: Any = None) -> dict[str, Any]:
        """Runs the command; its JSON is the task's result."""
        change = ["--cluster", params["cluster"], "--lose-broker", str(params["lose_broker"])]
        command = ["partition-health", "what-if", "--json", *change]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603  # no shell
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    @task.short_circuit
    def is_bearable(answer: Any, params: Any = None) -> bool:
        """Whether each broker's share ratio is known and within the limit, and every partition has a leader and takes acks=all."""
        left = [broker for broker in answer["brokers"] if broker["broker_id"] != params["lose_broker"]]
        ratios = [broker["changed_share_ratio"] for broker in left]
        refused = [*answer["leaderless"], *answer["below_min_isr"]]
        print(f"then {ratios}, records are refused by {refused}, {answer['not_judged']}")  # noqa: T201  # the task's log
        is_known = bool(ratios) and None not in ratios and not answer["not_judged"]
        return is_known and max(ratios) <= params["most_ratio"] and not refused

    change = BashOperator(task_id="change", bash_command="echo 'your change here'")

    is_bearable(ask_what_if()) >> change
