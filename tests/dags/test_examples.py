"""Example DAGs after the ranged run, in whose last window broker 1 is slow. Oracles: its tables, and events made by hand."""

import json
import os
import sys
from pathlib import Path

import pytest

from dags.airflow_home import DAGS_FOLDER
from tests.dags.airflow_process import AirflowHome

BY_DAG = ("example_deploy_when_healthy", "example_run_by_spark_submit", "example_what_if_before_a_change")
OK = {"demo": {"verdict": "ok", "summary": "no broker carries more than its share"}}
LOSE = {"cluster": "demo", "lose_broker": 2, "most_ratio": 0.1}


@pytest.fixture(scope="module")
def examples(ran):
    folder, _ = ran
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    dags = {"AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER / "example_dags")}  # ours leaves them out
    home = AirflowHome(folder / "airflow", folder / "ranged/partition-health.yaml", {"PATH": path} | dags)
    steps = [
        ("run", BY_DAG[0], None),
        ("judged", OK),
        ("run", BY_DAG[0], None),
        ("judged", {"other": OK["demo"]}),
        ("run", BY_DAG[0], None),
        ("run", BY_DAG[2], LOSE),
    ]
    return home.run_script("run_examples", json.dumps(steps))


def test_all_load_but_for_sparks_provider_which_is_no_requirement(examples):
    assert {*examples["dags"], BY_DAG[1]} == set(BY_DAG)
    assert set(examples["errors"]) <= {"run_by_spark_submit.py"}
    assert all("airflow.providers.apache" in text for text in examples["errors"].values())


def test_nothing_is_deployed_while_a_broker_is_hot_or_the_cluster_was_not_judged(examples):
    hot, healthy, unknown = examples["ran"][:3]
    assert hot == unknown == {"is_healthy": "success", "deploy": "skipped"}
    assert healthy == {"is_healthy": "success", "deploy": "success"}


def test_a_change_beyond_the_limit_is_not_made(examples):
    """Of two brokers that are left one has half of the traffic at least, whether it can be predicted or not."""
    assert examples["ran"][3] == {"ask_what_if": "success", "is_bearable": "success", "change": "skipped"}
