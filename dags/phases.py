"""Boxes in Airflow's grid for the phases of a step, whose work one task does; while all goes well no process runs their tasks."""

from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import TaskGroup, TriggerRule, task

from pipeline.progress import PHASES


@task(trigger_rule=TriggerRule.ONE_FAILED, retries=0, pool="default_pool", on_failure_callback=None)
def failed(of: str, step: str, phase: str, params: Any = None, ti: Any = None) -> None:
    """Runs when the step failed: fails too if it did so in this phase; its mail has left before."""
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    from dags.runs import UNKNOWN_FAILURE, list_tasked, read_left
    from pipeline.config_file import load_usable

    count = 1 if params.get("cluster") else len(list_tasked(load_usable(), of))
    wrong = []
    for left in read_left(ti, of, count):
        if "event" not in left and phase in left.get("phase", {"": PHASES[step][0]}).values():
            (text,) = left.get("failure", {"": UNKNOWN_FAILURE}).values()
            wrong.append(": ".join([*left.get("phase", ()), text]))
    if not wrong:
        raise AirflowSkipException(f"{of} failed in another phase")
    raise AirflowFailException("\n".join(wrong))


def show_phases(work: Any, step: str) -> None:
    """Puts a box for each phase behind the step's task `work`: red if a cluster failed in it; those after it are not green."""
    before = None
    for phase in PHASES[step]:
        with TaskGroup(phase):
            broken = failed(work.operator.task_id, step, phase)
            passed = EmptyOperator(task_id="passed", trigger_rule=TriggerRule.NONE_FAILED, on_failure_callback=None)
            work >> broken >> passed
            if before is not None:
                before >> passed
        before = passed
