"""Which window an observation belongs to, and what a window lacks whose leaders are not known. Oracle: written by hand."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pipeline.cli.run import list_undone
from pipeline.config_file import load_config
from pipeline.errors import NothingUsableError
from pipeline.jobs import ingest
from pipeline.jobs.ingest.windows import (
    _list_dropped,
    _list_unknown_leaders,
    commit_windows,
    describe_other_lengths,
    find_newest_window,
)
from pipeline.model.cluster import CLUSTER_METADATA, LIVE_CLUSTER, Broker, ClusterHistory, ReplicaState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import LeaderEpoch, LogDirectory, LogTree, PartitionDirectory
from pipeline.model.window import TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.sources.live.reading import LiveReading
from pipeline.sources.questions import SourceAvailability
from pipeline.sources.source import ClusterReading
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import StoredWindows
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.silver import PARTITION_TRAFFIC, RECORD_BATCHES
from tests.config_files import write_configuration
from tests.table_rows import zero_row
from tests.unit.sources.live.test_live_state import SOURCE, partition, state

MINUTE_MS = 60_000
START_MS = 1_795_251_600_000


def window(minute):
    return TimeWindow(START_MS + minute * MINUTE_MS, START_MS + (minute + 1) * MINUTE_MS)


def plan(folder, first, last, now_ms, **cluster):
    lab = {"sources": [{"kind": "log_directories", "paths": [str(folder)]}], **cluster}
    path = write_configuration(folder, {"lab": lab}, window="PT1M", keys={"secret": "secret"})
    span = TimeWindow(window(first).start_ms, window(last).end_ms)
    (run,) = plan_runs(load_config(path), span, run_id="test", now_ms=now_ms)
    return run


def commit(run, minutes, *, length_ms=MINUTE_MS, **fields):
    """Windows of some minutes were ingested before."""
    ensure_tables(run.warehouse)
    starts_ms = [window(minute).start_ms for minute in minutes]
    rows = [zero_row(WINDOW_STATUS, at_ms, window_end=instant_of(at_ms + length_ms), **fields) for at_ms in starts_ms]
    run.replace(WINDOW_STATUS, rows, [window(minute) for minute in minutes])


@pytest.mark.parametrize(
    ("stored", "late_ms", "is_newest"),
    [
        ((), 5 * MINUTE_MS, True),
        ((0, 1, 2), 5 * MINUTE_MS, True),  # it is run once more
        ((0, 1, 3), 5 * MINUTE_MS, False),  # it is caught up with
        ((), 61 * MINUTE_MS, True),  # schedules slip
        ((), 62 * MINUTE_MS, False),  # grace, half a window; a window; an hour
    ],
)
def test_the_present_state_belongs_to_the_newest_window_that_was_due_lately(tmp_path, stored, late_ms, is_newest):
    run = plan(tmp_path, 1, 2, window(2).end_ms + late_ms)
    if stored:
        commit(run, stored)
    assert find_newest_window(run) == (window(2) if is_newest else None)


def test_partitions_whose_leader_is_not_known_are_named(tmp_path):
    run = plan(tmp_path, 0, 1, window(1).end_ms)
    ensure_tables(run.warehouse)
    places = [(0, "b", 0, -1, 4), (0, "a", 3, -1, 1), (0, "a", 3, 2, 2), (1, "a", 3, -1, -1), (1, "a", 4, 0, 0)]
    names = ("topic", "partition", "leader_id", "leader_epoch")
    rows = [
        zero_row(PARTITION_TRAFFIC, window(minute).start_ms, **dict(zip(names, place, strict=True)))
        for minute, *place in places
    ]
    run.replace(PARTITION_TRAFFIC, rows, run.windows)
    unknown = "(who led in leader epoch {} is not known)".format
    assert dict(_list_unknown_leaders(run)) == {
        window(0).start_ms: [f"a-3 {unknown(1)}", f"b-0 {unknown(4)}"],
        window(1).start_ms: ["a-3 (who led is not known)"],
    }


@pytest.mark.parametrize(
    ("brought", "names", "expected", "missing"),
    [
        (SourceAvailability(3, 3), ["a-0 (x)"], 4, "a-0 (x)"),
        (SourceAvailability(3, 2, "broker 2 (gone)"), ["a-0 (x)"], 4, "broker 2 (gone); a-0 (x)"),
        (SourceAvailability(None, 5), list("abcdefg"), 12, "a; b; c; d; e; 2 more"),
    ],
)
def test_a_window_lacks_the_partitions_whose_leader_is_not_known(brought, names, expected, missing):
    found = brought.without(names, len(names))
    assert (found.expected_count, found.arrived_count, found.missing) == (expected, brought.arrived_count, missing)


def find_missing(run, reading):
    """What each of a run's windows lacks, by minute, of a source that brought all the rest."""
    given = SimpleNamespace(
        reading=reading,
        metrics=SimpleNamespace(listed={}),
        instances=(),
        row_counts=Counter(),
        window_sums=pa.table({"max_timestamp_ms": [run.as_of_ms]}),
        problems={},
    )
    commit_windows(run, given, StoredWindows(), {}, {})
    rows = {row["window_start"]: row for row in run.rows(WINDOW_STATUS, run.windows)}
    told = {(one.start_ms - START_MS) // MINUTE_MS: rows[instant_of(one.start_ms)] for one in run.windows}
    assert all(bool(row["missing"]) is (row["arrived_count"] < row["expected_count"]) for row in told.values())
    return {minute: row["missing"] for minute, row in told.items() if row["missing"]}


def had_traffic(run, *topics, minute=0, record_count=1, last_offset=0):
    ensure_tables(run.warehouse)
    fields = {"topic_id": "old", "record_count": record_count, "last_offset": last_offset}
    rows = [zero_row(PARTITION_TRAFFIC, window(minute).start_ms, topic=topic, **fields) for topic in topics]
    run.replace(PARTITION_TRAFFIC, rows, (window(minute),))


LOST = "topics were deleted, or made anew, and what they got since the window before is lost (`topics` leaves topics out): t"
OLD, NEW = (partition(topic_id=one) for one in ("old", "new"))


def told_by_disks(*changes, since_ms=0, collected=None):
    """Topic `t` as a metadata log tells it: states from so many minutes on."""
    moments_ms = tuple(int(START_MS + minute * MINUTE_MS) for minute, _ in changes)
    timelines = {TopicPartition("t", 0): Timeline(moments_ms, tuple(one for _, one in changes))} if changes else {}
    history = ClusterHistory(
        state_source=CLUSTER_METADATA,
        known_since_ms=since_ms,
        newest_ms=window(2).end_ms,
        partitions=timelines,
        brokers={1: Timeline((0,), (Broker(broker_id=1),))},
    )
    counts = {"directory_counts": {1: 1}, "collected": collected}
    return ClusterReading(record_source="log_directories", history=history, **counts)


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        (((-9, OLD), (2.5, None)), {1, 2}),  # deleted
        (((-9, OLD), (1.5, None)), {1}),  # before the second window began
        (((-9, OLD), (0.9, None)), set()),  # before the first one did
        (((-9, OLD), (2.5, None), (2.6, NEW)), {1, 2}),  # made anew
        (((-9, OLD), (9, None), (9.1, NEW)), {1, 2}),  # after the windows, before the disks were read
        (((-9, OLD),), set()),
        (((-9, OLD), (2.5, partition(2, 8, topic_id="old"))), set()),  # another leads it
    ],
)
def test_a_topic_with_traffic_that_is_gone_from_disks_is_missing_in_windows_in_which_it_was(tmp_path, changes, lacking):
    """What it got went with its log, and the window counted as complete."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    had_traffic(run, "t")
    assert find_missing(run, told_by_disks(*changes)) == dict.fromkeys(lacking, LOST)


@pytest.mark.parametrize(("paused_minutes", "lacking"), [(1, {1, 2}), (3 * 24 * 60, {1, 2}), (32 * 24 * 60, set())])
def test_a_topic_with_traffic_before_a_pause_that_is_gone_after_it_is_missing(tmp_path, paused_minutes, lacking):
    """Only a day was looked back: after a pause of two days nobody missed it."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    commit(run, [1 - paused_minutes])
    had_traffic(run, "t", minute=1 - paused_minutes)
    assert find_missing(run, told_by_disks((-50_000, OLD), (2.5, None))) == dict.fromkeys(lacking, LOST)


def test_a_topic_with_traffic_that_is_deleted_while_its_disks_are_read_is_missing(tmp_path):
    """The metadata log, which was read before, has it still."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    had_traffic(run, "t")
    assert find_missing(run, replace(told_by_disks((-9, OLD)), deleted={"t"})) == dict.fromkeys((1, 2), LOST)


@pytest.mark.parametrize(("deleted_in", "lacking"), [(1, {1}), (2, {2}), (3, set())])
def test_what_a_deleted_topic_got_in_windows_before_was_collected(tmp_path, deleted_in, lacking):
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    had_traffic(run, "t")
    changes = (-9, OLD), (deleted_in + 0.5, None)
    assert find_missing(run, told_by_disks(*changes, collected=object())) == dict.fromkeys(lacking, LOST)


def test_a_topic_deleted_before_the_metadata_log_begins_is_missing_in_windows_before(tmp_path):
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    had_traffic(run, "t")
    assert find_missing(run, told_by_disks(since_ms=window(1).start_ms + 1)) == {1: LOST}


GAP = "logs have a gap before another broker led, as after an unclean election, which drops records: of t-0"


def every(step, first, last, leader_id, epoch):
    return [(second, leader_id, epoch) for second in range(first, last, step)]


@pytest.mark.parametrize(
    ("batches", "lacking"),
    [
        (every(1, 0, 80, 1, 0) + every(1, 125, 180, 2, 1), {1, 2}),  # seconds from minute 0 on
        (every(1, 0, 125, 1, 0) + every(1, 165, 180, 2, 1), {2}),
        (every(1, 0, 80, 1, 0) + every(1, 125, 180, 1, 1), set()),  # the same broker, after an outage
        (every(1, 0, 100, 1, 0) + every(1, 125, 180, 2, 1), set()),  # as long as a clean election may take
        (every(1, 0, 60, 1, 0) + every(1, 82, 84, 1, 0) + every(1, 125, 180, 2, 1), set()),  # bursts
        (every(1, 0, 1, 1, 0) + every(1, 23, 80, 1, 0) + every(1, 125, 180, 2, 1), set()),  # bursts before
        (every(1, 40, 80, 1, 0) + every(1, 125, 180, 2, 1), set()),  # it begins late
        (every(9, 0, 80, 1, 0) + every(9, 125, 180, 2, 1), set()),  # too few to tell
        (every(1, 10, 40, 1, 0) + every(1, 140, 170, 2, 1), set()),  # two bursts, as jobs make them
        (every(1, 0, 80, -1, 0) + every(1, 125, 180, -1, 1), set()),
    ],
)
def test_a_gap_before_another_broker_leads_may_be_what_an_unclean_election_dropped(tmp_path, batches, lacking):
    """Brokers tell no unclean election, and the window was trusted. A rate of more than 16 batches in the gap is not due to chance."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    ensure_tables(run.warehouse)
    minutes = [window(minute) for minute in range(3)]
    rows, terms = [], set()
    for offset, (second, leader_id, epoch) in enumerate(batches):
        at_ms, start_ms = START_MS + second * 1000, window(second // 60).start_ms
        led = {"topic": "t", "leader_id": leader_id, "leader_epoch": epoch}
        times = dict.fromkeys(("base_timestamp", "max_timestamp"), instant_of(at_ms))
        rows.append(zero_row(RECORD_BATCHES, start_ms, base_offset=offset, **times, **led))
        terms.add((start_ms, *led.items()))
    run.replace(RECORD_BATCHES, rows, minutes)
    run.replace(PARTITION_TRAFFIC, [zero_row(PARTITION_TRAFFIC, at_ms, **dict(led)) for at_ms, *led in terms], minutes)
    reading = ClusterReading(record_source="log_directories", history=ClusterHistory(state_source="topics_describe"))
    of_gaps = {minute: missing for minute, missing in find_missing(run, reading).items() if GAP in missing}
    assert of_gaps == dict.fromkeys(lacking, GAP)


@pytest.mark.parametrize(
    ("fenced_at", "written_at", "leader_id", "lacking"),
    [
        (1.1, 3, 2, {1, 2}),  # it goes on, in both windows
        (2.1, 9, 2, {2}),
        (1.1, 1.2, 2, set()),  # it died then: some record's time is ahead
        (1.1, 3, 1, set()),  # nobody else was elected
        (None, 3, 2, set()),  # it came back
    ],
)
def test_who_leads_is_not_known_where_a_fenced_broker_serves_on(tmp_path, fenced_at, written_at, leader_id, lacking):
    """Disks counted what it took for the leader elected since."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    ensure_tables(run.warehouse)
    led = {"topic": "t", "topic_id": "old", "leader_epoch": 7, "leader_id": leader_id, "record_count": 9}
    run.replace(
        PARTITION_TRAFFIC, [zero_row(PARTITION_TRAFFIC, one.start_ms, **led) for one in run.windows], run.windows
    )
    reading = told_by_disks((-9, partition(1, 7, topic_id="old")), (1.1, partition(2, 8, topic_id="old")))
    now, gone = Broker(broker_id=1), Broker(broker_id=1, is_fenced=True)
    states = [(-10, gone), (-9, now), (1.1, gone), *([(1.2, gone)] if fenced_at else [(1.2, now)])]
    moments_ms = tuple(int(START_MS + (minute if minute < 1 else fenced_at or 1.1) * MINUTE_MS) for minute, _ in states)
    history = replace(reading.history, brokers={1: Timeline(moments_ms, tuple(one for _, one in states))})
    written_ms = {1: {"/disk": int(START_MS + written_at * MINUTE_MS)}}
    found = find_missing(run, replace(reading, history=history, disk_ends_ms=written_ms))
    said = "brokers that the controllers fenced go on serving clients, so who led is not known: of t-0"
    assert {minute: missing for minute, missing in found.items() if said in missing} == dict.fromkeys(lacking, said)


@pytest.mark.parametrize(
    ("here", "denied", "topics", "lacking"),
    [
        ({}, {}, (), {1, 2}),
        ({"t": NEW}, {}, (), {1, 2}),
        ({"t": OLD}, {}, (), set()),
        ({"t": OLD}, {"forgotten": "deleted while it was read"}, (), {1, 2}),
        ({"t": partition(topic_id=None)}, {}, (), set()),  # brokers that know no ids
        ({}, {"t": "denied"}, (), set()),  # it is missing by another reason
        ({}, {}, ("!t",), set()),
    ],
)
def test_a_topic_with_traffic_that_a_live_cluster_has_no_more_is_missing(tmp_path, here, denied, topics, lacking):
    given = {"sources": [{"kind": "live_cluster", "bootstrap_servers": ["b:1"]}], "topics": topics}
    run = plan(tmp_path, 1, 2, window(2).end_ms, **given)
    had_traffic(run, "t", "__consumer_offsets")
    partitions = {TopicPartition(topic, 0): one for topic, one in here.items()}
    known = {key: Timeline.always(one) for key, one in partitions.items()}
    history = ClusterHistory(state_source=LIVE_CLUSTER, known_since_ms=run.as_of_ms, partitions=known)
    now = replace(
        state(), history=history, partitions=partitions, in_scope=() if "forgotten" in denied else tuple(partitions)
    )
    now.failures.topics.update(denied)
    live = LiveReading(source=SOURCE, observed_at_ms=run.as_of_ms, state=now)
    found = find_missing(run, ClusterReading(record_source=LIVE_CLUSTER, history=history, live=live))
    assert {minute for minute, said in found.items() if "made anew" in said} == lacking
    assert all(said.endswith(LOST) for minute, said in found.items() if minute in lacking)


@pytest.mark.parametrize(
    ("ends", "is_lost"),
    [
        ((99,), True),  # the broker came back with an empty disk, or one that was behind leads
        ((100,), False),  # nothing came since
        ((99, 100), False),  # a follower is behind
        ((99, None), True),
        ((None,), False),  # nobody knows
        ((), False),
    ],
)
def test_a_log_that_ends_before_what_the_window_before_had_is_missing(tmp_path, ends, is_lost):
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    had_traffic(run, "t", last_offset=99)
    of = {"topic": "t", "topic_id": "old", "partition": 0, "log_directory": "/d"}
    replicas = tuple(ReplicaState(broker_id=number, log_end_offset=end, **of) for number, end in enumerate(ends))
    found = find_missing(run, replace(told_by_disks((-9, OLD)), replicas=replicas))
    said = "logs end before what the window before had, as after an unclean election or with a new disk: of t-0"
    assert found == (dict.fromkeys((1, 2), said) if is_lost else {})


def of_isr(leader_id, epoch, *isr, replicas=(1, 2), elr=()):
    one = partition(leader_id, epoch, topic_id="old")
    return replace(one, replicas=replicas, isr=isr, eligible_leader_replicas=elr)


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        # 2 falls out of sync, 1 dies, 2 takes over: what 1 got alone, between, is lost
        (((-9, of_isr(1, 1, 1, 2)), (1.2, of_isr(1, 1, 1)), (1.5, of_isr(-1, 2, 1)), (1.7, of_isr(2, 3, 2))), {1}),
        (((-9, of_isr(1, 1, 1, 2)), (1.2, of_isr(1, 1, 1)), (2.7, of_isr(2, 2, 2))), {1, 2}),
        # 2 fell behind before the in-sync set says so
        (((-9, of_isr(1, 1, 1, 2)), (2.1, of_isr(1, 1, 1)), (2.5, of_isr(2, 2, 2))), {1, 2}),
        (((-9, of_isr(1, 1, 1)), (9, of_isr(2, 2, 2))), {1, 2}),  # in no in-sync set that is known
        (((2.2, of_isr(1, 1, 1)), (2.6, of_isr(2, 2, 2))), {1, 2}),  # the metadata log begins with a snapshot
        (((-9, of_isr(1, 1, 1)), (0.7, of_isr(2, 2, 2)), (1.7, of_isr(2, 2, 2, 1)), (2.2, of_isr(1, 3, 2, 1))), set()),
        (((-9, of_isr(1, 1, 1, 2)), (1.5, of_isr(2, 2, 2))), set()),  # a clean election
        (((-9, of_isr(1, 1, 1)), (1.5, of_isr(-1, 2, 1)), (1.7, of_isr(1, 3, 1))), set()),  # it came back
        (((-9, of_isr(1, 1, 1)), (1.5, of_isr(-1, 2)), (1.7, of_isr(1, 3, 1))), set()),  # after it was killed (KIP-966)
        (((-9, replace(of_isr(-1, 2), last_known_elr=(1,))), (1.7, of_isr(1, 3, 1))), set()),  # before the log begins
        (((-9, of_isr(1, 1, 1, elr=(2,))), (1.5, of_isr(2, 2, 2))), set()),  # KIP-966: 2 has all that is committed
        (((-9, of_isr(1, 1, 1)), (1.5, of_isr(2, 2, 2, replicas=(2, 3)))), set()),  # the end of a reassignment
    ],
)
def test_what_an_unclean_election_drops_is_missing(tmp_path, changes, lacking):
    """Records that a broker took and acknowledged were in no log any more, and the window counted as complete."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    said = "an unclean election drops what the leader before got while the new one was out of sync: of t-0"
    ensure_tables(run.warehouse)
    found = find_missing(run, told_by_disks(*changes, since_ms=START_MS + int(changes[0][0] * MINUTE_MS)))
    assert found == dict.fromkeys(lacking, said)


def test_an_unclean_election_of_a_topic_drops_nothing_of_one_of_its_name_before(tmp_path):
    run = plan(tmp_path, 0, 2, window(2).end_ms)
    changes = (0, of_isr(1, 1, 1)), (1.1, None), (2.1, of_isr(1, 1, 1)), (2.5, of_isr(2, 2, 2))
    assert [*_list_dropped(run, told_by_disks(*changes))] == [window(2).start_ms]


@pytest.mark.parametrize(
    ("disks", "registered", "collected", "lacking"),
    [
        (("a", "b"), ("b",), None, {1, 2}),  # in all windows until then
        (("a", "b"), ("b",), object(), {2}),  # what a collector read before is kept
        (("a", "a"), ("a",), None, set()),  # the broker was killed
        (("a", "b"), ("a", "b"), None, set()),  # somebody moved the log to another disk of the broker
        (("none", "b"), ("b",), None, set()),  # a log without a known disk was given one
    ],
)
def test_what_a_broker_got_alone_on_a_disk_that_was_replaced_is_missing(
    tmp_path, disks, registered, collected, lacking
):
    """A first run, or one that comes late, finds a log that begins after the window, and the window counted as complete."""
    run = plan(tmp_path, 1, 2, window(2).end_ms)
    ensure_tables(run.warehouse)
    on_first, on_second = (replace(of_isr(1, 1, replicas=(1,)), directory_ids=(disk,)) for disk in disks)
    away, back = replace(on_second, leader_id=-1), replace(on_second, isr=(1,), leader_epoch=3)
    told = told_by_disks((-9, replace(on_first, isr=(1,))), (2.4, away), (2.6, back), collected=collected)
    moments_ms = 0, START_MS + int(2.5 * MINUTE_MS)
    brokers = (Broker(broker_id=1, directory_ids=ids) for ids in (("a",), registered))
    told = replace(told, history=replace(told.history, brokers={1: Timeline(moments_ms, tuple(brokers))}))
    said = "a broker came back with a new disk, and what it had got alone is lost: of t-0"
    assert find_missing(run, told) == dict.fromkeys(lacking, said)
    # the metadata log begins while the broker is away
    moments_ms = told.history.known_since_ms, START_MS + int(2.6 * MINUTE_MS)
    begun = Timeline(moments_ms, (replace(on_first, leader_id=-1, isr=(1,)), back))
    told = replace(told, history=replace(told.history, partitions={TopicPartition("t", 0): begun}))
    assert find_missing(run, told) == dict.fromkeys(lacking, said)
    # somebody moved the log there while the broker was away
    log = PartitionDirectory(
        path="/d/t-0", topic="t", partition=0, leader_epochs=(LeaderEpoch(epoch=1, start_offset=0),)
    )
    tree = LogTree(directories=(LogDirectory(path="/d", broker_id=1, partitions=(log,)),))
    assert find_missing(run, replace(told, tree=tree)) == {}


def test_a_topic_that_is_gone_and_had_no_traffic_in_the_newest_window_before_is_not_missing(tmp_path):
    run = plan(tmp_path, 2, 3, window(3).end_ms)
    had_traffic(run, "t")
    had_traffic(run, "other", minute=1)
    had_traffic(run, "idle", minute=1, record_count=0)
    assert find_missing(run, told_by_disks()) == {}


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_changed_length_of_windows_is_said(tmp_path, minutes):
    run = plan(tmp_path, 5, 5, window(5).end_ms)
    commit(run, [0], length_ms=minutes * MINUTE_MS)
    said = describe_other_lengths(run)
    assert said.startswith("windows of the last day are 5 minutes long, and `window` is now 1 minute: ") or minutes == 1
    assert bool(said) is (minutes == 5)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ((), ()),  # the first run of all
        ((0, 1, 2, 3, 4), ()),
        ((0, 1, 4), (2, 3)),
        ((0, 2, 4), (1, 3)),
    ],
)
def test_windows_that_are_left_undone_are_said(tmp_path, stored, said):
    run = plan(tmp_path, 5, 5, window(5).end_ms)
    if stored:
        commit(run, stored, is_trusted=True)
    notes = list_undone(run)
    if not said:
        assert notes == ()
        return
    (note,) = notes
    span = TimeWindow(window(said[0]).start_ms, window(said[-1]).end_ms)
    command = f"`partition-health run --window {span} --config "
    assert note.startswith(f"2 windows before it, {span}, were not ingested: {command}")


def test_of_many_sources_that_hold_nothing_some_are_named(tmp_path):
    folders = [str(tmp_path / f"gone-{number}") for number in range(1_000)]
    run = plan(tmp_path, 0, 0, START_MS + MINUTE_MS, sources=[{"kind": "log_directories", "paths": folders}])
    with pytest.raises(NothingUsableError, match=r"gone-0: No such file or directory, .* and 995 more") as raised:
        ingest.run(None, run)
    assert len(str(raised.value)) < 5 * len(folders[0]) + 500
