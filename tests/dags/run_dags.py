"""Program: run DAGs by `dag.test()` in this one process; print the states, tries and results of their tasks as JSON.

Arguments: `dag_id=START/DURATION`, or `dag_id` for a run without parameters.
"""

import json
import sys
from collections import Counter, defaultdict

from dags.serve import DAGS_FOLDER


def main() -> None:
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415  # slow; not for those who import this module

    bag = DagBag(str(DAGS_FOLDER))
    print("\n" + json.dumps([run(bag, *argument.split("=")) for argument in sys.argv[1:]]))


def read_events(run_id):
    """What the events of a run's assets carry, by the asset's name."""
    from airflow.models.asset import AssetEvent, AssetModel  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    with create_session() as session:
        found = session.execute(
            select(AssetModel.name, AssetEvent.extra)
            .join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
            .where(AssetEvent.source_run_id == run_id)
        )
        return dict(found.all())


def read_lineage():
    """Addresses of the tables named so far to whatever collects lineage."""
    from airflow.sdk.lineage import get_hook_lineage_collector  # noqa: PLC0415

    return [info.asset.uri for info in get_hook_lineage_collector().collected_assets.outputs]


def by_name(instances):
    """Task instances by the task's id; of one that is mapped to several clusters with the name that Airflow shows."""
    count = Counter(ti.task_id for ti in instances)
    return {ti.task_id if count[ti.task_id] == 1 else f"{ti.task_id}[{ti.rendered_map_index}]": ti for ti in instances}


def read_boxes(tasks):
    """What Airflow's grid shows of each group of tasks."""
    from airflow.api_fastapi.core_api.services.ui.grid import agg_state  # noqa: PLC0415

    states = defaultdict(Counter)
    for name, ti in tasks.items():
        group, dot, _ = name.rpartition(".")
        if dot:
            states[group][ti.state] += 1
    return {group: str(agg_state(found)) for group, found in states.items()}


def run(bag, dag_id: str, window: str | None = None) -> dict[str, object]:
    conf = {"window": window} if window else None
    bag.dags[dag_id].deadline = None  # see tests/lab/demo/__main__.py
    dag_run = bag.dags[dag_id].test(logical_date=None, run_conf=conf)
    tasks = by_name(dag_run.get_task_instances())
    return {
        "state": dag_run.state,
        "tasks": {name: [str(ti.state), ti.try_number] for name, ti in tasks.items() if "." not in name},
        "phases": read_boxes(tasks),
        "links": {
            ti.task_id: ti.xcom_pull(task_ids=ti.task_id, key="_link_ReportLink", map_indexes=ti.map_index)
            for ti in dag_run.get_task_instances()
            if "." not in ti.task_id
        },
        "run_id": dag_run.run_id,
        "events": read_events(dag_run.run_id),
        "lineage": read_lineage(),
        "results": {
            ti.task_id: ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index)
            for ti in dag_run.get_task_instances()
        },
    }


if __name__ == "__main__":
    main()
