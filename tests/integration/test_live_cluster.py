"""A running cluster read through its brokers. Oracle: the same cluster's log directories, read as files."""

from __future__ import annotations

import email
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from confluent_kafka import Producer
from kafka import TopicPartition as ClientTopicPartition

from expectations import gates
from pipeline.codec.scans import HEADER_ROW
from pipeline.codec.segment import scan_headers
from pipeline.config import load_config
from pipeline.jobs import ingest, raise_incidents, score_health
from pipeline.live_source import LiveCluster
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.cluster_state import read_replica_states
from pipeline.sources.live.connection import connected
from pipeline.sources.live.plan import plan_fetches
from pipeline.sources.live.range_scan import scan_range
from pipeline.sources.live.state import read_live_state
from pipeline.sources.log_directories import discover_logs
from tests.lab.artifacts import BROKER_VERSION, OLDER_BROKER_VERSION
from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import MINUTE_MS, MINUTES, RECORDS, TOPICS, coming_minutes, create_topics, produce, send
from tests.spark.capture_runs import stored

pytestmark = pytest.mark.timeout(900)

FIELDS = [name for name in HEADER_ROW.names if name != "position"]
PLACES = ("cluster", "lateness_ms", "segment_base_offset", "missing_offset_count")
"""What depends on where a batch was read from."""


NEWEST_ONLY = pytest.mark.parametrize("cluster", [BROKER_VERSION], indirect=True, scope="module")
"""For what hangs on Spark and takes a minute: the wire formats are compared on both."""


@pytest.fixture(scope="module", params=[BROKER_VERSION, OLDER_BROKER_VERSION])
def cluster(request, tmp_path_factory):
    """Three brokers with traffic stamped with the minutes to come; disks know the high watermarks."""
    with start_cluster(tmp_path_factory.mktemp("live"), 3, version=request.param, heap_mb=256) as running:
        create_topics(running)
        running.start_ms = coming_minutes()
        produce(running.bootstrap, running.start_ms)
        wait_for_checkpoints(running)
        yield running


def wait_for_checkpoints(cluster, timeout_s=60):
    """Until `replication-offset-checkpoint`, written every five seconds, names the end of every log."""
    deadline = time.monotonic() + timeout_s
    while True:
        states, _ = read_replica_states(discover_logs([b.log_directory for b in cluster.brokers]))
        behind = [s for s in states if s.log_end_offset and s.high_watermark != s.log_end_offset]
        if not behind:
            return
        assert time.monotonic() < deadline, behind[:3]
        time.sleep(0.2)


def span_of(cluster):
    return TimeWindow(cluster.start_ms, cluster.start_ms + MINUTES * MINUTE_MS)


def live_source(cluster, **settings):
    return LiveCluster(kind="live_cluster", bootstrap_servers=cluster.bootstrap, **settings)


def write_config(folder, cluster, **clusters):
    disks = {"kind": "log_directories", "paths": [str(b.log_directory) for b in cluster.brokers]}
    live = {
        "kind": "live_cluster",
        "bootstrap_servers": cluster.bootstrap,
        "read_timeout": "PT3S",
        "request_timeout": "PT5S",
    }
    known = {"disks": disks, "live": live, "offsets": {**live, "read": "offsets"}}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "partition-health.yaml"
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "window": "PT1M",
        "keys": {"secret": "secret"},
        "clusters": {
            name: {"sources": [{**known[kind], **more}], "topics": list(TOPICS)}
            for name, (kind, more) in clusters.items()
        },
    }
    path.write_text(yaml.safe_dump(document))
    return load_config(path)


def rows_of(warehouse, name, cluster, *left_out):
    rows = [row for row in stored(warehouse, name) if row["cluster"] == cluster]
    return [{k: v for k, v in row.items() if k not in {*left_out, "cluster", "run_id"}} for row in rows]


def test_fetched_batches_are_those_on_the_leaders_disk(cluster):
    """Every header field, checksum and producer included, of every batch of every partition."""
    source = live_source(cluster)
    now_ms = time.time_ns() // 1_000_000
    folders = {b.node_id: b.log_directory for b in cluster.brokers}
    with connected(source) as connection:
        state = read_live_state(connection, topics=list(TOPICS))
        everything = TimeWindow(0, 2 * now_ms)
        reads, missing = plan_fetches(connection, state, state.in_scope, everything, lateness_ms=0, as_of_ms=now_ms)
        assert missing == ()
        assert state.silent_brokers == {}
        seen = 0
        for read in reads:
            found = scan_range(connection, read, now_ms)
            assert found.lost == ()
            folder = folders[read.leader_id] / f"{read.topic}-{read.partition}"
            on_disk = np.concatenate([scan_headers(log).rows for log in sorted(folder.glob("*.log"))])
            for name in FIELDS:
                assert np.array_equal(found.scanned.headers.rows[name], on_disk[name]), (read.path, name)
            seen += len(on_disk)
    assert seen > 100
    assert {read.topic for read in reads} == set(RECORDS)


def test_a_topic_made_anew_is_not_taken_for_the_old_one(cluster):
    cluster.create_topic("gone", partitions=1)
    source = live_source(cluster, read_timeout="PT5S")
    now_ms = time.time_ns() // 1_000_000
    with connected(source) as connection:
        connection.admin.delete_topics(["gone"])
        state = read_live_state(connection, topics=["orders"])
        (read,) = plan_fetches(
            connection, state, [TopicPartition("orders", 0)], TimeWindow(0, 2 * now_ms), lateness_ms=0, as_of_ms=now_ms
        )[0]
        other = replace(read, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        found = scan_range(connection, other, now_ms)
    assert len(found.scanned.headers) == 0
    assert "deleted, or made anew" in found.lost[0]


def read_of(connection, key, now_ms):
    state = read_live_state(connection, topics=[key.topic])
    (read,) = plan_fetches(connection, state, [key], TimeWindow(0, 2 * now_ms), lateness_ms=0, as_of_ms=now_ms)[0]
    return read


def test_retention_that_overtakes_the_reading_is_told(cluster):
    """The log's start moves on between plan and fetch."""
    cluster.create_topic("short", "0:1:2")
    send(Producer({"bootstrap.servers": cluster.bootstrap}), "short", cluster.start_ms, size_bytes=100, count=300)
    now_ms = time.time_ns() // 1_000_000
    with connected(live_source(cluster)) as connection:
        read = read_of(connection, TopicPartition("short", 0), now_ms)
        connection.admin.delete_records({ClientTopicPartition("short", 0): 120})
        found = scan_range(connection, read, now_ms)
        assert found.lost == ("retention took offsets 0 to 119 while they were to be read",)
        headers = found.scanned.headers
        assert int(headers.base_offset[0]) <= 120 <= int(headers.last_offset[0])
        assert int(headers.last_offset[-1]) == 299
        state = read_live_state(connection, topics=["short"])
        span = span_of(cluster)
        _, (shortfall,) = plan_fetches(
            connection, state, [TopicPartition("short", 0)], span, lateness_ms=0, as_of_ms=now_ms
        )
    assert "retention has taken the offsets before 120" in shortfall.reason


def test_a_throttled_reading_is_whole(cluster):
    quota = ("--alter", "--entity-type", "clients", "--entity-name", "slowed")
    cluster.run_tool("kafka-configs", *quota, "--add-config", "consumer_byte_rate=20000")
    try:
        now_ms = time.time_ns() // 1_000_000
        source = live_source(cluster, fetch_bytes=1 << 16, client={"client.id": "slowed"})
        with connected(source) as connection:
            found = scan_range(connection, read_of(connection, TopicPartition("orders", 0), now_ms), now_ms)
    finally:
        cluster.run_tool("kafka-configs", *quota, "--delete-config", "consumer_byte_rate")
    assert found.lost == ()
    assert found.retry_count > 0
    assert int(found.scanned.headers.record_count.sum()) == RECORDS["orders"] // 6


@pytest.fixture(scope="module")
def ingested(spark, cluster, tmp_path_factory):
    config = write_config(
        tmp_path_factory.mktemp("tables"), cluster, disks=("disks", {}), live=("live", {}), offsets=("offsets", {})
    )
    for run in plan_runs(config, span_of(cluster), run_id="test", now_ms=span_of(cluster).end_ms + MINUTE_MS):
        ingest.run(spark, run)
        gates.check_ingested(spark, run)
        score_health.run(spark, run, score_health.pending_windows(run))
    return config.warehouse


@NEWEST_ONLY
def test_tables_from_brokers_equal_those_from_their_disks(ingested):
    tables = (
        "silver.record_batches",
        "silver.partition_traffic",
        "silver.key_traffic",
        "gold.broker_share",
        "gold.partition_health",
    )
    for name in tables:
        volatile = ("position", *PLACES, "max_lateness_ms", "log_directory_count")
        disks, live = (rows_of(ingested, name, source, *volatile) for source in ("disks", "live"))
        assert live == disks, name
        assert live, name


@NEWEST_ONLY
def test_records_by_offsets_and_sizes_are_near(ingested):
    """Exact where nothing but records takes offsets, within 1 % of bytes; transactions make records an upper bound."""
    totals = {}
    for source in ("live", "offsets"):
        for row in rows_of(ingested, "silver.partition_traffic", source):
            records, size = totals.get((source, row["topic"]), (0, 0))
            totals[source, row["topic"]] = (records + row["record_count"], size + row["size_bytes"])
    for topic in ("orders", "packed", "lone"):
        (exact, exact_bytes), (bound, about_bytes) = totals["live", topic], totals["offsets", topic]
        assert bound == exact == RECORDS[topic]
        assert about_bytes == pytest.approx(exact_bytes, rel=0.01)
    assert totals["offsets", "ledger"][0] >= totals["live", "ledger"][0]
    kinds = {row["count_kind"] for row in rows_of(ingested, "silver.partition_traffic", "offsets")}
    assert kinds == {"upper_bound"}
    shares = {
        source: {
            (r["window_start"], r["broker_id"]): r["share"] for r in rows_of(ingested, "gold.broker_share", source)
        }
        for source in ("live", "offsets")
    }
    assert shares["offsets"].keys() == shares["live"].keys()


@NEWEST_ONLY
def test_the_state_of_the_cluster_is_told(ingested):
    live = rows_of(ingested, "bronze.cluster_state", "live")
    disks = {
        (r["window_start"], r["topic"], r["partition"], r["replica_id"]): r
        for r in rows_of(ingested, "bronze.cluster_state", "disks")
    }
    same = (
        "topic_id",
        "leader_id",
        "leader_epoch",
        "is_leader",
        "is_preferred_leader",
        "is_in_sync",
        "size_bytes",
        "log_end_offset",
    )
    for row in live:
        other = disks[row["window_start"], row["topic"], row["partition"], row["replica_id"]]
        assert {name: row[name] for name in same} == {name: other[name] for name in same}
    assert len(live) == len(disks)
    status = rows_of(ingested, "bronze.window_status", "live")
    assert [(r["arrived_count"], r["missing"]) for r in status] == [(r["expected_count"], None) for r in status]


def kill_once_talked_to(cluster, node_id):
    """Ends a broker as soon as somebody is connected to its client port; returns the thread that waits for it."""
    broker = cluster.brokers[node_id]
    wanted = f":{broker.client_port:04X}"

    def watch():
        while True:
            lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
            if any(parts[2].endswith(wanted) and parts[3] == "01" for parts in lines):
                break
            time.sleep(0.005)
        cluster.kill_broker(node_id)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@NEWEST_ONLY
def test_a_broker_killed_mid_run_leaves_the_windows_unjudged_and_is_told(spark, cluster, tmp_path):
    config = write_config(tmp_path, cluster, live=("live", {}))
    (run,) = plan_runs(config, span_of(cluster), run_id="killed", now_ms=span_of(cluster).end_ms + MINUTE_MS)
    killing = kill_once_talked_to(cluster, 2)
    try:
        ingest.run(spark, run)
        killing.join(10)
        assert not killing.is_alive()
        gates.check_ingested(spark, run)
        windows = score_health.pending_windows(run)
        score_health.run(spark, run, windows)
        health = gates.check_health(spark, run, windows)
        raise_incidents.run(run, health.verdicts)
    finally:
        killing.join(10)
        cluster.start_broker(2)
    assert not health.success
    shares = [v for v in health.verdicts if v.rule == "broker_share"]
    assert {v.verdict for v in shares} == {"incomplete"}
    assert len({v.window_start_ms for v in shares}) == MINUTES
    (incident,) = stored(config.warehouse, "gold.incidents")
    assert (incident["rule"], incident["subject"], incident["state"]) == ("source_arrival", "live_cluster", "new")
    (queued,) = stored(config.warehouse, "gold.alert_outbox")
    mail = email.message_from_bytes(queued["payload"])
    assert "the pipeline is blind on cluster live since" in mail["Subject"]
    text = gates.describe_health(health, run)
    assert "blind" in text
    assert "healthy, no broker" not in text
