"""A window gives equal tables on classic Spark and on Sail, with few queries; nobody's timestamps stop it.

Oracle: Spark's own event log; the other engine.
"""

import json
import subprocess
import sys

import pytest

from pipeline.jobs import ingest, score_health
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import count_rows
from pipeline.storage.window_status import trust_windows
from pipeline.tables import TABLES
from tests.batches import make_batch, make_records
from tests.lab.scale.event_log import list_queries
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, differences, plan, stored
from tests.spark.conftest import STRATEGY

TOPICS = ("orders", "audit", "codec-zstd", "regions")
EXTREME = "times"
BEYOND = (2**62, -(2**62), 2**63 - 1, -5, 253_402_300_800_000)
FEWER = ("audit", "codec-zstd", "ledger", "regions")
LEAST_QUERIES, MOST_QUERIES = 10, 60
"""Statements of Spark SQL and DataFrames in a run over one window; Delta's own, below them, are not counted."""


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("part") / "capture", topics={*TOPICS, *FEWER}, scrapes=SCRAPES)


GROWING = (
    *("bronze.brokers", "bronze.log_segments"),
    *("bronze.cluster_state", "bronze.metric_samples", "silver.record_batches", "silver.partition_traffic"),
    *("silver.key_traffic", "silver.key_hashes", "silver.key_answers", "silver.key_matrices", "silver.arrivals"),
    *("silver.producer_nodes", "gold.partition_health", "gold.topic_health", "gold.hot_keys", "gold.latency"),
    *("gold.broker_share", "silver.producer_sessions", "silver.service_models", "gold.replay_results"),
    *("gold.replay_brokers", "gold.scenario_comparison", "gold.back_tests", "gold.hash_verdicts", "gold.group_balance"),
    "gold.zone_traffic",
)
"""Tables that grow with records, keys, partitions or clients."""
BY_DRIVER = (
    *(
        "bronze.window_status",
        "bronze.consumer_groups",
        "bronze.quarantine",
    ),  # by source, as Kafka's tools say, by problem
    *("silver.broker_metrics", "silver.broker_topics", "silver.broker_request_times"),  # by broker
    *("gold.rule_measures", "gold.verdicts", "gold.recommendations", "gold.promises"),
    *("gold.forecast", "gold.incidents", "gold.alert_outbox"),
)


@pytest.fixture(scope="module")
def ran(part, tmp_path_factory):
    """What `run` of a window leaves on both engines: folders of tables and of Spark's event log."""
    folders = []
    for engine in ("spark", "sail"):
        folder = tmp_path_factory.mktemp(engine)
        log = folder / "events"
        log.mkdir()
        conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(log), "spark.eventLog.compress": "false"}
        secret = {"secret": str(part.folder.parent / "shared.secret")}
        spark = {"engine": engine, "conf": conf if engine == "spark" else {}}
        keys = secret | {"strategies": [STRATEGY], "partition_counts": [7]}
        zones = {"brokers": {0: "a", 1: "b", 2: "c"}}
        part.write_config(folder, topics=TOPICS, sources=ALL_SOURCES, keys=keys, spark=spark, zones=zones)
        command = ["-m", "pipeline", "run", "--no-notify", "--config", str(folder / "partition-health.yaml")]
        done = subprocess.run(
            [sys.executable, *command, "--window", str(part.span(3, 4))], check=False, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        folders.append((folder / "warehouse", log))
    return folders


def test_one_window_takes_few_queries(ran):
    (_, log), (_, none) = ran
    assert LEAST_QUERIES <= len(list_queries(log)) <= MOST_QUERIES
    assert list_queries(none) == []


def test_one_window_gives_equal_tables_on_both_engines(ran):
    (classic, _), (sail, _) = ran
    assert differences(classic, sail) == {}
    assert stored(sail, "gold.replay_results")


def is_made_by_tasks(warehouse, name):
    """Whether the newest commit names files that tasks wrote: such a commit counts its rows itself."""
    commits = sorted(warehouse.joinpath(*name.split("."), "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in commits[-1].read_text().splitlines()]
    return any("num_added_rows" in action["commitInfo"] for action in actions if "commitInfo" in action)


def test_every_table_that_grows_is_made_by_tasks(ran):
    """A table that is in neither list wants a decision."""
    assert {table.name for table in TABLES} == {*GROWING, *BY_DRIVER}
    for warehouse, _ in ran:
        filled = [name for name, count in count_rows(warehouse).items() if name in GROWING and count]
        assert {*GROWING} - {*filled} <= {
            "silver.key_matrices",
            "gold.group_balance",
            "gold.zone_traffic",
        }  # sums over keys without names, groups, racks
        assert [name for name in filled if not is_made_by_tasks(warehouse, name)] == []


def test_no_stage_leaves_parts_behind(ran):
    for warehouse, _ in ran:
        assert list((warehouse / "_staging").iterdir()) == []


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
    """A run over two minutes, and the extreme topic's timestamps."""
    stamps = write_extremes(part.folder, part.span(3, 5).start_ms)
    config = part.write_config(tmp_path_factory.mktemp("extreme"), topics=(*FEWER, EXTREME), sources=ALL_SOURCES)
    run = plan(config, part.span(3, 5))
    ingest.run(spark, run)
    trust_windows(run.warehouse, run.cluster_name, run.windows)
    score_health.run(spark, run, run.windows)
    return run.warehouse, stamps


def test_a_producers_timestamps_stop_no_ingest(done):
    """Timestamps no calendar holds, among sound ones: all is ingested, and the batches keep their place in the log."""
    warehouse, stamps = done
    batches = [row for row in stored(warehouse, "silver.record_batches") if row["topic"] == EXTREME]
    assert sum(row["record_count"] for row in batches) == 3 * len(stamps)
    assert sum(row["is_time_outlier"] for row in batches) == len(BEYOND)
    assert [row["max_timestamp"] is None for row in sorted(batches, key=lambda row: row["base_offset"])] == [
        stamp in BEYOND for stamp in stamps
    ]
    for table in TABLES:
        load_rows(warehouse, table).to_pylist()  # every instant is one that Python holds
