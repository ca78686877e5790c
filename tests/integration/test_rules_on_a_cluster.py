"""The further rules on the state of a real cluster with a dead broker. Oracle: Kafka's own tools."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer

from expectations.gates import check_health
from pipeline.config_file import load_config
from pipeline.jobs import ingest, judge_health, measure_rules, score_health
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.live.connection import connect
from pipeline.sources.live.state import read_live_state
from pipeline.storage.window_status import trust_windows
from tests.config_files import write_configuration
from tests.integration.live.runs import live_source, wait_for_checkpoints, wait_until
from tests.lab.cluster import run_tool, start_cluster
from tests.lab.live_traffic import MINUTE_MS, coming_minutes
from tests.lab.process import PATIENCE_S
from tests.spark.capture_runs import stored

HOUR_MS = 3_600_000
TOPICS = {
    "pairs": ("0:1,1:0,2:0,0:2,1:2", {"min.insync.replicas": 2}),
    "single": ("0,1", {}),
    "held": ("0", {"retention.ms": HOUR_MS, "segment.bytes": 1_048_576}),
}
DEAD = 2
VALUE = bytes(1_000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Broker 2 is dead, two consumers of one group are alive, and a topic's retention has not run yet."""
    settings = {"log.initial.task.delay.ms": str(HOUR_MS)}
    controller = {"auto.leader.rebalance.enable": "false"}
    with start_cluster(
        tmp_path_factory.mktemp("rules"), 3, settings=settings, controller_settings=controller, is_brief=True
    ) as running:
        for topic, (assignment, configs) in TOPICS.items():
            running.create_topic(topic, assignment, **configs)
        running.kill_broker(DEAD)
        wait_until(lambda: len(listed(running, "--under-replicated-partitions")) == 3, "partition short of replicas")
        yield running


def listed(cluster, *options):
    """Lines about partitions that the tool prints."""
    bootstrap = f"127.0.0.1:{cluster.brokers[0].internal_port}"
    text = run(cluster, "kafka-topics", "--bootstrap-server", bootstrap, "--describe", *options)
    return [line for line in text.splitlines() if "\tPartition: " in line and "Topic: __" not in line]


def run(cluster, tool, *arguments):
    """A tool, asked of brokers that live: the cluster's own method names the dead one too."""
    return run_tool(tool, *arguments, artifacts=cluster.artifacts)


def produce(cluster, start_ms):
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{cluster.brokers[0].client_port}", "acks": "1"})
    for number in range(300):
        producer.produce("single", VALUE, partition=0 if number % 3 else 1, timestamp=start_ms + number)
        producer.produce("pairs", VALUE, partition=number % 5, timestamp=start_ms + number)
    for number in range(4_000):  # 4 MB in segments of 1 MiB, three hours old
        producer.produce("held", VALUE, partition=0, timestamp=start_ms - 3 * HOUR_MS + number)
        if number % 500 == 0:
            producer.flush()
    assert producer.flush(PATIENCE_S) == 0


@pytest.fixture(scope="module")
def measured(spark, cluster, tmp_path_factory):
    """Rule → subject → row, of the minute to come: by then everything has happened."""
    folder = tmp_path_factory.mktemp("tables")
    start_ms = coming_minutes()
    produce(cluster, start_ms)
    describe_group(cluster, folder / f"groups-{start_ms + 1_000}.txt")
    # Records above the high watermark on disk, up to 5 s old, are no traffic yet; below min.insync.replicas they stay so.
    wait_for_checkpoints(cluster, topics=("single", "held"))
    config = write_config(folder, cluster)
    window = TimeWindow(start_ms, start_ms + MINUTE_MS)
    (context,) = plan_runs(config, window, run_id="test", now_ms=window.end_ms + MINUTE_MS)
    ingest.run(spark, context)
    trust_windows(context.warehouse, context.cluster_name, context.windows)
    score_health.run(spark, context, context.windows)
    measure_rules.run(context, context.windows)
    verdicts = judge_health.judge_further_rules(context, start_ms)
    report = check_health(context, verdicts)
    rows: dict[str, dict] = {}
    for row in stored(context.warehouse, "gold.rule_measures"):
        rows.setdefault(row["rule"], {})[row["subject"]] = row
    return rows, report, config


def own_one_each(consumers):
    for consumer in consumers:
        consumer.poll(0.2)
    return [len(consumer.assignment()) for consumer in consumers] == [1, 1]


def describe_group(cluster, path):
    """Two consumers of `single`, described by the tool while they own their partitions."""
    bootstrap = f"127.0.0.1:{cluster.brokers[0].client_port}"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "readers",
        "partition.assignment.strategy": "range",
        "auto.offset.reset": "earliest",
    }
    consumers = [Consumer(settings) for _ in range(2)]
    try:
        for consumer in consumers:
            consumer.subscribe(["single"])
        wait_until(lambda: own_one_each(consumers), "partition for each consumer")
        internal = f"127.0.0.1:{cluster.brokers[0].internal_port}"
        path.write_text(
            run(cluster, "kafka-consumer-groups", "--bootstrap-server", internal, "--describe", "--group", "readers")
        )
    finally:
        for consumer in consumers:
            consumer.close()


def write_config(folder, cluster):
    sources = [
        {"kind": "log_directories", "paths": [str(b.log_directory) for b in cluster.brokers if b.node_id != DEAD]},
        {"kind": "consumer_groups", "paths": [str(path) for path in folder.glob("groups-*.txt")]},
    ]
    lab = {"sources": sources, "topics": list(TOPICS), "rules": {"below_min_isr": {"severity": "critical"}}}
    return load_config(write_configuration(folder, {"lab": lab}, window="PT1M", keys={"secret": "secret"}))


def values(measured, rule):
    return {subject: row["value"] for subject, row in measured[0][rule].items()}


def test_partitions_short_of_replicas_are_those_of_the_tool(measured, cluster):
    short = listed(cluster, "--under-replicated-partitions")
    below = listed(cluster, "--under-min-isr-partitions")
    assert (len(short), len(below)) == (3, 3)
    for rule, lines in (("under_replicated", short), ("below_min_isr", below), ("lagging_replicas", short)):
        found = values(measured, rule)
        assert found["topic pairs"] == len(lines), rule
        assert found["topic single"] == 0, rule
    assert set(values(measured, "leaderless").values()) == {0}


def test_leaders_that_are_not_the_preferred_ones_are_counted(measured):
    """Broker 2 should lead one of the five pairs and cannot; the others lead all of theirs."""
    assert values(measured, "preferred_leader") == {"broker 0": 0.0, "broker 1": 0.0, "broker 2": 1.0}


def test_segments_past_their_retention_are_told(measured):
    found = values(measured, "segments_past_retention")
    assert found["topic held"] >= 3
    assert found["topic single"] == 0


def test_a_group_is_told_how_unevenly_it_reads_and_what_assignors_would_change(measured):
    """Two members, a partition each: 100 and 200 records of one size."""
    (row,) = measured[0]["assignment_skew"].values()
    assert row["value"] == pytest.approx(4 / 3, abs=0.01)
    for assignor in ("range", "roundrobin", "sticky"):
        assert f"{assignor} 1.33" in row["detail"]


def test_volumes_of_log_directories_are_what_the_file_system_says(cluster):
    """Others write to the same volume meanwhile: what is left is known to a tenth."""
    alive = {broker.node_id: broker.log_directory for broker in cluster.brokers if broker.node_id != DEAD}
    with connect(live_source(cluster)) as connection:
        spaces = read_live_state(connection).spaces
    assert spaces.keys() == alive.keys()
    for broker_id, folder in alive.items():
        volume = os.statvfs(folder)
        (space,) = spaces[broker_id].values()
        assert space.total_bytes == volume.f_blocks * volume.f_frsize
        assert space.usable_bytes == pytest.approx(volume.f_bavail * volume.f_frsize, rel=0.1)


def test_the_critical_rule_fails_the_gate_and_names_the_topic(measured):
    (check,) = measured[1].failures
    assert [row["subject"] for row in check.rows] == ["topic pairs"]
    assert "min.insync.replicas" in check.rows[0]["reason"]


@pytest.mark.parametrize("change", [("--lose-broker", str(DEAD)), ("--grow", "single=3")])
def test_a_plan_empties_the_dead_broker_and_the_cluster_accepts_it(measured, cluster, tmp_path, change):
    """Kafka refuses a plan that names a broker which is not registered; a dead one would never catch up."""
    start = next(iter(measured[0]["under_replicated"].values()))["window_start"]
    wait_until(lambda: datetime.now(UTC) > start, "beginning of the judged minute")  # `what-if` knows no window to come
    path, plan = measured[2].warehouse.parent / "partition-health.yaml", tmp_path / "plan.json"
    command = [sys.executable, "-m", "pipeline", "what-if", *change, "--plan", plan, "--config", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    moved = {(one["topic"], one["partition"]): one["replicas"] for one in json.loads(plan.read_text())["partitions"]}
    assert DEAD not in {replica for replicas in moved.values() for replica in replicas}
    assert {("pairs", number) for number in (2, 3, 4)} <= moved.keys()  # those that it holds
    server = ("--bootstrap-server", f"127.0.0.1:{cluster.brokers[0].internal_port}")
    told = run(cluster, "kafka-reassign-partitions", *server, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment" in told
    verify = ("kafka-reassign-partitions", *server, "--reassignment-json-file", str(plan), "--verify")
    wait_until(lambda: "is still in progress" not in run(cluster, *verify), "end of the moves")
