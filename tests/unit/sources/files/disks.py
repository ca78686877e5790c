"""Disks and metadata logs as they are told to tests of what disks lack: by hand, and as real files."""

from pipeline.model.cluster import Broker, ClusterHistory, PartitionState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.sources.source import ClusterReading
from tests.batches import make_batch, make_records

A, OTHER = TopicPartition("a", 0), TopicPartition("a", 1)


def led(key, *terms, topic_id="id"):
    """A timeline of a partition's leaders: moments and brokers, None where it is deleted."""
    of = {"topic": key.topic, "topic_id": topic_id, "partition": key.partition, "replicas": (1, 2), "isr": None}
    states = [
        broker and PartitionState(leader_id=broker, leader_epoch=number, **of)
        for number, (_, broker) in enumerate(terms)
    ]
    return Timeline(tuple(at for at, _ in terms), tuple(states))


def registered(*fenced_by_time):
    """A broker's timeline: moments and whether it is fenced."""
    brokers = tuple(None if fenced is None else Broker(broker_id=0, is_fenced=fenced) for _, fenced in fenced_by_time)
    return Timeline(tuple(at for at, _ in fenced_by_time), brokers)


def read_disks(*, found=(), brokers=(1, 2), of_brokers=None, partitions=None, quiet_ms=None, **fields):
    """Disks of some brokers; brokers 1 and 2 stand, unless `of_brokers` tells otherwise."""
    timelines = {1: registered((0, False)), 2: registered((0, False)), **(of_brokers or {})}
    known = {"brokers": timelines, "partitions": partitions or {}, "quiet_ms": quiet_ms}
    history = ClusterHistory(state_source="cluster_metadata", known_since_ms=0, **known)
    disks = {"live_partitions": {*found}, "directory_counts": dict.fromkeys(brokers, 1)}
    return ClusterReading(record_source="disks", history=history, **disks, **fields)


def write_log(root, name, base_offset, at_ms, *, node=1):
    (root / name).mkdir(parents=True)
    (root / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=c\ndirectory.id=d{node}\n")
    records = make_records(3, base_offset=base_offset, start_ms=at_ms)
    (root / name / f"{base_offset:020d}.log").write_bytes(make_batch(records))
