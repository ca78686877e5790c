"""The tasks of a step: its work for each cluster, boxes in Airflow's grid for its phases, and the event that passes it on."""

from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import Asset, TaskGroup, TriggerRule, task

from dags.defaults import each_cluster, turns
from pipeline.config_file import load_usable
from pipeline.progress import PHASES


@task(trigger_rule=TriggerRule.ONE_FAILED, retries=0, pool="default_pool", on_failure_callback=None)
def failed(of: str, step: str, phase: str, params: Any = None, ti: Any = None) -> None:
    """Runs when the step failed: fails too if it did so in this phase; its mail has left before."""
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    from dags.runs import UNKNOWN_FAILURE, read_left

    count = 1 if params.get("cluster") else len(load_usable().clusters_of_task(of))
    wrong = []
    for left in read_left(ti, of, count):
        if "event" not in left and phase in left.get("phase", {"": PHASES[step][0]}).values():
            (text,) = left.get("failure", {"": UNKNOWN_FAILURE}).values()
            wrong.append(": ".join([*left.get("phase", ()), text]))
    if not wrong:
        raise AirflowSkipException(f"{of} failed in another phase")
    raise AirflowFailException("\n".join(wrong))


def add_step(
    name: str, step: str, outlet: Asset, does: str, *, priority: int = 1, needs_one: bool = True
) -> tuple[Any, Any]:
    """Adds a step's task `name`, mapped to clusters, its phases, and `hand_over`, which is skipped if it `needs_one` that is done."""
    config = load_usable()

    @task(task_id=name, doc_md=does, **each_cluster(config, priority))
    def work(turn: int, dag_run: Any = None, ti: Any = None, params: Any = None) -> dict[str, Any]:
        from dags.runs import take_step

        report = take_step(step, turn, dag_run, ti, params)
        summary = "\n  ".join(filter(None, (report.verdict, *report.notes)))
        lines = [*report.written, *report.warnings]
        return {"failed": not report.is_healthy, "summary": summary, "written": lines}

    @task(outlets=[outlet], priority_weight=4)
    def hand_over(dag_run: Any = None, ti: Any = None, params: Any = None, outlet_events: Any = None) -> None:
        """Passes the clusters that are done on to others' DAGs, mails the failures."""
        from dags.runs import hand_over_clusters

        outlet_events[outlet].extra = hand_over_clusters(name, dag_run, ti, params, needs_one=needs_one)

    done: Any = work.expand(turn=turns(config, name))
    before = None  # a box for each phase: red if a cluster failed in it; no process runs one while all goes well
    for phase in PHASES[step]:
        with TaskGroup(phase):
            broken = failed(done.operator.task_id, step, phase)
            passed = EmptyOperator(task_id="passed", trigger_rule=TriggerRule.NONE_FAILED, on_failure_callback=None)
            done >> broken >> passed
            if before is not None:
                before >> passed
        before = passed
    handed_over = hand_over().as_teardown()
    done >> handed_over
    return done, handed_over
