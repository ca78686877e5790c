"""Rows of brokers, replicas, groups and leader epochs. Oracle: the tables below, from the columns' declarations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.model.cluster import (
    NO_LEADER,
    Broker,
    ClusterHistory,
    ClusterState,
    ConsumerGroupMember,
    DirectorySpace,
    PartitionState,
    ReplicaState,
    Timeline,
)
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import LogTree
from pipeline.model.window import TimeWindow
from pipeline.sources.files.cluster_rows import (
    compacted_topics,
    count_directories,
    disk_columns,
    iter_broker_rows,
    iter_cluster_state_rows,
    iter_consumer_group_rows,
    retention_ms,
)
from pipeline.sources.records.batch_rows import LeaderEpochs
from tests.unit.sources.trees import log_directory

MINUTE_MS = 60_000
WINDOWS = (TimeWindow(0, MINUTE_MS), TimeWindow(MINUTE_MS, 2 * MINUTE_MS))
T0 = TopicPartition("t", 0)


def state(leader, epoch, *, topic_id="id", replicas=(1, 2), isr=(1, 2)):
    return PartitionState(
        topic="t", topic_id=topic_id, partition=0, leader_id=leader, leader_epoch=epoch, replicas=replicas, isr=isr
    )


def history(*moments, brokers=(1, 2), since_ms=0):
    """(moment, state) rows of partition t-0."""
    return ClusterHistory(
        state_source="cluster_metadata",
        known_since_ms=since_ms,
        brokers={broker: Timeline((0,), (Broker(broker_id=broker, rack=f"r{broker}"),)) for broker in brokers},
        partitions={T0: Timeline(tuple(m for m, _ in moments), tuple(s for _, s in moments))},
    )


def replica(broker_id, end, *, size=100, is_future=False):
    return ReplicaState(
        topic="t",
        topic_id="id",
        partition=0,
        broker_id=broker_id,
        log_directory=f"/root/d{broker_id}",
        log_end_offset=end,
        high_watermark=None if end is None else end - 1,
        size_bytes=size,
        is_future=is_future,
    )


def test_a_broker_is_listed_when_registered_or_when_its_disk_was_found():
    disks = (
        log_directory(2, {"t-0": [(0, 1)]}),
        log_directory(2, {"t-1": [(0, 1)]}, path="/d2b"),
        log_directory(3, {"t-0": [(0, 1)]}),
        log_directory(100, {"__cluster_metadata-0": [(0, 1)]}),  # a controller bears no load
        log_directory(None, {"t-0": [(0, 1)]}),
    )
    counts = count_directories(LogTree(directories=disks))
    rows = iter_broker_rows("c", history((0, state(1, 0))), counts, WINDOWS[:1], {2: {"num.io.threads": "3"}})
    rows = list(rows)
    assert [row["configs"] for row in rows] == [{}, {"num.io.threads": "3"}, {}]
    told = [(r["broker_id"], r["rack"], r["is_fenced"], r["log_directory_count"], r["state_source"]) for r in rows]
    assert told == [
        (1, "r1", False, 0, "cluster_metadata"),
        (2, "r2", False, 2, "cluster_metadata"),
        (3, None, None, 1, "log_directories"),
    ]


def test_disks_are_told_by_log_directory_and_with_what_their_volumes_hold_where_brokers_say():
    replicas = [replica(1, 9), replace(replica(1, 9, is_future=True), log_directory="/root/other"), replica(2, None)]
    replicas += [
        replica(2, 9, size=50),
        replace(replica(3, 9), size_bytes=None),
        replace(replica(1, 9), broker_id=None),
    ]
    spaces = {2: {"/root/d2": DirectorySpace(1_000, 400)}, 4: {"/data": DirectorySpace(70, 7)}}
    disks = disk_columns(replicas, spaces, lambda path: path.removeprefix("/root/"))
    assert disks == {
        1: {"log_dir_bytes": {"d1": 100, "other": 100}, "log_dir_total_bytes": {}, "log_dir_usable_bytes": {}},
        2: {"log_dir_bytes": {"d2": 150}, "log_dir_total_bytes": {"d2": 1_000}, "log_dir_usable_bytes": {"d2": 400}},
        4: {"log_dir_bytes": {}, "log_dir_total_bytes": {"/data": 70}, "log_dir_usable_bytes": {"/data": 7}},
    }
    rows = list(iter_broker_rows("c", history((0, state(1, 0))), {}, WINDOWS[:1], {}, disks=disks))
    assert [row["log_dir_bytes"] for row in rows] == [{"d1": 100, "other": 100}, {"d2": 150}]


def test_a_replica_is_described_as_of_each_windows_end():
    moved = history((0, state(1, 0)), (MINUTE_MS + 1, state(2, 1, isr=(2,))))
    replicas = (replica(1, 90), replica(2, 100, size=200), replica(1, 5, is_future=True))
    rows = list(iter_cluster_state_rows("c", moved, replicas, WINDOWS, lambda path: path.removeprefix("/root/")))
    columns = ("replica_id", "leader_id", "leader_epoch", "is_leader", "is_preferred_leader", "is_in_sync")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (1, 1, 0, True, True, True),
        (2, 1, 0, False, False, True),
        (1, 2, 1, False, True, False),
        (2, 2, 1, True, False, True),
    ]
    disk = ("log_end_offset", "high_watermark", "lag_count", "size_bytes", "log_directory")
    assert [tuple(row[name] for name in disk) for row in rows] == [
        (90, 89, 0, 100, "d1"),
        (100, 99, -10, 200, "d2"),
        (90, 89, 10, 100, "d1"),
        (100, 99, 0, 200, "d2"),
    ]


@pytest.mark.parametrize(
    ("moving", "adding", "told"),
    [
        ({(T0, None)}, (), ["moving", "moving"]),
        ({(T0, 2)}, (), [None, "moving"]),  # between its disks
        ({(T0, None)}, (2,), [None, "adding"]),  # which replicas is known better
        ({(TopicPartition("t", 1), None)}, (), [None, None]),
    ],
)
def test_what_a_text_says_is_being_moved(moving, adding, told):
    present = history((0, replace(state(1, 0), adding_replicas=adding)))
    rows = iter_cluster_state_rows("c", present, (), WINDOWS[:1], str, moving=moving)
    assert [row["reassignment"] for row in rows] == told


def test_what_is_not_known_stays_empty():
    unknown = history((0, state(NO_LEADER, None, topic_id=None, isr=None)))
    rows = list(iter_cluster_state_rows("c", unknown, (replica(2, None),), WINDOWS[:1], str))
    assert [(r["topic_id"], r["is_leader"], r["is_in_sync"], "size_bytes" in r) for r in rows] == [
        ("", False, None, False),
        ("id", False, None, True),
    ]
    assert (rows[1]["log_end_offset"], rows[1]["lag_count"]) == (None, None)


def test_leader_epochs_and_who_leads_now():
    terms = history((0, state(1, 0)), (5, state(2, 1)), (9, state(NO_LEADER, 2)))
    assert LeaderEpochs.of_history(terms) == LeaderEpochs(
        {("t", "id", 0): {0: 1, 1: 2, 2: NO_LEADER}},
        {T0: 2},  # none now: the last one there was
    )
    anew = history((0, state(1, 0)), (5, None), (6, state(2, 0, topic_id="id2")))
    assert LeaderEpochs.of_history(anew) == LeaderEpochs({("t", "id", 0): {0: 1}, ("t", "id2", 0): {0: 2}}, {T0: 2})


def test_group_rows_of_the_moments_within_the_windows():
    member = ConsumerGroupMember(
        group_id="g",
        topic="t",
        partition=0,
        committed_offset=7,
        log_end_offset=9,
        lag_count=2,
        member_id=None,
        client_host=None,
        client_id=None,
    )
    moments = [(-1, member), (0, member), (MINUTE_MS, member), (2 * MINUTE_MS, member)]
    rows = list(iter_consumer_group_rows("c", moments, WINDOWS))
    assert [row["observed_at"].timestamp() for row in rows] == [0, 60]
    assert [row["window_start"].timestamp() for row in rows] == [0, 60]
    assert rows[0]["lag_count"] == 2


def test_compacted_by_config_or_by_the_cleaners_checkpoint():
    configs = {"a": {"cleanup.policy": "compact,delete"}, "b": {"cleanup.policy": "delete"}, "c": {}}
    now = ClusterState(at_ms=0, state_source="cluster_metadata", topic_configs=configs)
    disk = log_directory(1, {}, cleaner_offsets={TopicPartition("c", 0): 5})
    assert compacted_topics(now, LogTree(directories=(disk,))) == {"a", "c"}


@pytest.mark.parametrize(
    ("configs", "kept_ms"), [({}, None), ({"retention.ms": "-1"}, None), ({"retention.ms": "5"}, 5)]
)
def test_retention(configs, kept_ms):
    assert retention_ms(configs) == kept_ms
