"""A window costs few Spark jobs, and gives equal tables whether one process holds its rows or Spark does, in parts.

Oracle: Spark's own event log; the run with few rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from pipeline.engine import InProcess
from pipeline.jobs import ingest, score_health
from pipeline.storage.window_status import trust_windows
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, differences, plan, stored
from tests.spark.conftest import STRATEGY

TOPICS = ("orders", "audit", "codec-zstd", "regions")
FEWER = ("audit", "codec-zstd", "ledger", "regions")
MANY_ROWS = 1_000
"""Fewer than each kind has in two minutes of those: some 6,000 batches and as many records. More parts prove no more."""
MOST_JOBS, MOST_QUERIES = 40, 20


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("part") / "capture", topics={*TOPICS, *FEWER}, scrapes=SCRAPES)


def count_events(folder):
    logs = [path for path in folder.rglob("events_*") if path.is_file()]
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return Counter(json.loads(line)["Event"].rpartition(".")[2] for line in lines)


@pytest.fixture(scope="module")
def ran(part, tmp_path_factory):
    """What `run` of a window leaves, with Spark for all work and as it chooses: folders of tables and of Spark's event log."""
    folders = []
    for name, always in (("spark", True), ("chosen", False)):
        folder = tmp_path_factory.mktemp(name)
        log = folder / "events"
        log.mkdir()
        conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(log), "spark.eventLog.compress": "false"}
        secret = {"secret": str(part.folder.parent / "shared.secret")}
        spark = {"conf": conf, "always": always}
        part.write_config(folder, topics=TOPICS, sources=ALL_SOURCES, keys=secret, spark=spark)
        command = ["-m", "pipeline", "run", "--no-notify", "--config", str(folder / "partition-health.yaml")]
        done = subprocess.run(
            [sys.executable, *command, "--window", str(part.span(3, 4))], check=False, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        folders.append((folder / "warehouse", log))
    return folders


def test_one_window_takes_few_jobs_and_queries(ran):
    (_, log), _ = ran
    events = count_events(log)
    assert 0 < events["SparkListenerJobStart"] <= MOST_JOBS
    assert events["SparkListenerSQLExecutionStart"] <= MOST_QUERIES


def test_one_window_gives_equal_tables_without_spark(ran):
    (with_spark, _), (without, log) = ran
    assert count_events(log) == {}
    assert differences(with_spark, without) == {}
    assert stored(without, "gold.replay_results")


def test_many_rows_and_no_spark_give_the_tables_that_few_rows_give(spark, part, tmp_path):
    ran = []
    for name, engine, few_rows in (("few", spark, 10**6), ("many", spark, MANY_ROWS), ("held", InProcess(), 10**6)):
        keys = {"strategies": [STRATEGY], "partition_counts": [7]}
        config = part.write_config(tmp_path / name, topics=FEWER, sources=ALL_SOURCES, keys=keys)
        run = plan(config, part.span(3, 5))
        ingest.run(engine, run, few_rows=few_rows)
        trust_windows(run.warehouse, run.cluster_name, run.windows)
        score_health.run(engine, run, run.windows, few_rows=few_rows)
        ran.append(run.warehouse)
    assert [differences(ran[0], other) for other in ran[1:]] == [{}, {}]
