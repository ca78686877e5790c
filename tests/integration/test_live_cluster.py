"""A running cluster read through its brokers. Oracle: the same cluster's log directories, read as files."""

from __future__ import annotations

import email
import threading
import time

import numpy as np
import pytest
from confluent_kafka import Producer
from kafka import TopicPartition as ClientTopicPartition

from expectations import gates
from pipeline.codec.scans import HEADER_ROW
from pipeline.codec.segment import scan_headers
from pipeline.jobs import ingest, raise_incidents, score_health
from pipeline.model.earlier_state import EarlierState
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.live.connection import connected
from pipeline.sources.live.offsets import read_offset_traffic
from pipeline.sources.live.plan import plan_fetches
from pipeline.sources.live.range_scan import scan_range
from pipeline.sources.live.state import read_live_state
from tests.integration.live_runs import (
    kill_once_talked_to,
    live_source,
    read_of,
    rows_of,
    span_of,
    wait_for_checkpoints,
    wait_until,
    write_config,
)
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
    settings = {"log.retention.check.interval.ms": "500"}
    folder = tmp_path_factory.mktemp("live")
    with start_cluster(folder, 3, version=request.param, settings=settings, heap_mb=256) as running:
        create_topics(running)
        running.start_ms = coming_minutes()
        produce(running.bootstrap, running.start_ms)
        wait_for_checkpoints(running)
        yield running


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
        tmp_path_factory.mktemp("tables"),
        cluster,
        disks=("disks", {}),
        live=("live", {}),
        offsets=("offsets", {}),
        sampled=("live", {"sampling": {"partitions": 0.5, "time": 0.5}}),
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
        "silver.arrivals",
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
def test_a_sample_is_part_of_the_whole_and_says_so(ingested):
    volatile = ("position", *PLACES)
    whole = [tuple(map(str, row.values())) for row in rows_of(ingested, "silver.record_batches", "live", *volatile)]
    part = rows_of(ingested, "silver.record_batches", "sampled", *volatile)
    assert {tuple(map(str, row.values())) for row in part} < set(whole)
    traffic = {"live": {}, "sampled": {}}
    for source, by_kind in traffic.items():
        for row in rows_of(ingested, "silver.partition_traffic", source):
            by_kind.setdefault(row["sampling_rate"], []).append(row)
    assert traffic["live"].keys() == {1.0}
    read, looked_up = traffic["sampled"][0.5], traffic["sampled"][0.0]
    assert {row["count_kind"] for row in looked_up} == {"upper_bound"}
    chosen = {(row["topic"], row["partition"]) for row in read}
    assert len([key for key in chosen if key[0] == "orders"]) == 3
    assert chosen.isdisjoint((row["topic"], row["partition"]) for row in looked_up)
    told = sum(r["record_count"] for r in traffic["live"][1.0] if (r["topic"], r["partition"]) in chosen)
    assert {row["count_kind"] for row in read} == {"sampled"}
    assert sum(row["record_count"] for row in read) == pytest.approx(told, rel=0.25)  # scaled to the whole
    arrived = rows_of(ingested, "silver.arrivals", "sampled")
    assert {(row["count_kind"], row["sampling_rate"]) for row in arrived} == {("sampled", 0.25)}
    in_part = sum(row["record_count"] for row in part if not row["is_control"])
    assert sum(row["record_count"] for row in arrived) == in_part
    (status,) = {row["missing"] for row in rows_of(ingested, "bronze.window_status", "sampled")}
    assert status is None


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


# From here on topics come and go and leaders move, which windows ingested before know nothing of.


def made_anew(cluster, topic, **configs):
    """Deletes a topic and makes it anew, and waits until brokers know the new one."""
    with connected(live_source(cluster)) as connection:
        before = read_live_state(connection, topics=[topic])
        connection.admin.delete_topics([topic])
        wait_until(lambda: not read_live_state(connection, topics=[topic]).in_scope, "deleted topic")
        cluster.create_topic(topic, "0:1:2", **configs)
        wait_until(lambda: read_live_state(connection, topics=[topic]).high_watermarks, "new topic")
    return before


def test_a_topic_made_anew_while_it_is_read_is_not_taken_for_the_old_one(cluster):
    cluster.create_topic("gone", "0:1:2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    send(producer, "gone", cluster.start_ms, size_bytes=100, count=1500)  # three batches at least
    now_ms = time.time_ns() // 1_000_000
    with connected(live_source(cluster, read_timeout="PT20S", fetch_bytes=1 << 13)) as connection:
        read = read_of(connection, TopicPartition("gone", 0), now_ms)
        replies = []

        def make_anew(*reply):
            replies.append(reply)
            if len(replies) == 1:
                made_anew(cluster, "gone")
                send(producer, "gone", cluster.start_ms, size_bytes=100, count=3000)

        found = scan_range(connection, read, now_ms, on_reply=make_anew)
    assert len(replies) == 1
    assert 0 < int(found.scanned.headers.record_count.sum()) < 1500
    assert "deleted, or made anew" in found.lost[-1]


def test_a_topic_made_anew_since_the_run_before_is_told_where_offsets_are_looked_up(cluster):
    cluster.create_topic("again", "0:1:2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    send(producer, "again", cluster.start_ms, size_bytes=100, count=300)
    before = made_anew(cluster, "again")
    partition = before.partitions[TopicPartition("again", 0)]
    earlier = EarlierState(
        window_start_ms=0,
        topic="again", topic_id=partition.topic_id, partition=0, leader_id=0, leader_epoch=partition.leader_epoch,
        log_start_offset=0, log_end_offset=300, size_bytes=40_000,
    )  # fmt: skip
    with connected(live_source(cluster)) as connection:
        state = read_live_state(connection, topics=["again"])
        _, missing = read_offset_traffic(connection, state, [span_of(cluster)], state.in_scope, [earlier])
    assert "deleted and made anew since the run before" in missing[0].reason


def test_the_broker_s_own_retention_overtakes_the_reading(cluster):
    cluster.create_topic("fading", "0:1:2", segment_bytes=1 << 20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    send(producer, "fading", cluster.start_ms, size_bytes=10_000, count=400)
    key, limit = ("--alter", "--topic", "fading", "--add-config", "retention.bytes=1"), "fading"
    now_ms = time.time_ns() // 1_000_000
    with connected(live_source(cluster, fetch_bytes=1 << 14)) as connection:
        read = read_of(connection, TopicPartition("fading", 0), now_ms)
        replies, starts = [], []

        def log_start():
            return read_live_state(connection, topics=[limit]).log_starts[TopicPartition("fading", 0)].offset

        def let_go(*reply):
            replies.append(reply)
            if len(replies) == 1:
                cluster.run_tool("kafka-configs", *key)
                wait_until(lambda: log_start() > 100, "deletion by retention")
                starts.append(log_start())

        found = scan_range(connection, read, now_ms, on_reply=let_go)
    (lost,) = found.lost
    headers = found.scanned.headers
    assert (
        lost
        == f"retention took offsets {int(replies[0][1].last_offset[-1]) + 1} to {starts[0] - 1} while they were to be read"
    )
    assert int(headers.last_offset[-1]) == 399
    assert int(headers.record_count.sum()) < 400


def test_a_broker_that_restarts_is_read_on(cluster):
    """The only broker with the partition is killed between two replies, and started again while it is asked in vain."""
    now_ms = time.time_ns() // 1_000_000
    with connected(live_source(cluster, fetch_bytes=1 << 10)) as connection:
        read = read_of(connection, TopicPartition("lone", 0), now_ms)
        replies = []

        def restart(*reply):
            replies.append(reply)
            if len(replies) == 1:
                cluster.kill_broker(read.leader_id)
                starting.start()

        starting = threading.Thread(target=cluster.start_broker, args=(read.leader_id,))
        found = scan_range(connection, read, now_ms, on_reply=restart)
        starting.join()
    assert len(replies) > 1
    assert found.lost == ()
    assert found.retry_count > 0
    assert int(found.scanned.headers.record_count.sum()) == RECORDS["lone"] // 2
