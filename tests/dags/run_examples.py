"""Program: run example DAGs by `dag.test()` in this one process; print what they did as JSON.

Argument: a JSON list of steps. `["judged", EXTRA]` is an event of the asset of judged windows; `["run", DAG, PARAMETERS]` runs one.
"""

import json
import sys

from dags.serve import DAGS_FOLDER


def main() -> None:
    # slow, and not for those who import this module
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415
    from airflow.models.asset import AssetEvent, AssetModel  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415
    from sqlalchemy import select  # noqa: PLC0415

    bag, found = DagBag(str(DAGS_FOLDER / "example_dags")), []
    for verb, *arguments in json.loads(sys.argv[1]):
        if verb == "judged":
            with create_session() as session:
                asset = session.scalar(select(AssetModel).where(AssetModel.name == "partition_health_judged"))
                session.add(AssetEvent(asset_id=asset.id, extra=arguments[0]))
        else:
            dag_id, conf = arguments
            run = bag.dags[dag_id].test(logical_date=None, run_conf=conf)
            found.append({ti.task_id: str(ti.state) for ti in run.get_task_instances()})
    errors = {path.rpartition("/")[2]: text.splitlines()[-1] for path, text in bag.import_errors.items()}
    print(
        "\n"
        + json.dumps(
            {"at_once": {name: dag.max_active_runs for name, dag in bag.dags.items()}, "errors": errors, "ran": found}
        )
    )


if __name__ == "__main__":
    main()
