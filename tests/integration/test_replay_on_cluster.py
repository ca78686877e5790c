"""Ingest, replay and health on a standalone cluster of two workers, by `docker/spark/submit.sh`. Oracle: the same in local mode.

Executors run the interpreter of an environment that they unpack, as the template `docker/spark/standalone.yaml` has it.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest
import yaml

from pipeline.config_file import load_config
from pipeline.environment import cache_directory
from pipeline.steps import STEPS
from pipeline.storage.java import find_delta_jars, find_java, write_java_shim
from pipeline.tables.replay import REPLAY
from pipeline.tables.silver import PRODUCER_SESSIONS, SERVICE_MODELS
from tests.integration.ingest_on_cluster import FOR_A_MINUTE
from tests.integration.standalone_cluster import CONF, ROOT, standalone_cluster
from tests.spark.capture_runs import differences, plan, stable_columns, stored

TOPICS = ("orders", "payments", "clicks")
SOURCES = ("log_directories", "producer_metrics")
FIRST_MINUTE, LAST_MINUTE = 4, 6
REPLAY_SETTINGS = {"seeds": 3}
CANDIDATES = [
    {"name": "new", "client": "4.1.1"},
    {"name": "old", "partitioner": "java-sticky-2.4"},
    {"name": "more", "partitions": "x2"},
]
TEMPLATE = ROOT / "docker/spark/standalone.yaml"
DONE = {0, 4}  # healthy or not


def pack_environment(folder):
    """An environment whose interpreter is the one that runs here, and notes that it was used."""
    interpreter = folder / "python"
    interpreter.write_text(f'#!/bin/sh\ntouch "{folder}/used-$PPID"\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as archive:
        archive.add(interpreter, "bin/python")
    return folder / "environment.tar.gz"


def configure(master, folder):
    """The template's section `spark`, for this machine, with a log of what executors do."""
    spark = yaml.safe_load(TEMPLATE.read_text())["spark"]
    assert spark["conf"]["spark.archives"].endswith("#environment")
    log = folder / "events"
    log.mkdir()
    here = {
        "spark.archives": f"{pack_environment(folder)}#environment",
        **CONF,
        "spark.executor.extraJavaOptions": FOR_A_MINUTE,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(log),
        "spark.eventLog.compress": "false",
    }
    return {**spark, "master": master, "driver_memory": "1g", "conf": spark["conf"] | here}, log


def submit(config, span, master):
    cache = cache_directory() / "spark"
    jars = find_delta_jars(cache, write_java_shim(find_java(), cache), {})
    variables = {"SPARK_MASTER": master, "DELTA_JARS": ",".join(jars), "PYTHON": sys.executable, "DRIVER_MEMORY": "1g"}
    command = ["run", "--no-notify", "--config", str(config), "--window", str(span)]
    done = subprocess.run(
        [ROOT / "docker/spark/submit.sh", *command],
        env={**os.environ, "JAVA_HOME": str(find_java().home), "JDK_JAVA_OPTIONS": FOR_A_MINUTE, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in DONE, done.stderr[-4000:] + done.stdout[-2000:]


def count_tasks(log):
    """Tasks by executor, from Spark's own event log."""
    lines = [line for path in log.rglob("events_*") for line in path.read_text().splitlines()]
    events = [json.loads(line) for line in lines if '"SparkListenerTaskEnd"' in line]
    return Counter(event["Task Info"]["Executor ID"] for event in events)


@pytest.fixture(scope="module")
def replayed(spark, capture, tmp_path_factory):
    """The warehouses that local mode and the cluster wrote, and the tasks of each executor."""
    folder = tmp_path_factory.mktemp("replays")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=("producers/orders", "producers/payments"))
    span = capture.span(FIRST_MINUTE, LAST_MINUTE)
    document = {"candidates": CANDIDATES, "replay": REPLAY_SETTINGS}
    config = part.write_config(folder / "local", topics=TOPICS, sources=SOURCES, **document)
    run = plan(config, span)
    for step in STEPS:
        step(spark, run)
    on_cluster = folder / "cluster/partition-health.yaml"
    with standalone_cluster(folder) as cluster:
        settings, log = configure(cluster.address, folder)
        part.write_config(on_cluster.parent, topics=TOPICS, sources=SOURCES, spark=settings, **document)
        submit(on_cluster, span, cluster.address)
    assert list(Path(folder).glob("used-*"))
    return config.warehouse, load_config(on_cluster).warehouse, count_tasks(log)


def test_both_workers_replay(replayed):
    _, _, tasks = replayed
    assert len(tasks) == 2
    assert min(tasks.values()) >= 3


@pytest.mark.parametrize("table", [*REPLAY, PRODUCER_SESSIONS, SERVICE_MODELS], ids=lambda table: table.name)
def test_the_rows_equal_those_of_local_mode(replayed, table):
    local, cluster, _ = replayed
    rows = stored(local, table.name, *stable_columns(table))
    assert rows
    assert stored(cluster, table.name, *stable_columns(table)) == rows


def test_the_rows_of_every_table_equal_those_of_local_mode(replayed):
    local, cluster, _ = replayed
    assert differences(cluster, local) == {}
    judged = [stored(local, name) for name in ("silver.record_batches", "gold.verdicts", "gold.rule_measures")]
    assert all(judged)
