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
from pipeline.storage.rows import load_rows
from pipeline.storage.window_status import trust_windows
from pipeline.tables import TABLES
from tests.batches import make_batch, make_records
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, differences, plan, stored
from tests.spark.conftest import STRATEGY

TOPICS = ("orders", "audit", "codec-zstd", "regions")
EXTREME = "times"
BEYOND = (2**62, -(2**62), 2**63 - 1, -5, 253_402_300_800_000)
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


def write_extremes(folder, start_ms):
    """A batch of three records for each timestamp, extreme ones between sound ones of the same minute."""
    log = folder / "brokers/0" / f"{EXTREME}-0"
    log.mkdir(parents=True)
    stamps = [stamp for index, beyond in enumerate(BEYOND) for stamp in (start_ms + index, beyond)] + [start_ms + 50]
    batches = []
    for index, stamp in enumerate(stamps):
        records = make_records(3, base_offset=3 * index, start_ms=start_ms, key=b"k%d")
        base_ms = start_ms if abs(stamp - start_ms) < 10**9 else stamp
        batches.append(make_batch(records, max_timestamp_ms=stamp, base_timestamp_ms=base_ms))
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    (log / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    (log / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return stamps


@pytest.fixture(scope="module")
def done(spark, part, tmp_path_factory):
    """Runs over two minutes, one way each, and the extreme topic's timestamps."""
    stamps, runs = write_extremes(part.folder, part.span(3, 5).start_ms), {}
    for name, engine, few_rows in (("few", spark, 10**6), ("many", spark, MANY_ROWS), ("held", InProcess(), 10**6)):
        keys = {"strategies": [STRATEGY], "partition_counts": [7]}
        folder = tmp_path_factory.mktemp(name)
        config = part.write_config(folder, topics=(*FEWER, EXTREME), sources=ALL_SOURCES, keys=keys)
        run = runs[name] = plan(config, part.span(3, 5))
        ingest.run(engine, run, few_rows=few_rows)
        trust_windows(run.warehouse, run.cluster_name, run.windows)
        score_health.run(engine, run, run.windows, few_rows=few_rows)
    return {name: run.warehouse for name, run in runs.items()}, stamps


@pytest.mark.parametrize("way", ["many", "held"])
def test_many_rows_and_no_spark_give_the_tables_that_few_rows_give(done, way):
    warehouses, _ = done
    assert differences(warehouses["few"], warehouses[way]) == {}


@pytest.mark.parametrize("way", ["few", "many", "held"])
def test_a_producers_timestamps_stop_no_ingest(done, way):
    """Timestamps no calendar holds, among sound ones: all is ingested, and the batches keep their place in the log."""
    warehouses, stamps = done
    batches = [row for row in stored(warehouses[way], "silver.record_batches") if row["topic"] == EXTREME]
    assert sum(row["record_count"] for row in batches) == 3 * len(stamps)
    assert sum(row["is_time_outlier"] for row in batches) == len(BEYOND)
    assert [row["max_timestamp"] is None for row in sorted(batches, key=lambda row: row["base_offset"])] == [
        stamp in BEYOND for stamp in stamps
    ]
    for table in TABLES:
        load_rows(warehouses[way], table).to_pylist()  # every instant is one that Python holds
