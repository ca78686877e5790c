"""The log directory of a running broker: preallocated indexes, a deleted topic, metadata snapshots. Oracle: the broker."""

import dataclasses
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from pipeline.codec.tools.tool_text import parse_log_dirs_describe, parse_offsets, parse_topics_describe
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import DirectoryKind
from pipeline.sources.files.cluster_state import read_cluster_history, read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_lookup import look_up_instant, look_up_offset
from pipeline.sources.files.metadata_log import read_metadata_log
from tests.lab.process import PATIENCE_S, wait_until

AT_LAST_MS = 2**62
START_MS = 1_700_000_000_000
STAMPED = TopicPartition("stamped", 0)


@pytest.fixture(scope="module")
def cluster(kafka_cluster):
    """The broker, with a topic of odd timestamps and one that was deleted."""
    kafka_cluster.create_topic("gone", partitions=2)
    kafka_cluster.create_topic("stamped", segment_bytes=1 << 20, index_interval_bytes=512, retention_ms=-1)
    kafka_cluster.create_topic("kept", partitions=3, retention_ms=777_000)
    produce(kafka_cluster.internal_bootstrap)
    kafka_cluster.run_tool("kafka-topics", "--delete", "--topic", "gone")
    log_directory = kafka_cluster.brokers[0].log_directory
    wait_until(lambda: len(list(log_directory.glob("gone-*-delete"))) == 2, "deletion", kafka_cluster.processes[1])
    return kafka_cluster


def produce(bootstrap: str) -> None:
    """6,000 records, timestamps mostly rising, with steps back; batches of many sizes; about 3 segments."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "batch.num.messages": 20})
    for i in range(6_000):
        stamp = START_MS + 1_000 * i - (400_000 if i % 97 == 0 else 0)
        producer.produce("stamped", key=b"%d" % (i % 50), value=b"x" * 400, timestamp=stamp)
        if i % 100 == 0:
            producer.flush()
    producer.flush()
    producer.produce("gone", value=b"y")
    producer.flush()


@pytest.fixture(scope="module")
def tree(cluster):
    return discover_logs([cluster.brokers[0].log_directory])


@pytest.fixture(scope="module")
def stamped(tree):
    ((directory, partition),) = ((d, p) for d, p in tree.iter_partitions() if p.topic_partition == STAMPED)
    return directory, partition


def test_nothing_is_wrong_with_a_live_directory(cluster, tree):
    assert tree.problems == ()
    assert tree.broker_ids == (0,)
    deleted = [p for _, p in tree.iter_partitions(kind=DirectoryKind.DELETE)]
    assert [(p.topic, p.partition) for p in deleted] == [("gone", 0), ("gone", 1)]
    (directory,) = tree.directories
    assert directory.cluster_id == cluster.cluster_id
    assert directory.directory_id is not None


def test_offsets_and_sizes(cluster, tree):
    states = {state.topic_partition: state for state in read_replica_states(tree)[0]}
    latest = parse_offsets(cluster.run_tool("kafka-get-offsets", "--time", "latest"))
    assert {key: state.log_end_offset for key, state in states.items()} == latest
    described = parse_log_dirs_describe(cluster.run_tool("kafka-log-dirs", "--describe"))
    sizes = {r.topic_partition: r.size_bytes for r in described if r.topic_partition.topic != "gone"}
    assert {key: state.size_bytes for key, state in states.items()} == sizes


def test_offset_of_an_instant_as_the_broker_finds_it(cluster, stamped):
    directory, partition = stamped
    assert len(partition.segments) > 1
    assert Path(partition.segments[-1].index_path).stat().st_size >= 1 << 20  # preallocated
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody"})
    wrong = {}
    for at_ms in (START_MS - 500_000, START_MS - 350_000, *(START_MS + 1_000 * i + 1 for i in (95, 96, 4_321, 6_001))):
        (asked,) = consumer.offsets_for_times([Position("stamped", 0, at_ms)], timeout=PATIENCE_S)
        broker_says = asked.offset if asked.offset >= 0 else None
        found = look_up_instant(directory, partition, at_ms).found.offset
        if found != broker_says:
            wrong[at_ms - START_MS] = (found, broker_says)
    consumer.close()
    assert wrong == {}


def test_every_offset_is_found_in_its_batch(stamped):
    directory, partition = stamped
    for offset in range(0, 6_000, 37):
        batch = look_up_offset(directory, partition, offset).found.batch
        assert batch.base_offset <= offset <= batch.last_offset
    assert look_up_offset(directory, partition, 6_000).found.batch is None


def test_state_from_the_log_and_from_every_snapshot(cluster):
    """A snapshot says what the log up to its offset says; and the last state is what `kafka-topics` describes."""
    folder = cluster.brokers[0].log_directory
    wait_until(lambda: any(folder.glob("__cluster_metadata-0/*-*.checkpoint")), "snapshot", cluster.processes[1])
    tree = discover_logs([folder])
    history, problems = read_cluster_history(tree)
    assert (history.state_source, problems) == ("cluster_metadata", ())
    described = parse_topics_describe(cluster.run_tool("kafka-topics", "--describe"))
    state = history.state_at(AT_LAST_MS)
    told = {p.topic_partition: (p.topic_id, p.leader_id, p.replicas, p.isr) for p in described.partitions}
    assert {k: (p.topic_id, p.leader_id, p.replicas, p.isr) for k, p in state.partitions.items()} == told
    assert state.topic_config("kept")["retention.ms"] == "777000"
    (metadata,) = (p for _, p in tree.iter_partitions() if p.is_cluster_metadata)
    assert metadata.metadata_snapshot_paths
    state_counts = set()
    for path in metadata.metadata_snapshot_paths:
        alone = dataclasses.replace(metadata, segments=(), metadata_snapshot_paths=(path,))
        snapshot, problems = read_metadata_log(alone)
        assert problems == ()
        now = snapshot.state_at(snapshot.known_since_ms)
        then = history.state_at(snapshot.known_since_ms)
        assert (now.partitions, now.topic_configs, now.brokers) == (then.partitions, then.topic_configs, then.brokers)
        state_counts.add(len(now.partitions))
    assert len(state_counts) > 1


def test_a_log_whose_start_is_gone_is_read_from_a_snapshot(tree):
    """The segment is said to begin where a snapshot ends, as after retention; the rest of the history must be equal."""
    (metadata,) = (p for _, p in tree.iter_partitions() if p.is_cluster_metadata)
    history, _ = read_metadata_log(metadata)
    middle = metadata.metadata_snapshot_paths[len(metadata.metadata_snapshot_paths) // 2]
    start = int(Path(middle).name.split("-")[0])
    cut = dataclasses.replace(
        metadata, segments=tuple(dataclasses.replace(s, base_offset=start) for s in metadata.segments)
    )
    shorter, problems = read_metadata_log(cut)
    assert problems == ()
    assert shorter.known_since_ms > history.known_since_ms
    changes = {
        m for timeline in history.partitions.values() for m in timeline.moments_ms if m >= shorter.known_since_ms
    }
    for at_ms in (shorter.known_since_ms, *changes, AT_LAST_MS):
        assert shorter.state_at(at_ms) == history.state_at(at_ms)
    none_left = dataclasses.replace(cut, metadata_snapshot_paths=())
    assert "no snapshot reaches it" in read_metadata_log(none_left)[1][0].reason
