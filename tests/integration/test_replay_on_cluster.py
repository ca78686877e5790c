"""Ingest, replay and health on a standalone cluster of two workers, with `docker/spark/submit.sh` and without. Oracle: Sail.

Executors run the interpreter of an environment that they unpack, as the template `docker/spark/standalone.yaml` has it.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections import Counter

import pytest
import yaml

from pipeline.environment import cache_directory
from pipeline.steps import STEPS
from pipeline.storage.java import find_delta_jars, find_java, write_java_shim
from pipeline.storage.tables_on_disk import count_rows
from pipeline.tables.gold import VERDICTS
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.replay import REPLAY
from pipeline.tables.silver import PRODUCER_SESSIONS, RECORD_BATCHES, SERVICE_MODELS
from tests.integration.standalone_cluster import CONF, FOR_A_MINUTE, ROOT, standalone_cluster
from tests.spark.capture_runs import differences, plan

TOPICS = ("orders", "payments", "clicks", "ledger")
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
    log.mkdir(parents=True)
    here = {
        "spark.archives": f"{pack_environment(folder)}#environment",
        **CONF,
        "spark.executor.extraJavaOptions": FOR_A_MINUTE,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(log),
        "spark.eventLog.compress": "false",
    }
    return {**spark, "master": master, "driver_memory": "1g", "conf": spark["conf"] | here}, log


def list_submit_variables(master):
    cache = cache_directory() / "spark"
    jars = ",".join(find_delta_jars(cache, write_java_shim(find_java(), cache), {}))
    of_java = {"JAVA_HOME": str(find_java().home), "JDK_JAVA_OPTIONS": FOR_A_MINUTE}
    return of_java | {"SPARK_MASTER": master, "DELTA_JARS": jars, "PYTHON": sys.executable, "DRIVER_MEMORY": "1g"}


WAYS = {
    "submitted": ([ROOT / "docker/spark/submit.sh"], list_submit_variables),
    "not submitted": ([sys.executable, "-m", "pipeline"], lambda _: {"PYTHONPATH": str(ROOT)}),
}


def count_tasks(log, of=""):
    """Tasks by executor, of all jobs or those so described, from Spark's own event log."""
    lines = [line for path in log.rglob("events_*") if path.is_file() for line in path.read_text().splitlines()]
    events = [
        json.loads(line) for line in lines if '"SparkListenerTaskEnd"' in line or '"SparkListenerJobStart"' in line
    ]
    jobs = [event for event in events if event.get("Properties", {}).get("spark.job.description", "").endswith(of)]
    stages = {stage for job in jobs for stage in job.get("Stage IDs", ())}
    return Counter(one["Task Info"]["Executor ID"] for one in events if one.get("Stage ID") in stages)


@pytest.fixture(scope="module")
def local(spark, capture, tmp_path_factory):
    """The part of the capture, its span, the settings of all runs, and the warehouse that Sail wrote."""
    folder = tmp_path_factory.mktemp("local")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=("producers/orders", "producers/payments"))
    span = capture.span(FIRST_MINUTE, LAST_MINUTE)
    settings = {"topics": TOPICS, "sources": SOURCES, "candidates": CANDIDATES, "replay": REPLAY_SETTINGS}
    config = part.write_config(folder, **settings)
    run = plan(config, span)
    for step in STEPS:
        step(spark, run)
    return part, span, settings, config.warehouse


@pytest.fixture(scope="module", params=WAYS)
def ran(request, local, tmp_path_factory):
    """The warehouse that the cluster wrote, and its log."""
    part, span, settings, _ = local
    folder = tmp_path_factory.mktemp("cluster")
    command, list_variables = WAYS[request.param]
    with standalone_cluster(folder) as cluster:
        spark, log = configure(cluster.address, folder)
        config = part.write_config(folder, spark=spark, **settings)
        done = subprocess.run(
            [*command, "run", "--no-notify", "--config", folder / "partition-health.yaml", "--window", str(span)],
            env=os.environ | list_variables(cluster.address),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode in DONE, done.stderr[-4000:] + done.stdout[-2000:]
    assert list(folder.glob("used-*"))
    return config.warehouse, log


@pytest.mark.parametrize(("of", "least"), [("", 3), ("read logs and metrics", 1)])
def test_both_workers_have_tasks(ran, of, least):
    tasks = count_tasks(ran[1], of)
    assert len(tasks) == 2
    assert min(tasks.values()) >= least


def test_the_rows_of_every_table_equal_those_of_sail(local, ran):
    assert differences(ran[0], local[-1]) == {}
    counts = count_rows(ran[0])
    filled = (*REPLAY, PRODUCER_SESSIONS, SERVICE_MODELS, RECORD_BATCHES, VERDICTS, RULE_MEASURES)
    assert all(counts[table.name] for table in filled)
