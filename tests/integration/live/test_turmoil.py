"""Topics come and go and leaders move while a cluster is read. The last module: windows ingested before know nothing of it.

Oracle: what was done to the cluster.
"""

import threading
import time

from confluent_kafka import Producer

from pipeline.model.cluster import EarlierState
from pipeline.model.log import TopicPartition
from pipeline.sources.live.connection import connect
from pipeline.sources.live.offsets import read_offset_traffic
from pipeline.sources.live.range_scan import scan_range
from pipeline.sources.live.state import read_live_state
from tests.integration.live.runs import live_source, read_of, span_of, wait_until
from tests.lab.live_traffic import RECORDS, send


def made_anew(cluster, topic, **configs):
    """Deletes a topic and makes it anew, and waits until brokers know the new one."""
    with connect(live_source(cluster)) as connection:
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
    with connect(live_source(cluster, fetch_bytes=1 << 13)) as connection:
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
    assert "deleted, or recreated" in found.lost[-1]


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
    )  # fmt: skip  # fields of a value, several a line
    with connect(live_source(cluster)) as connection:
        state = read_live_state(connection, topics=["again"])
        _, missing = read_offset_traffic(connection, state, [span_of(cluster)], state.in_scope, [earlier])
    assert "deleted and recreated since the run before" in missing[0].reason


def test_the_broker_s_own_retention_overtakes_the_reading(cluster):
    cluster.create_topic("fading", "0:1:2", segment_bytes=1 << 20)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    send(producer, "fading", cluster.start_ms, size_bytes=10_000, count=400)
    key, limit = ("--alter", "--topic", "fading", "--add-config", "retention.bytes=1"), "fading"
    now_ms = time.time_ns() // 1_000_000
    with connect(live_source(cluster, fetch_bytes=1 << 14)) as connection:
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
    with connect(live_source(cluster, fetch_bytes=1 << 10, read_timeout="PT10M")) as connection:
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
