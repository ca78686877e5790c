"""Ingest, replay and health on a standalone cluster of two workers. Oracle: the same in local mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pipeline.cli.steps import STEPS
from pipeline.config_file import load_config
from pipeline.tables.replay import REPLAY
from pipeline.tables.sessions import PRODUCER_SESSIONS, SERVICE_MODELS
from tests.integration.standalone_cluster import ROOT, standalone_cluster
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
    part.write_config(on_cluster.parent, topics=TOPICS, sources=SOURCES, **document)
    with standalone_cluster(folder) as cluster:
        done = subprocess.run(
            [sys.executable, "-m", "tests.integration.replay_on_cluster", cluster.address, str(on_cluster), str(span)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return config.warehouse, load_config(on_cluster).warehouse, json.loads(done.stdout)["tasks"]


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
