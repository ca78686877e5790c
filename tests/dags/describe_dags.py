"""Program: make the database, load the DAG files as Airflow does, and print what is in them as JSON.

Arguments: `WINDOW+GRACE` of schedules whose runs are printed, too.
"""

import json
import sys

from dags.serve import DAGS_FOLDER
from pipeline import errors

ERRORS = {
    **{
        name: kind("x")
        for name, kind in vars(errors).items()
        if type(kind) is type and issubclass(kind, errors.PipelineError) and name != "HttpStatusError"
    },
    "MemoryError": MemoryError(),
}
HEAVY = ("pyspark", "great_expectations", "pandas", "matplotlib", "numba", "deltalake", "pyarrow")


def _assets_of(timetable) -> list[str]:
    name = getattr(getattr(timetable, "asset_condition", None), "name", None)
    return [name] if name else []


def _listed(callbacks):
    """Callbacks as a list: of a mapped task they stand as they were given."""
    return callbacks if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []


def main() -> None:
    from airflow.utils.db import upgradedb  # noqa: PLC0415  # reads the environment

    upgradedb()
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415  # needs the database

    before = set(sys.modules)
    bag = DagBag(str(DAGS_FOLDER))
    loaded = set(sys.modules) - before
    dags = {
        dag.dag_id: {
            "tags": sorted(dag.tags),
            "doc": dag.doc_md,
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "schedule": type(dag.timetable).__name__,
            "assets": _assets_of(dag.timetable),
            "params": {
                name: param.schema.get("maxLength")
                for name, param in ((name, dag.params.get_param(name)) for name in dag.params)
            },
            "end_date": str(dag.end_date),
            "deadlines": [
                (alert.reference.reference_name, alert.interval.total_seconds(), alert.callback.path)
                for alert in dag.deadline or ()
            ],
            "tasks": {
                task.task_id: {
                    "owner": task.owner,
                    "retries": task.retries,
                    "retry_delay_s": task.retry_delay.total_seconds(),
                    "backoff": task.retry_exponential_backoff,
                    "max_retry_delay_s": task.max_retry_delay.total_seconds(),
                    "pool": task.pool,
                    "priority": (str(task.weight_rule), task.priority_weight),
                    "trigger_rule": task.trigger_rule.value,
                    "downstream": sorted(task.downstream_task_ids),
                    "notifiers": [type(callback).__name__ for callback in _listed(task.on_failure_callback)],
                    "retried": [
                        name
                        for name, error in ERRORS.items()
                        if task.retry_policy.evaluate(error, 1, 6).action.value != "fail"
                    ],
                    "links": [link.name for link in task.operator_extra_links],
                    "outlets": [outlet.name for outlet in task.outlets],
                    "timeout_s": task.execution_timeout.total_seconds(),
                }
                for task in dag.tasks
            },
        }
        for dag in bag.dags.values()
    }
    heavy = sorted(name for name in HEAVY if name in loaded or name in sys.modules)
    from tests.dags.list_runs import list_runs  # noqa: PLC0415  # loads Airflow

    scheduled = [list_runs(*argument.split("+")) for argument in sys.argv[1:]]
    print(json.dumps({"dags": dags, "errors": bag.import_errors, "heavy": heavy, "scheduled": scheduled}))


if __name__ == "__main__":
    main()
