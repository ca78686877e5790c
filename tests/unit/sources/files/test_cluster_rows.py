"""Rows of brokers, replicas, groups and leader epochs. Oracle: the tables below, from the columns' declarations."""

from dataclasses import replace

import pytest

from pipeline.jobs.ingest.cluster import iter_group_rows
from pipeline.model.cluster import (
    LIVE_CLUSTER,
    NO_LEADER,
    Broker,
    ClusterHistory,
    ClusterState,
    ConsumerGroupMember,
    DirectorySpace,
    PartitionState,
    ReplicaState,
    Timeline,
    retention_ms,
)
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import LogTree
from pipeline.model.window import TimeWindow
from pipeline.model.window_state import away_ms
from pipeline.sources.files.cluster_rows import compacted_topics, count_directories, disk_columns, with_leaders
from pipeline.sources.files.cluster_state import with_ids_by_name
from pipeline.sources.source import ClusterReading
from tests.unit.sources.files.window_rows import list_broker_rows, list_cluster_state_rows, list_window_states
from tests.unit.sources.trees import log_directory

MINUTE_MS = 60_000
WINDOWS = (TimeWindow(0, MINUTE_MS), TimeWindow(MINUTE_MS, 2 * MINUTE_MS))
T0 = TopicPartition("t", 0)


def state(leader, epoch, *, topic_id="id", replicas=(1, 2), isr=(1, 2)):
    of = {"topic": "t", "topic_id": topic_id, "partition": 0, "replicas": replicas, "isr": isr}
    return PartitionState(leader_id=leader, leader_epoch=epoch, **of)


def history(*moments, brokers=(1, 2), since_ms=0):
    """(moment, state) rows of partition t-0."""
    return ClusterHistory(
        state_source="cluster_metadata",
        known_since_ms=since_ms,
        brokers={broker: Timeline((0,), (Broker(broker_id=broker, rack=f"r{broker}"),)) for broker in brokers},
        partitions={T0: Timeline(tuple(m for m, _ in moments), tuple(s for _, s in moments))},
    )


def replica(broker_id, end, *, size=100, is_future=False):
    ends = {"log_end_offset": end, "high_watermark": None if end is None else end - 1}
    of = {"topic": "t", "topic_id": "id", "partition": 0, "broker_id": broker_id}
    return ReplicaState(**of, **ends, log_directory=f"/root/d{broker_id}", size_bytes=size, is_future=is_future)


def windows_of(known, batch_epoch, newest=None):
    """States of the first window, to which partition t-0 was written in an epoch."""
    epochs = {} if batch_epoch is None else {0: {("t", "id", 0): batch_epoch}}
    return list_window_states(known, WINDOWS[:1], epochs, newest=newest)


def replica_rows(states, *replicas):
    """Rows of replicas on brokers 1 and 2, unless others are given."""
    return list(list_cluster_state_rows("c", replicas or (replica(1, 90), replica(2, 100)), states, str))


def test_a_broker_is_listed_when_registered_or_when_its_disk_was_found():
    disks = (
        log_directory(2, {"t-0": [(0, 1)]}),
        log_directory(2, {"t-1": [(0, 1)]}, path="/d2b"),
        log_directory(3, {"t-0": [(0, 1)]}),
        log_directory(100, {"__cluster_metadata-0": [(0, 1)]}),  # a controller bears no load
        log_directory(None, {"t-0": [(0, 1)]}),
    )
    counts = count_directories(LogTree(directories=disks))
    now = history((0, state(1, 0)))
    states = list_window_states(now, WINDOWS[:1])
    rows = list(list_broker_rows("c", now, counts, states, {2: {"num.io.threads": "3"}}))
    assert [row["configs"] for row in rows] == [{}, {"num.io.threads": "3"}, {}]
    told = [(r["broker_id"], r["rack"], r["is_fenced"], r["log_directory_count"], r["state_source"]) for r in rows]
    assert told == [
        (1, "r1", False, 0, "cluster_metadata"),
        (2, "r2", False, 2, "cluster_metadata"),
        (3, None, None, 1, "log_directories"),
    ]


def test_disks_are_told_by_log_directory_and_with_what_their_volumes_hold_where_brokers_say():
    replicas = [replica(1, 9), replace(replica(1, 9, is_future=True), log_directory="/root/other"), replica(2, None)]
    replicas += [replica(2, 9, size=50), replica(3, 9, size=None), replace(replica(1, 9), broker_id=None)]
    spaces = {2: {"/root/d2": DirectorySpace(1_000, 400)}, 4: {"/data": DirectorySpace(70, 7)}}
    disks = disk_columns(replicas, spaces, lambda path: path.removeprefix("/root/"))
    assert disks == {
        1: {"log_dir_bytes": {"d1": 100, "other": 100}, "log_dir_total_bytes": {}, "log_dir_usable_bytes": {}},
        2: {"log_dir_bytes": {"d2": 150}, "log_dir_total_bytes": {"d2": 1_000}, "log_dir_usable_bytes": {"d2": 400}},
        4: {"log_dir_bytes": {}, "log_dir_total_bytes": {"/data": 70}, "log_dir_usable_bytes": {"/data": 7}},
    }
    now = history((0, state(1, 0)))
    rows = list(list_broker_rows("c", now, {}, list_window_states(now, WINDOWS[:1]), {}, disks=disks))
    assert [row["log_dir_bytes"] for row in rows] == [{"d1": 100, "other": 100}, {"d2": 150}]


def test_a_replica_is_described_as_of_each_windows_end():
    moved = history((0, state(1, 0)), (MINUTE_MS + 1, state(2, 1, isr=(2,))))
    replicas = (replica(1, 90), replica(2, 100, size=200), replica(1, 5, is_future=True))
    states = list_window_states(moved, WINDOWS)
    rows = list(list_cluster_state_rows("c", replicas, states, lambda path: path.removeprefix("/root/")))
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
    rows = list_cluster_state_rows("c", (), list_window_states(present, WINDOWS[:1]), str, moving=moving)
    assert [row["reassignment"] for row in rows] == told


def test_what_is_not_known_stays_empty():
    unknown = history((0, state(NO_LEADER, None, topic_id=None, isr=None)))
    rows = list(list_cluster_state_rows("c", (replica(2, None),), list_window_states(unknown, WINDOWS[:1]), str))
    assert [(r["topic_id"], r["is_leader"], r["is_in_sync"], "size_bytes" in r) for r in rows] == [
        ("", False, None, False),
        ("id", False, None, True),
    ]
    assert (rows[1]["log_end_offset"], rows[1]["lag_count"]) == (None, None)


def live(*terms, at_ms, leader, epoch):
    """A live cluster asked at a moment; (first observed, leader, epoch) of earlier terms of partition t-0."""
    states = [*((moment, state(of, term)) for moment, of, term in terms), (at_ms, state(leader, epoch))]
    return replace(history(*states, since_ms=at_ms), state_source=LIVE_CLUSTER)


@pytest.mark.parametrize(
    ("known", "batch_epoch", "led"),
    [
        (live(at_ms=9 * MINUTE_MS, leader=1, epoch=7), None, None),  # neither observed by then nor written to
        (live(at_ms=9 * MINUTE_MS, leader=1, epoch=7), 7, (1, 7)),
        (live(at_ms=9 * MINUTE_MS, leader=1, epoch=7), 6, (NO_LEADER, None)),  # of whom nobody knows
        (live((8 * MINUTE_MS, 2, 6), at_ms=9 * MINUTE_MS, leader=1, epoch=7), 6, (2, 6)),  # known, if later
        (live((0, 2, 6), at_ms=9 * MINUTE_MS, leader=1, epoch=7), None, (2, 6)),
        (live((0, 2, 6), at_ms=9 * MINUTE_MS, leader=1, epoch=7), 7, (1, 7)),  # it moved within the window
        (live((0, 2, 6), at_ms=9 * MINUTE_MS, leader=1, epoch=8), 7, (NO_LEADER, None)),
        (live((MINUTE_MS + 1, 2, 6), at_ms=9 * MINUTE_MS, leader=1, epoch=7), None, None),
    ],
)
def test_what_is_observed_later_tells_a_window_only_what_its_leader_epochs_prove(known, batch_epoch, led):
    (first,) = windows_of(known, batch_epoch)
    rows = replica_rows([first])
    assert {(row["leader_id"], row["leader_epoch"]) for row in rows} == (set() if led is None else {led})
    for row in rows:
        assert row["is_in_sync"] is None
        assert row["is_leader"] == (row["replica_id"] == led[0])
        assert row["observed_at"].timestamp() == 9 * 60
        assert "size_bytes" not in row
    disks = {1: {"log_dir_bytes": {"d": 1}}}
    brokers = list(list_broker_rows("c", known, {1: 1}, [first], {1: {"a": "b"}}, disks=disks))
    told = {(row["is_fenced"], row["away_ms"], tuple(row["configs"]), "log_dir_bytes" in row) for row in brokers}
    assert told == {(None, None, (), False)}


@pytest.mark.parametrize(
    ("known", "batch_epoch", "led"),
    [
        (live(at_ms=9 * MINUTE_MS, leader=1, epoch=7), None, (1, 7)),
        (live((0, 2, 6), at_ms=9 * MINUTE_MS, leader=1, epoch=7), None, (2, 6)),  # it may have moved since
        (live(at_ms=9 * MINUTE_MS, leader=1, epoch=7), 6, (1, 7)),
        (live((0, 2, 6), at_ms=9 * MINUTE_MS, leader=NO_LEADER, epoch=7), 6, (NO_LEADER, 7)),
    ],
)
def test_the_newest_window_has_what_changes_slowly_and_nothing_of_a_later_moment(known, batch_epoch, led):
    states = windows_of(known, batch_epoch, WINDOWS[0])
    rows = replica_rows(states)
    now = known.state_at(9 * MINUTE_MS).partitions[T0]
    assert {(r["observed_leader_id"], r["observed_leader_epoch"]) for r in rows} == {(now.leader_id, 7)}
    assert [(r["leader_id"], r["leader_epoch"], r["is_in_sync"], r["size_bytes"]) for r in rows] == [
        (*led, None, 100)  # who is in sync at a later moment says nothing of the window
    ] * 2
    brokers = list(list_broker_rows("c", known, {}, states, {1: {"a": "b"}}))
    assert [(row["is_fenced"], row["configs"]) for row in brokers] == [(None, {"a": "b"}), (None, {})]


@pytest.mark.parametrize(
    ("at_ms", "epoch", "in_sync"),
    [
        (MINUTE_MS, 7, [True, None]),  # of broker 2, which leads nothing, nobody knows whether it stood
        (2 * MINUTE_MS - 1, 7, [True, None]),
        (2 * MINUTE_MS, 7, [None, None]),  # another window has ended since
        (MINUTE_MS, 8, [None, None]),  # leaders moved after the window, or in it
        (MINUTE_MS, None, [None, None]),  # nothing was written
    ],
)
def test_the_answer_that_closes_a_window_tells_of_brokers_that_stood_from_within_it(at_ms, epoch, in_sync):
    known = live(at_ms=at_ms, leader=1, epoch=7)
    states = windows_of(known, epoch, WINDOWS[0])
    rows = replica_rows(states)
    assert [row["is_in_sync"] for row in rows] == in_sync
    assert [row["size_bytes"] for row in rows] == [100, 100]
    assert [row["is_fenced"] for row in list_broker_rows("c", known, {}, states, {})] == [None, None]


def test_the_window_that_holds_the_moment_has_all_that_was_observed():
    brokers = {1: Timeline.always(Broker(broker_id=1)), 2: Timeline.always(Broker(broker_id=2, is_fenced=True))}
    known = replace(live(at_ms=90_000, leader=1, epoch=7), brokers=brokers)
    states = list_window_states(known, WINDOWS[1:])
    rows = replica_rows(states, replica(1, 90), replica(2, 80))
    assert [(row["is_in_sync"], row["lag_count"]) for row in rows] == [(True, 0), (True, 10)]
    assert [row["is_fenced"] for row in list_broker_rows("c", known, {}, states, {})] == [False, True]


def test_stored_rows_get_the_leaders_that_are_known_later():
    led = {"topic": "t", "topic_id": "id", "partition": 0, "leader_id": 1, "leader_epoch": 7}
    stored = [led | {"replica_id": one, "is_leader": one == 1, "is_in_sync": one == 1} for one in (1, 2)]
    moved = history((0, state(2, 8))).state_at(0)
    found = [(r["leader_id"], r["leader_epoch"], r["is_leader"], r["is_in_sync"]) for r in with_leaders(stored, moved)]
    assert found == [(2, 8, False, True), (2, 8, True, False)]
    unknown = history((0, state(NO_LEADER, 8))).state_at(0)
    other = history((0, state(2, 8, topic_id="made anew"))).state_at(0)
    assert list(with_leaders(stored, unknown)) == list(with_leaders(stored, other)) == stored


def test_partitions_that_came_later_are_not_in_windows_before_them():
    """Of topic t partition 0 was observed, of u partition 0 got batches; partition 1 of each is there when asked."""
    at_ms, partitions = 9 * MINUTE_MS, {}
    for topic, since_ms in (("t", 0), ("u", at_ms)):
        for number in (0, 1):
            now = replace(state(1, 0), topic=topic, partition=number)
            moment = since_ms if number == 0 else at_ms
            partitions[TopicPartition(topic, number)] = Timeline((moment,), (now,))
    now = replace(history((0, state(1, 0)), since_ms=at_ms), partitions=partitions)
    (first,) = list_window_states(now, WINDOWS[:1], {0: {("u", "id", 0): 0}})
    leaders = {str(key): found.leader_id for key, found in first.state.partitions.items()}
    assert leaders == dict.fromkeys(("t-0", "u-0", "u-1"), 1)


def test_a_metadata_log_that_begins_with_a_snapshot_says_nothing_of_windows_before():
    cut = history((MINUTE_MS + 1, state(2, 5)), since_ms=MINUTE_MS + 1)
    before, after = list_window_states(cut, WINDOWS, {0: {("t", "id", 0): 4}})
    assert (before.is_observed, before.state.partitions[T0].leader_id) == (False, NO_LEADER)
    assert (after.is_observed, after.state.partitions[T0].leader_id) == (True, 2)
    assert after.observed_at_ms == WINDOWS[1].end_ms


@pytest.mark.parametrize(
    ("spells", "away"),
    [
        ([(0, False)], 0),
        ([(-5, False), (20_000, True)], 40_000),
        ([(-5, False), (20_000, True), (50_000, False)], 30_000),
        ([(-9, False), (-5, True), (50_000, False), (MINUTE_MS, True)], 50_000),
        ([(-5, False), (20_000, None)], 40_000),  # not registered any more
        ([(10_000, True), (20_000, False)], 0),  # it starts for the first time
        ([(-5, True)], MINUTE_MS),  # dead since before the snapshot that the metadata log begins with
        ([(-5, True), (20_000, False)], 20_000),
        ([(MINUTE_MS, False)], None),  # it joins later: its disks gave it a fair share of windows before
    ],
)
def test_how_long_a_broker_was_out_of_the_cluster(spells, away):
    values = tuple(None if fenced is None else Broker(broker_id=1, is_fenced=fenced) for _, fenced in spells)
    brokers = {1: Timeline(tuple(m for m, _ in spells), values)}
    known = replace(history((-10, state(1, 0)), since_ms=-10), brokers=brokers)
    assert away_ms(known, 1, 0, MINUTE_MS) == away
    assert away_ms(replace(known, known_since_ms=1), 1, 0, MINUTE_MS) == (MINUTE_MS if spells == [(-5, True)] else None)
    assert away_ms(known, 2, 0, MINUTE_MS) is None
    asked_at_its_start = replace(known, state_source=LIVE_CLUSTER, known_since_ms=0)
    assert away_ms(asked_at_its_start, 1, 0, MINUTE_MS) is None  # an answer is of one moment


@pytest.mark.parametrize(
    ("spells", "away"),
    [
        ([(30_000, True)], MINUTE_MS),
        ([(30_000, True), (MINUTE_MS + 1, False)], MINUTE_MS),
        ([(30_000, True), (40_000, False)], None),
        ([(30_000, False)], None),
        ([(30_000, False), (40_000, True)], None),
        ([(40_000, True)], None),  # it was registered since
    ],
)
def test_a_broker_that_is_out_when_the_history_begins_was_out_in_the_window_before(spells, away):
    """A large metadata log is cut after hours: the dead broker had its fair share in windows that reach back further."""
    values = tuple(Broker(broker_id=1, is_fenced=fenced) for _, fenced in spells)
    known = replace(
        history((30_000, state(1, 0)), since_ms=30_000), brokers={1: Timeline(tuple(m for m, _ in spells), values)}
    )
    assert away_ms(known, 1, 0, MINUTE_MS) == away
    if spells[0][0] == 30_000:
        assert away_ms(known, 1, -MINUTE_MS, 0) == (MINUTE_MS if spells[0][1] else None)


def test_group_rows_of_the_moments_within_the_windows():
    of = {"group_id": "g", "topic": "t", "partition": 0, **dict.fromkeys(("member_id", "client_host", "client_id"))}
    member = ConsumerGroupMember(committed_offset=7, log_end_offset=9, lag_count=2, **of)
    moments = [(-1, member), (0, member), (MINUTE_MS, member), (2 * MINUTE_MS, member)]
    now = {"groups_now": ((2 * MINUTE_MS, member),), "newest": WINDOWS[1]}
    reading = ClusterReading(record_source="x", history=history(), groups=tuple(moments), **now)
    rows = list(iter_group_rows("c", reading, WINDOWS))
    assert [row["observed_at"].timestamp() for row in rows] == [0, 60, 120]
    assert [row["window_start"].timestamp() for row in rows] == [0, 60, 60]
    assert rows[0]["lag_count"] == 2


def test_compacted_by_config_or_by_the_cleaners_checkpoint():
    configs = {"a": {"cleanup.policy": "compact,delete"}, "b": {"cleanup.policy": "delete"}, "c": {}}
    now = ClusterState(at_ms=0, state_source="cluster_metadata", topic_configs=configs)
    disk = log_directory(1, {}, cleaner_offsets={TopicPartition("c", 0): 5})
    assert compacted_topics(now, LogTree(directories=(disk,))) == {"a", "c"}
    assert compacted_topics(replace(now, topic_configs={"b": configs["b"]}), LogTree()) == set()
    live = replace(now, state_source=LIVE_CLUSTER)
    assert compacted_topics(live, LogTree()) == {"a", "c"}  # brokers tell defaults, too: what they do not tell may be


@pytest.mark.parametrize("said", ["-1", "a week", "9" * 19, "٣"])
def test_a_retention_that_is_no_time_is_not_known(said):
    assert retention_ms({"retention.ms": said}) is retention_ms({}) is None
    assert retention_ms({"retention.ms": "5"}) == 5


def test_a_broker_without_partitions_is_one_and_a_controller_is_none():
    metadata = {"__cluster_metadata-0": [(0, 1)]}
    disks = [log_directory(1, {"t-0": [(0, 1)]}, path="/a"), log_directory(1, {}, path="/b")]
    disks += [log_directory(2, metadata), log_directory(100, metadata), log_directory(None, {"t-1": [(0, 1)]})]
    assert count_directories(LogTree(directories=tuple(disks)), {1, 2}) == {1: 2, 2: 1}


def test_topic_ids_that_no_file_names_are_matched_by_name_and_said():
    known = {T0: state(1, 0), TopicPartition("u", 0): state(1, 0, topic_id=None)}
    held = {"t-0": [(0, 1)], "u-0": [(0, 1)], "gone-0": [(0, 1)]}
    marked = log_directory(2, {"t-0": [(0, 1)]})
    marked = replace(marked, partitions=(replace(marked.partitions[0], topic_id="older"),))
    tree, problems = with_ids_by_name(LogTree(directories=(log_directory(1, held), marked)), known)
    assert [p.topic_id for one in tree.directories for p in one.partitions] == ["id", None, None, "older"]
    (problem,) = problems
    said = "1 partition without partition.metadata: topics are known by name only"
    assert (problem.path, problem.reason) == ("/d1", said)
