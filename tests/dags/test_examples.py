"""Example DAGs after the ranged run, in whose last window broker 1 is slow. Oracles: its tables, and events made by hand."""

import json
import os
import sys
from pathlib import Path

import pytest

from dags.serve import DAGS_FOLDER
from pipeline.config_file import load_config
from pipeline.environment import cache_directory
from pipeline.storage.java import find_delta_jars, find_java, write_java_shim
from pipeline.storage.rows import load_rows
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from tests.dags.airflow_process import AirflowHome

BY_DAG = ("example_deploy_when_healthy", "example_run_by_spark_submit", "example_what_if_before_a_change")
OK = {"demo": {"verdict": "ok", "summary": "no broker carries more than its share"}}
LOSE = {"cluster": "demo", "lose_broker": 2, "most_ratio": 0.1}


PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
DAGS = {"PATH": PATH, "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER / "example_dags")}  # ours leaves them out


@pytest.fixture(scope="module")
def examples(ran):
    folder, _ = ran
    home = AirflowHome(folder / "airflow", folder / "ranged/partition-health.yaml", DAGS)
    steps = [
        ("run", BY_DAG[0], None),
        ("judged", OK),
        ("run", BY_DAG[0], None),
        ("judged", {"other": OK["demo"]}),
        ("run", BY_DAG[0], None),
        ("run", BY_DAG[2], LOSE),
    ]
    return home.run_script("run_examples", json.dumps(steps))


@pytest.fixture(scope="module")
def submitted(described, capture_slice, tmp_path_factory):
    """What the example by `spark-submit` did with the first window of the slice, and its configuration."""
    folder, cache = tmp_path_factory.mktemp("submitted"), cache_directory() / "spark"
    config = capture_slice.write_config(folder / "run")
    java = write_java_shim(find_java(), cache)
    spark = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"})}
    spark |= {"DELTA_JARS": ",".join(find_delta_jars(cache, java, {})), "JAVA_HOME": str(java)}
    home = described["home"].copy_to(folder / "airflow", config, **DAGS, **spark, PYSPARK_PYTHON=sys.executable)
    window = {"window": str(capture_slice.windows[0])}
    return home.run_script("run_examples", json.dumps([("run", BY_DAG[1], window)])), load_config(config)


def test_all_load(examples):
    assert (sorted(examples["at_once"]), examples["errors"]) == (list(BY_DAG), {})
    assert examples["at_once"][BY_DAG[0]] == 1  # of two deployments at once the older one may win


def test_spark_submit_runs_the_pipeline_to_its_end(submitted, ranged, capture_slice):
    """Oracle: our own DAGs, which read the same window."""
    done, config = submitted
    assert done["ran"] == [{"run": "success"}]
    names = ("window_start", "broker_id", "size_bytes", "share")
    wanted = {"cluster": "demo", "windows": capture_slice.windows[:1]}
    ours, theirs = (load_rows(one.warehouse, BROKER_SHARE, **wanted, columns=names) for one in (ranged[1], config))
    assert theirs.num_rows == 3
    assert theirs.sort_by("broker_id") == ours.sort_by("broker_id")
    assert load_rows(config.warehouse, VERDICTS, **wanted).num_rows > 0


def test_nothing_is_deployed_while_a_broker_is_hot_or_the_cluster_was_not_judged(examples):
    hot, healthy, unknown = examples["ran"][:3]
    assert hot == unknown == {"is_healthy": "success", "deploy": "skipped"}
    assert healthy == {"is_healthy": "success", "deploy": "success"}


def test_a_change_beyond_the_limit_is_not_made(examples):
    """Of two brokers that are left one has half of the traffic at least, whether it can be predicted or not."""
    assert examples["ran"][3] == {"ask_what_if": "success", "is_bearable": "success", "change": "skipped"}
