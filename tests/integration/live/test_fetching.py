"""What Fetch gives of a running cluster. Oracle: the same cluster's log directories, read as files."""

import time
from functools import partial

import numpy as np
from confluent_kafka import Producer
from kafka import TopicPartition as ClientTopicPartition

from pipeline.codec.log.batch_headers import HEADER_ROW
from pipeline.codec.log.segment import scan_headers
from pipeline.model.cluster import EarlierState
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.sources.live.connection import connect
from pipeline.sources.live.plan import plan_fetches
from pipeline.sources.live.range_scan import scan_range
from pipeline.sources.live.state import read_live_state
from tests.integration.live.runs import live_source, read_of, span_of, wait_until
from tests.lab.live_traffic import MINUTE_MS, RECORDS, TOPICS, send
from tests.lab.process import PATIENCE_S

FIELDS = [name for name in HEADER_ROW.names if name != "position"]


def test_fetched_batches_are_those_on_the_leaders_disk(cluster):
    """Every header field, checksum and producer included, of every batch of every partition."""
    source = live_source(cluster)
    now_ms = time.time_ns() // 1_000_000
    folders = {b.node_id: b.log_directory for b in cluster.brokers}
    with connect(source) as connection:
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
    with connect(live_source(cluster)) as connection:
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
    """Read again until the broker knows the quota, which the controller knows first."""
    source = live_source(cluster, fetch_bytes=1 << 16, client={"client.id": "slowed"})
    readings = []

    def is_throttled():
        now_ms = time.time_ns() // 1_000_000
        with connect(source) as connection:
            readings.append(scan_range(connection, read_of(connection, TopicPartition("orders", 0), now_ms), now_ms))
        return readings[-1].retry_count > 0

    quota = ("--alter", "--entity-type", "clients", "--entity-name", "slowed")
    cluster.run_tool("kafka-configs", *quota, "--add-config", "consumer_byte_rate=20000")
    try:
        wait_until(is_throttled, "throttled reading")
    finally:
        cluster.run_tool("kafka-configs", *quota, "--delete-config", "consumer_byte_rate")
    for found in readings:
        assert found.lost == ()
        assert int(found.scanned.headers.record_count.sum()) == RECORDS["orders"] // 6


def test_a_record_stamped_ahead_ends_no_range_where_a_topic_takes_it(cluster):
    """In a run that is later than the lateness. To a topic that takes no such record times are true."""
    near = {"message.timestamp.after.max.ms": str(MINUTE_MS)}
    for topic, configs in (("ahead", {}), ("near", near)):
        cluster.create_topic(topic, "0", **configs)
    now_ms = time.time_ns() // 1_000_000
    span = TimeWindow(now_ms - 10 * MINUTE_MS, now_ms - 9 * MINUTE_MS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for topic in ("ahead", "near"):
        for stamp in (span.end_ms + MINUTE_MS + 1, *range(span.start_ms, span.start_ms + 50)):
            producer.produce(topic, b"v", partition=0, timestamp=stamp)
            producer.flush(PATIENCE_S)
    with connect(live_source(cluster)) as connection:
        state = read_live_state(connection, topics=["ahead", "near"])
        plan = partial(plan_fetches, connection, state, state.in_scope, span, lateness_ms=MINUTE_MS, as_of_ms=now_ms)
        none = dict.fromkeys(("leader_id", "leader_epoch", "log_start_offset", "log_end_offset", "size_bytes"), 0)
        known = {
            key: EarlierState(
                window_start_ms=0, topic=key.topic, topic_id="", partition=0, **none, time_ahead_ms=MINUTE_MS
            )
            for key in state.in_scope
        }
        first, later = plan()[0], plan(earlier=known, settled=dict.fromkeys(known, 0))[0]
    assert {(read.topic, read.start_offset, read.end_offset) for read in later} == {("ahead", 0, 51)}
    # no run before saw which times the topics took
    assert {(read.topic, read.start_offset, read.end_offset) for read in first} == {("ahead", 0, 51), ("near", 0, 51)}
