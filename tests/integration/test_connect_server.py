"""A run by a thin client of a real Spark Connect server, without Java on the client's side. Oracle: the same run on Sail."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pipeline.environment import cache_directory
from pipeline.storage.java import find_java, write_java_shim
from tests.integration.standalone_cluster import FOR_A_MINUTE, ROOT, SPARK_HOME
from tests.lab.process import PATIENCE_S, free_ports
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, differences, stored
from tests.spark.conftest import STRATEGY

TOPICS = ("orders", "audit", "codec-zstd", "regions")
FIRST_MINUTE, LAST_MINUTE = 3, 5
STARTED = "Spark Connect server started at"
DONE = {0, 4}  # healthy or not
JAVA = '#!/bin/sh\necho "$@" >> "{note}"\nexit 1\n'
"""In the client's `JAVA_HOME` and on its `PATH`: notes that it was asked for, and serves nobody."""


@contextmanager
def connect_server(folder):
    """Spark's own server on this machine, from PySpark's wheel, without Delta, with our package for its workers; its address."""
    java = write_java_shim(find_java(), cache_directory() / "spark")
    (port,) = free_ports(1)
    settings = {
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "of-the-server"),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": FOR_A_MINUTE,
    }
    command = [
        *(SPARK_HOME / "bin/spark-submit", "--master", "local[2]", "--driver-memory", "1g"),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
    ]
    variables = {
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    log = folder / "server.log"
    with log.open("w") as written:
        server = subprocess.Popen(command, env={**os.environ, **variables}, stdout=written, stderr=written, cwd=folder)
    try:
        while STARTED not in log.read_text():
            try:
                server.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(log.read_text()[-4000:])
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def run(config, span, variables):
    command = [sys.executable, "-m", "pipeline", "run", "--config", str(config), "--window", str(span), "--no-notify"]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )


def put_java(folder):
    """Variables of a machine without a Java that serves, and where it notes that somebody looked for one."""
    note, program = folder / "asked-for-java", folder / "java/bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA.format(note=note))
    program.chmod(0o755)
    return {"JAVA_HOME": str(program.parents[1]), "PATH": str(program.parent)}, note


@pytest.fixture(scope="module")
def ran(capture, tmp_path_factory):
    """Warehouses that the server's tasks and Sail's wrote, and where a Java would have been noted."""
    folder = tmp_path_factory.mktemp("connect")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    keys = {"secret": str(folder / "shared.secret"), "strategies": [STRATEGY], "partition_counts": [7]}
    without_java, note = put_java(folder)
    with connect_server(folder) as address:
        engines = {
            "connect": {"remote": address, "conf": {"spark.sql.shuffle.partitions": "2"}},
            "sail": {"engine": "sail"},
        }
        for name, spark in engines.items():
            part.write_config(folder / name, topics=TOPICS, sources=ALL_SOURCES, keys=keys, spark=spark)
            config = folder / name / "partition-health.yaml"
            done = run(config, part.span(FIRST_MINUTE, LAST_MINUTE), without_java)
            assert done.returncode in DONE, done.stderr[-6000:] + (folder / "server.log").read_text()[-6000:]
    return folder / "connect/warehouse", folder / "sail/warehouse", note


def test_the_tables_equal_those_of_sail_to_the_last_digit(ran):
    connect, sail, _ = ran
    assert differences(connect, sail) == {}
    assert all(stored(connect, name) for name in ("silver.record_batches", "gold.replay_results", "gold.verdicts"))


def test_the_client_needs_no_java(ran):
    _, _, note = ran
    assert not note.exists()


def test_no_stage_leaves_parts_behind(ran):
    for warehouse in ran[:2]:
        assert list((warehouse / "_staging").iterdir()) == []
