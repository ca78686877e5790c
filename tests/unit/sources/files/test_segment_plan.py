"""Which segments a run reads. Oracle: tables by hand; for packing, laws (nothing lost, nothing twice, order-free)."""

import random
import struct
from dataclasses import replace
from operator import attrgetter

import pytest

from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import DirectoryKind, LogTree, SegmentFile
from pipeline.model.window import TimeWindow
from pipeline.sources.files.segment_plan import choose_replicas, pack, plan_reads
from pipeline.sources.records.event_time import TOLERANCE_MS
from tests.unit.sources.trees import log_directory, log_tree, partition_directory

T0 = TopicPartition("t", 0)


def chosen_brokers(tree, leaders=None, topics=()):
    return {str(p.topic_partition): d.broker_id for d, p in choose_replicas(tree, leaders or {}, topics)}


@pytest.mark.parametrize(
    ("replicas", "leader", "chosen"),
    [
        ({1: [(0, 10)], 2: [(0, 10)]}, 2, 2),  # the leader's
        ({1: [(0, 99)], 2: [(0, 10)]}, 2, 2),  # even where it is shorter
        ({1: [(0, 10)], 2: [(0, 99)]}, None, 2),  # else the longest
        ({1: [(0, 99), (50, 1)], 2: [(0, 99), (40, 90)]}, None, 1),  # by offset, then by bytes
        ({1: [(0, 10)], 2: [(0, 10)]}, None, 1),  # else the lower broker
        ({1: [(0, 10)], 2: [(0, 20)]}, 3, 2),  # the leader's disk was not given
        ({1: [], 2: [(0, 1)]}, None, 2),
    ],
)
def test_one_replica_of_each_partition(replicas, leader, chosen):
    tree = log_tree({broker: {"t-0": segments} for broker, segments in replicas.items()})
    assert chosen_brokers(tree, {} if leader is None else {T0: leader}) == {"t-0": chosen}


def test_the_order_of_disks_does_not_matter():
    tree = log_tree({broker: {"t-0": [(0, 10)], "u-0": [(0, broker)]} for broker in (3, 1, 2)})
    turned = LogTree(directories=tree.directories[::-1])
    assert chosen_brokers(tree) == chosen_brokers(turned) == {"t-0": 1, "u-0": 3}


def test_only_live_partitions_of_clients_and_only_the_topics_asked_for():
    gone = [
        partition_directory("/d1", f"t-{number}", [(0, 5)], kind=kind)
        for number, kind in enumerate((DirectoryKind.DELETE, DirectoryKind.STRAY, DirectoryKind.FUTURE), start=5)
    ]
    disk = log_directory(1, {"__cluster_metadata-0": [(0, 9)], "t-0": [(0, 5)], "u-1": [(0, 5)]})
    tree = LogTree(directories=(replace(disk, partitions=(*disk.partitions, *gone)),))
    assert chosen_brokers(tree) == {"t-0": 1, "u-1": 1}
    assert chosen_brokers(tree, topics=("u*", "absent")) == {"u-1": 1}
    assert chosen_brokers(tree, topics=("!u",)) == {"t-0": 1}


def test_reads_say_where_each_segment_ends_and_what_is_committed():
    disk = log_directory(1, {"t-0": [(0, 10), (7, 20), (9, 0)]}, high_watermarks={T0: 8})
    reads = plan_reads(choose_replicas(LogTree(directories=(disk,)), {}))
    told = [(r.base_offset, r.next_base_offset, r.size_bytes, r.high_watermark, r.is_active) for r in reads]
    assert told == [(0, 7, 10, 8, False), (7, 9, 20, 8, False)]  # an empty segment is not read


SPAN = TimeWindow(2 * TOLERANCE_MS, 3 * TOLERANCE_MS)


@pytest.mark.parametrize(
    ("newest_ms", "is_active", "is_read"),
    [
        (SPAN.start_ms - TOLERANCE_MS - 1, False, False),
        (SPAN.start_ms - TOLERANCE_MS, False, True),
        (SPAN.start_ms - TOLERANCE_MS - 1, True, True),  # the active segment's index has entries to come
        (SPAN.end_ms + 1, False, True),  # what it begins with is not known
        (None, False, True),  # an empty index
    ],
)
def test_segments_that_ended_long_before_are_left_out(tmp_path, newest_ms, is_active, is_read):
    index = tmp_path / "00000000000000000000.timeindex"
    entries = () if newest_ms is None else ((newest_ms - 5, 1), (newest_ms, 2))
    index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    assert bool(plan_of(index, is_active=is_active)) is is_read


def test_without_a_readable_time_index_a_segment_is_read(tmp_path):
    assert plan_of(None)
    assert plan_of(tmp_path / "absent.timeindex")


def plan_of(index, *, is_active=False):
    disk = log_directory(1, {"t-0": [(0, 10)]})
    segment = SegmentFile(
        path="/d1/t-0/0.log", base_offset=0, size_bytes=10, time_index_path=index and str(index), is_active=is_active
    )
    return plan_reads([(disk, replace(disk.partitions[0], segments=(segment,)))], SPAN)


by_path = attrgetter("path")


def some_reads(seed):
    rng = random.Random(seed)
    tree = log_tree({1: {f"t-{i}": [(0, rng.randrange(1, 1000))] for i in range(rng.randrange(1, 30))}})
    return plan_reads(choose_replicas(tree, {}))


@pytest.mark.parametrize("seed", range(20))
def test_packing_loses_nothing_and_does_not_depend_on_order(seed):
    reads = some_reads(seed)
    groups = pack(reads, 500, 2, by_path)
    assert sorted((r for group in groups for r in group), key=by_path) == sorted(reads, key=by_path)
    assert pack(reads[::-1], 500, 2, by_path) == groups
    assert len(groups) == min(len(reads), max(2, -(-sum(read.size_bytes for read in reads) // 500)))


@pytest.mark.parametrize(
    ("sizes", "target", "least", "groups"),
    [
        ((100_000, 50_000, 50_000), 10**9, 2, [{0}, {1, 2}]),  # largest first, to the emptiest
        ((10,), 10**9, 4, [{0}]),  # no empty groups
        ((10**6, 10**6, 10**6), 10**6, 2, [{0}, {1}, {2}]),
    ],
)
def test_packing_by_hand(sizes, target, least, groups):
    reads = plan_reads(choose_replicas(log_tree({1: {f"t-{i}": [(0, size)] for i, size in enumerate(sizes)}}), {}))
    assert [{read.partition for read in group} for group in pack(reads, target, least, by_path)] == groups
