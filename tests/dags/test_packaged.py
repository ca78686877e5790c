"""The wheel in somebody else's Airflow, taken up by one file as `docs/CONFIGURATION.md` shows it, beside DAGs with the names we might want.

Oracle: what Airflow itself lists of that environment.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = 'warehouse: w\noutbox: o\nclusters: {prod: {sources: [{kind: live_cluster, bootstrap_servers: "b:9092"}]}}\n'
FOREIGN = """
from airflow.sdk import DAG, Asset, task
import pipeline, dags, expectations

with DAG("{dag_id}", schedule=Asset("{dag_id}")) as dag:
    @task(pool="{dag_id}", outlets=[Asset("judged"), Asset("writer")])
    def health():
        return [module.MINE for module in (pipeline, dags, expectations)]
    health()
"""
EXAMPLES = "from partition_health.dags.example_dags.{name} import dag as {name}\n"
LOOK = """
import json, sys
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.pool import Pool
from airflow.providers_manager import ProvidersManager
from airflow.utils.session import create_session
from sqlalchemy import select
from partition_health.dags.plugin import ensure_writer_pool

ensure_writer_pool()
for name in ("ingest", "pipeline"):
    Pool.create_or_update_pool(name=name, slots=1, description="theirs", include_deferred=False)
bag = DagBag(str(Path("own/dags").resolve()))
ran = {}
for dag_id in ("ingest", "pipeline"):
    run = bag.dags[dag_id].test(logical_date=None)
    ran[dag_id] = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
judged = next(task for task in bag.dags["partition_health_health"].tasks if task.task_id == "hand_over").outlets[0]
with create_session() as session:
    asset = session.scalar(select(AssetModel).where(AssetModel.name == judged.name))
    if asset is None:
        asset = AssetModel(name=judged.name, uri=judged.uri, group="asset")
        session.add(asset)
        session.flush()
    session.add(AssetEvent(asset_id=asset.id, extra={"demo": {"verdict": "ok", "summary": "even"}}))
run = bag.dags["example_deploy_when_healthy"].test(logical_date=None)
ran["example"] = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
providers = ProvidersManager()
print("\\n" + json.dumps({
    "errors": bag.import_errors,
    "dags": sorted(bag.dags),
    "tasks": {dag_id: sorted({task.pool for task in dag.tasks}) for dag_id, dag in bag.dags.items()},
    "outlets": {dag_id: sorted({one.name for task in dag.tasks for one in task.outlets}) for dag_id, dag in bag.dags.items()},
    "pools": sorted(pool.pool for pool in Pool.get_pools()),
    "modules": {name: sys.modules[name].__file__ for name in ("dags", "expectations", "pipeline")},
    "ran": ran,
    "provider": "partition-health" in providers.providers,
    "connection": providers.hooks["partition_health_secret"].hook_class_name,
    "links": [name for name in providers.extra_links_class_names if "partition_health" in name],
}))
"""
OURS = [f"partition_health_{name}" for name in ("health", "ingest", "maintenance", "replay")]


@pytest.fixture(scope="module")
def looked(described, tmp_path_factory):
    """What the other project's Airflow lists."""
    folder = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, ROOT / ".ci" / "package.py", folder], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as found:
        found.extractall(folder / "site")
        names = {name.partition("/")[0] for name in found.namelist()}
    (shown,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "CONFIGURATION.md").read_text(), re.DOTALL)
    own = folder / "own"
    (own / "dags").mkdir(parents=True)
    for module in ("pipeline", "expectations"):
        (own / f"{module}.py").write_text("MINE = True\n")
    (own / "dags/__init__.py").write_text("MINE = True\n")
    (own / "dags/ours.py").write_text(shown + EXAMPLES.format(name="deploy_when_healthy"))
    for dag_id in ("ingest", "pipeline"):
        (own / f"dags/{dag_id}_dag.py").write_text(FOREIGN.format(dag_id=dag_id))
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "airflow").mkdir()
    shutil.copy(described["home"].folder / "airflow.db", folder / "airflow")
    variables = described["home"].environment | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(own / "dags"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow/airflow.db",
        "PARTITION_HEALTH_CONFIG": str(folder / "config.yaml"),
        "PYTHONPATH": os.pathsep.join(str(folder / name) for name in ("own", "site")),
    }
    command = [sys.executable, "-c", LOOK]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"top": names, "own": str(own)}


def test_one_file_takes_up_the_dags_beside_those_of_others(looked):
    assert looked["errors"] == {}
    assert looked["dags"] == sorted([*OURS, "example_deploy_when_healthy", "ingest", "pipeline"])


def test_no_module_pool_or_asset_of_ours_has_a_name_of_theirs(looked):
    assert {name for name in looked["top"] if not name.endswith(".dist-info")} == {"partition_health"}
    assert all(path.startswith(looked["own"]) for path in looked["modules"].values())
    assert {pool for dag_id in OURS for pool in looked["tasks"][dag_id]} == {"default_pool", "partition_health_writer"}
    assert {name for dag_id in OURS for name in looked["outlets"][dag_id]} == {
        f"partition_health_{name}" for name in ("ingested", "judged", "replayed")
    }
    assert {"ingest", "pipeline", "partition_health_writer"} <= set(looked["pools"])


def test_theirs_and_the_example_run(looked):
    assert looked["ran"] == {
        "ingest": {"health": "success"},
        "pipeline": {"health": "success"},
        "example": {"is_healthy": "success", "deploy": "success"},
    }


def test_airflow_lists_the_provider_with_its_link_and_its_kind_of_connection(looked):
    assert looked["provider"]
    assert looked["connection"] == "partition_health.dags.secrets.SecretHook"
    assert looked["links"] == ["partition_health.dags.report_link.ReportLink"]
