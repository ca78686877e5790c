"""Ingest with executors in processes of their own. Oracle: the same ingest in local mode."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.jobs import ingest
from tests.spark.capture_runs import differences, plan

TOPICS = ("audit", "clicks", "ledger")
SOURCES = ("log_directories", "producer_metrics")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def on_cluster(capture, tmp_path_factory):
    """The warehouse that the cluster wrote, and what the program printed."""
    folder = tmp_path_factory.mktemp("cluster")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=("producers/clicks",))
    config = part.write_config(folder, topics=TOPICS, sources=SOURCES)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.integration.ingest_on_cluster"),
            *(str(folder / "partition-health.yaml"), str(capture.span())),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return part, config.warehouse, json.loads(done.stdout)


def test_both_executors_read_segments(on_cluster):
    part, _, told = on_cluster
    assert len(told["tasks"]) == 2
    assert min(told["tasks"].values()) > 0
    by_executor = [set(segments) for segments in told["segments"]]
    assert len(by_executor) == 2
    assert not by_executor[0] & by_executor[1]
    on_disk = {
        f"{log.parent.name}-{int(log.stem)}"
        for log in (part.folder / "brokers").glob("*/*/*.log")
        if log.parent.name.rpartition("-")[0] in TOPICS
    }
    assert by_executor[0] | by_executor[1] == on_disk
    assert min(map(len, by_executor)) > len(on_disk) / 4


def test_the_tables_equal_those_of_local_mode(on_cluster, spark, tmp_path):
    part, warehouse, _ = on_cluster
    config = part.write_config(tmp_path, topics=TOPICS, sources=SOURCES)
    ingest.run(spark, plan(config, part.span()))
    assert differences(warehouse, config.warehouse) == {}
