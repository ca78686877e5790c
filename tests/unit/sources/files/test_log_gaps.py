"""What disks lack of a window. Oracle: written out by hand; logs are real files."""

import os
from types import SimpleNamespace

import pytest

from pipeline.codec.metadata.cluster_history import MetadataEntry, fold_cluster_history
from pipeline.codec.metadata.cluster_metadata import MetadataRecord, RecordType
from pipeline.model.cluster import NO_LEADER, Broker, ClusterHistory, PartitionState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import LogDirectory, LogTree
from pipeline.model.window import MINUTE_MS, TimeWindow
from pipeline.sources.files.cluster_state import read_metadata_ends, read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_gaps import (
    find_cut_logs,
    find_old_copies,
    find_stale,
    list_live,
    name_left_out,
    weigh_disks,
)
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.source import ClusterReading, Described
from tests.batches import START_MS, make_batch, make_records

WINDOW, HOUR = TimeWindow(100, 200), TimeWindow(0, 60 * MINUTE_MS)
GONE = "records were gone before they were read, by retention or a purge (`topics` leaves topics out): of a-0"
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


def weigh(partitions, *, brokers=(1, 2), fenced=None, **fields):
    reading = read_disks(brokers=brokers, of_brokers=fenced, partitions=partitions, **fields)
    weighed = weigh_disks(reading, WINDOW, brokers)
    return weighed.expected_count, weighed.arrived_count, weighed.missing


@pytest.mark.parametrize(
    ("partitions", "wanted"),
    [
        ({A: led(A, (0, 1))}, (3, 2, "no log of a-0")),
        ({A: led(A, (0, 1), (150, NO_LEADER))}, (3, 2, "no log of a-0")),  # its records of before are on that disk
        ({A: led(A, (0, NO_LEADER))}, (2, 2, "")),  # nobody could write to it
        ({A: led(A, (0, 1), (250, None))}, (2, 2, "")),  # deleted since
        ({A: led(A, (0, 3))}, (3, 2, "no log of a-0")),  # 3 is no broker any more
    ],
)
def test_a_partition_that_is_on_no_disk_is_missing(partitions, wanted):
    assert weigh(partitions, found=[OTHER]) == wanted
    assert weigh(partitions, found=[OTHER, A]) == (2, 2, "")
    assert weigh(partitions, found=[OTHER], topics=("other-*",)) == (2, 2, "")
    if partitions[A].at(250) is None or partitions[A].at(250).leader_id != NO_LEADER:
        assert weigh(partitions) == (2, 2, "")  # a copy of the disks may leave the topic out


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (((0, 1), (150, NO_LEADER)), "no log of a-0"),
        (((0, 1), (250, NO_LEADER)), "no log of a-0"),  # before the disk was read
        (((0, 1), (50, NO_LEADER)), ""),  # nobody could write to it in the window
        (((0, 1), (150, NO_LEADER), (160, 1)), ""),  # it is back: a copy of the disks leaves the topic out
        (((0, 1), (150, NO_LEADER), (250, None)), ""),  # deleted since
    ],
)
def test_a_topic_whose_only_disk_failed_in_the_window_is_missing(terms, said):
    """Its broker registers without that disk then, and the whole topic was taken to be left out by copies."""
    assert weigh({A: led(A, *terms)}) == (2 + bool(said), 2, said)


def test_topics_without_any_log_are_named(tmp_path):
    write_log(tmp_path / "d", "b-0", 0, START_MS)
    tree = discover_logs([tmp_path / "d"])
    history = ClusterHistory(state_source="s", partitions={A: led(A, (0, 1)), OTHER: led(OTHER, (0, NO_LEADER))})
    (problem,) = name_left_out(tree, list_live(tree), history.state_at(9), ())
    assert problem.reason == "no disk holds a partition of a: taken to be left out, as `topics` may say"
    assert not list(name_left_out(tree, list_live(tree), history.state_at(9), ("b",)))


def test_a_topic_that_was_created_anew_is_another_one():
    partitions = {A: Timeline((0, 250), (led(A, (0, 1)).values[0], led(A, (0, 1), topic_id="new").values[0]))}
    assert weigh(partitions, found=[OTHER]) == (2, 2, "")


def test_partitions_of_a_broker_that_is_missing_as_a_whole_are_not_named_too():
    assert weigh({A: led(A, (0, 2))}, brokers=(1,), found=[OTHER]) == (2, 1, "no disk of broker 2")


@pytest.mark.parametrize(
    ("states", "is_expected"),
    [
        ([(0, True)], False),  # dead all the time, or gone and never unregistered
        ([(0, False), (150, True)], True),
        ([(0, True), (150, False)], True),
        ([(150, True)], False),
        ([(0, True), (120, False), (180, True)], True),  # it led meanwhile
        ([(0, True), (120, False), (180, None)], False),
        ([(50, True), (250, False)], False),
    ],
)
def test_a_broker_that_is_fenced_all_the_window_is_not_expected(states, is_expected):
    wanted = (3, 2, "no disk of broker 3") if is_expected else (2, 2, "")
    assert weigh({}, fenced={3: registered(*states)}) == wanted


def test_a_log_with_a_gap_in_the_window_is_missing():
    for gap, said in ((TimeWindow(0, 100), ""), (TimeWindow(0, 101), GONE), (TimeWindow(200, 900), "")):
        assert weigh({A: led(A, (0, 1))}, found=[A], gaps={A: gap})[2] == said


def test_paths_without_a_log_are_missing():
    assert weigh({}, unfound=("/d2",)) == (3, 2, "no log in /d2")


@pytest.mark.parametrize(
    ("registered_ids", "found_ids", "said"),
    [
        ([(0, "xy")], "x", "no disk with directory.id y of broker 1"),
        ([(0, "xy")], "xy", ""),
        ([(0, "xy")], ("x", None), ""),  # its id is not known
        ([(0, "xy")], "", ""),  # the broker is named as a whole where it is expected
        ([(0, "xy"), (250, "x")], "x", ""),  # the disk was taken away since: others led its partitions then
        ([(0, "x"), (250, "xy")], "x", ""),  # it was added after the window
    ],
)
def test_a_log_directory_of_a_broker_that_is_on_no_disk_is_missing(registered_ids, found_ids, said):
    """One that was not mounted held whole topics, and all of its load was left out of the shares."""
    brokers = tuple(Broker(broker_id=1, directory_ids=(*ids,)) for _, ids in registered_ids)
    timeline = Timeline(tuple(at for at, _ in registered_ids), brokers)
    tree = LogTree(directories=tuple(LogDirectory(path="", broker_id=1, directory_id=one) for one in found_ids))
    assert weigh({}, fenced={1: timeline}, tree=tree) == (2 + bool(said), 2, said)


def write_log(root, name, base_offset, at_ms, *, node=1):
    (root / name).mkdir(parents=True)
    (root / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=c\ndirectory.id=d{node}\n")
    records = make_records(3, base_offset=base_offset, start_ms=at_ms)
    (root / name / f"{base_offset:020d}.log").write_bytes(make_batch(records))


def find_gaps(tree, topics=(), start_ms=0, as_of_ms=START_MS + 9000, **configs):
    of_topic = {key.replace("_", "."): value for key, value in configs.items()}
    return find_cut(tree, Timeline.always(of_topic), topics, start_ms=start_ms, as_of_ms=as_of_ms)


def find_cut(tree, configs, topics=(), **times):
    history = ClusterHistory(state_source="only_replica", topic_configs={"a": configs})
    return find_cut_logs(tree, history, topics, **times)


def test_what_is_before_the_first_batch_of_a_log_that_was_cut_is_a_gap(tmp_path):
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    write_log(tmp_path / "d", "b-0", 0, START_MS)
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS + 2)}
    assert find_gaps(tree, ("b",)) == {}
    assert find_gaps(tree, as_of_ms=START_MS) == {A: TimeWindow(0, START_MS)}  # no stamp of the future counts
    (tmp_path / "d/a-0" / f"{50:020d}.log").unlink()
    assert find_gaps(tree) == {}  # retention took it just now: the scan tells


def test_a_log_that_retention_emptied_wholly_is_missing_until_then(tmp_path):
    """Nothing was left that said when: its load was missing silently."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    write_log(tmp_path / "d", "b-0", 0, START_MS)
    emptied, begun = tmp_path / "d/a-0" / f"{50:020d}.log", tmp_path / "d/a-0" / f"{50:020d}.snapshot"
    emptied.write_bytes(b"")
    (tmp_path / "d/b-0" / f"{0:020d}.log").write_bytes(b"")  # nothing was ever in it
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS + 9000)}
    begun.touch()
    os.utime(begun, (0, START_MS / 1000 + 5))
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS + 5000)}
    assert find_gaps(tree, start_ms=START_MS + 5000) == {}


def test_what_retention_took_of_an_idle_log_is_older_than_its_retention(tmp_path):
    """Else each topic that goes idle would once make a window incomplete; what its size has deleted may be younger."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    (tmp_path / "d/a-0" / f"{50:020d}.log").write_bytes(b"")
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree, retention_ms="4000") == {A: TimeWindow(0, START_MS + 5000)}
    assert find_gaps(tree, retention_ms="4000", start_ms=START_MS + 5000) == {}
    assert find_gaps(tree, retention_ms="4000", retention_bytes="1000") == {A: TimeWindow(0, START_MS + 9000)}


def test_what_tiered_storage_took_from_a_local_log_is_missing(tmp_path):
    """`local.retention.ms` empties it long before `retention.ms`: its load was missing silently."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    (tmp_path / "d/a-0" / f"{50:020d}.log").write_bytes(b"")
    tree, week = discover_logs([tmp_path / "d"]), {"retention.ms": "604800000", "local.retention.ms": "1000"}
    found = [
        find_cut(
            tree,
            Timeline.always(week | {"remote.storage.enable": is_tiered}),
            start_ms=START_MS,
            as_of_ms=START_MS + 9000,
        )
        for is_tiered in ("true", "false")
    ]
    assert found == [{A: TimeWindow(0, START_MS + 9000)}, {}]


def test_what_a_topic_lost_while_its_retention_was_short_is_missing(tmp_path):
    """Who purges a topic sets `retention.ms=1000` for some minutes, and then what it was before: its load was missing silently."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    (tmp_path / "d/a-0" / f"{50:020d}.log").write_bytes(b"")
    tree, week, second = discover_logs([tmp_path / "d"]), {"retention.ms": "604800000"}, {"retention.ms": "1000"}

    def find(*changes):
        configs = Timeline(*zip(*changes, strict=True))
        return find_cut(tree, configs, start_ms=START_MS, as_of_ms=START_MS + 9000)

    purged = {A: TimeWindow(0, START_MS + 8000)}
    assert find((0, week)) == {}
    assert find((0, week), (START_MS + 1, second), (START_MS + 2, week)) == purged
    assert find((0, second), (START_MS + 1, week)) == purged
    assert find((0, second), (START_MS, week)) == {}  # it had taken what was older when the window began
    assert find((0, week), (START_MS + 1, None), (START_MS + 2, week)) == {A: TimeWindow(0, START_MS + 9000)}
    assert find((START_MS + 9, second)) == purged


def read_missing(root, *windows):
    """What is missing of windows that begin and end so many ms after the first record."""
    source = LogDirectories(kind="log_directories", paths=(root,))
    spans = tuple(TimeWindow(START_MS + begin, START_MS + end) for begin, end in windows)
    question = ClusterQuestion(name="c", topics=(), windows=spans, as_of_ms=START_MS + 90_000_000, earlier=())
    reading = LogDirectories.read_cluster([source], question, Described())
    return [source.availability(reading, window, None).missing for window in spans]


def write_copies(root, *logs, name="a-0", high_watermark=None):
    """Brokers' copies of a log: node, number of records at one a second, and the leader epochs that the copy knows."""
    for node, count, epochs in logs:
        disk = root / f"d{node}"
        (disk / name).mkdir(parents=True)
        (disk / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=c\ndirectory.id=d{node}\n")
        batches = [make_batch(make_records(1, base_offset=n, start_ms=START_MS + 1000 * n)) for n in range(count)]
        (disk / name / f"{0:020d}.log").write_bytes(b"".join(batches))
        lines = [f"{epoch} {start}" for epoch, start in epochs]
        (disk / name / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        if high_watermark is not None:
            topic, _, partition = name.rpartition("-")
            (disk / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} {partition} {high_watermark}\n")


def lead(monkeypatch, leader_id, replicas=(1, 2)):
    """Metadata that says who leads."""
    state = PartitionState(
        topic="a", topic_id=None, partition=0, leader_id=leader_id, leader_epoch=1, replicas=replicas, isr=None
    )
    brokers = {one: Timeline.always(Broker(broker_id=one)) for one in replicas}
    history = ClusterHistory(state_source="s", partitions={A: Timeline.always(state)}, brokers=brokers)
    monkeypatch.setattr("pipeline.sources.files.cluster_state.read_cluster_history", lambda *_: (history, ()))


OLD = "copies end before what their disk's checkpoint or another replica has: of a-0"


@pytest.mark.parametrize(
    ("epochs", "is_told"),
    [
        (([(0, 0)], [(0, 0)]), True),
        (([(0, 0)], [(0, 0), (1, 8)]), True),
        (([(0, 0), (1, 6)], [(0, 0)]), False),  # it was elected at offset 6: what the other has beyond was lost then
    ],
)
def test_a_leaders_copy_that_ends_before_another_replica_is_told(tmp_path, monkeypatch, epochs, is_told):
    """One partition of a broker was copied an hour before the others, and its load was missing silently."""
    write_copies(tmp_path, (1, 6, epochs[0]), (2, 12, epochs[1]))
    lead(monkeypatch, 1)
    said = OLD if is_told else ""
    # the first record that is lacking is of second 6
    assert read_missing(tmp_path, (0, 6000), (0, 6001), (11_000, 20_000), (50_000, 60_000)) == ["", said, said, said]


def test_a_follower_may_be_behind(tmp_path, monkeypatch):
    write_copies(tmp_path, (1, 6, [(0, 0)]), (2, 12, [(0, 0)]))
    lead(monkeypatch, 2)
    assert read_missing(tmp_path, (0, 60_000)) == [""]


@pytest.mark.parametrize(("high_watermark", "said"), [(6, ""), (5, ""), (7, OLD)])
def test_a_copy_that_ends_before_its_disks_checkpoint_is_told(tmp_path, high_watermark, said):
    """It is the only replica."""
    write_copies(tmp_path, (1, 6, [(0, 0)]), high_watermark=high_watermark)
    # what is lacking was sent after the last records that are there
    assert read_missing(tmp_path, (-9000, 0), (0, 60_000), (60_000, 70_000)) == ["", said, said]


def test_a_log_that_is_written_while_it_is_read_is_no_old_copy(tmp_path, monkeypatch):
    """The other replica's end was found later."""
    write_copies(tmp_path, (1, 6, [(0, 0)]), (2, 12, [(0, 0)]))
    tree = discover_logs([tmp_path])
    replicas, _ = read_replica_states(tree)
    led = SimpleNamespace(leaders={A: 1})
    found = [find_old_copies(tree, replicas, led, (), as_of_ms=START_MS + 90_000)]
    whole = (tmp_path / "d2/a-0" / f"{0:020d}.log").read_bytes()
    (tmp_path / "d1/a-0" / f"{0:020d}.log").write_bytes(whole)
    found.append(find_old_copies(tree, replicas, led, (), as_of_ms=START_MS + 90_000))
    assert [[*one] for one in found] == [[A], []]


@pytest.mark.parametrize(
    ("written_s", "said"),
    [
        ((-3600, 60), "copied before the window's end: the disks of broker 1 (until 2023-11-14T21:13:20Z)"),
        ((-3600, -3600), ""),  # as archives without times give them, or nothing says that there was more
        ((3600, 90_000), ""),  # copied one after the other, after the window
    ],
)
def test_a_disk_that_was_copied_long_before_another_one_of_its_broker_is_told(tmp_path, monkeypatch, written_s, said):
    write_copies(tmp_path, (1, 6, [(0, 0)]), high_watermark=6)
    write_copies(tmp_path / "more", (1, 6, [(0, 0)]), name="b-0", high_watermark=6)
    meta = tmp_path / "more/d1/meta.properties"
    meta.write_text(meta.read_text().replace("directory.id=d1", "directory.id=x"))
    for disk, at_s in zip(("d1", "more/d1"), written_s, strict=True):
        os.utime(tmp_path / disk / "replication-offset-checkpoint", (0, START_MS / 1000 + at_s))
    assert read_missing(tmp_path, (0, 60_000)) == [said]
    lead(monkeypatch, 2)  # it leads nothing there: the disk may have failed
    assert read_missing(tmp_path, (0, 60_000))[0] in {"", "no disk of broker 2"}


def test_a_late_record_does_not_say_when_a_log_begins(tmp_path):
    """One phone that was offline hid that half of a window was gone."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    log = tmp_path / "d/a-0" / f"{50:020d}.log"
    late = [make_records(1, base_offset=60 + at, start_ms=START_MS - 9_000 + 3_000 * at) for at in (0, 4, 5)]
    log.write_bytes(make_batch(late[0]) + log.read_bytes() + b"".join(map(make_batch, late[1:])))
    assert find_gaps(discover_logs([tmp_path / "d"])) == {A: TimeWindow(0, START_MS + 3_000)}


def test_what_was_deleted_is_older_than_the_segment_that_is_left(tmp_path):
    """A topic that is seldom written to: emptied days ago, and its next record came today."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    snapshot = tmp_path / "d/a-0" / f"{50:020d}.snapshot"
    snapshot.touch()
    os.utime(snapshot, (0, START_MS / 1000 - 3600))
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS - 3_600_000)}
    assert find_gaps(tree, start_ms=START_MS - 3_600_000) == {}


def test_a_gap_is_found_without_reading_the_segment(tmp_path, monkeypatch):
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    log = tmp_path / "d/a-0" / f"{50:020d}.log"
    log.write_bytes(log.read_bytes() * 50_000)
    read_bytes, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read_bytes.append(size) or pread(file, size, at))
    find_gaps(discover_logs([tmp_path / "d"]))
    assert sum(read_bytes) < 1 << 20


@pytest.mark.parametrize("is_there", [True, False])
def test_a_configured_disk_that_is_not_mounted_is_named(tmp_path, is_there):
    """Without a metadata log nothing else says that something is missing."""
    write_log(tmp_path / "d1", "a-0", 50, START_MS)
    if is_there:
        (tmp_path / "d2/lost+found").mkdir(parents=True)  # as a disk is that is not mounted, or new
    source = LogDirectories(kind="log_directories", paths=(tmp_path / "d1", tmp_path / "d2"))
    windows = tuple(TimeWindow(START_MS + part - 1000, START_MS + part) for part in (0, 2000))
    question = ClusterQuestion(name="c", topics=(), windows=windows, as_of_ms=START_MS + 9000, earlier=())
    reading = LogDirectories.read_cluster([source], question, Described())
    found = [source.availability(reading, window, None) for window in windows]
    missing = f"no log in {tmp_path / 'd2'}"
    assert [one.missing for one in found] == [f"{missing}; {GONE}", missing]
    assert [(one.expected_count, one.arrived_count) for one in found] == [(3, 1), (2, 1)]


@pytest.mark.parametrize(
    ("ends_ms", "states", "stale"),
    [
        ({1: 10 * MINUTE_MS, 2: 70 * MINUTE_MS}, [(0, False)], {1: 10 * MINUTE_MS}),
        ({1: 59 * MINUTE_MS, 2: 70 * MINUTE_MS}, [(0, False)], {}),  # copied one after the other
        ({1: 10 * MINUTE_MS, 2: 10 * MINUTE_MS}, [(0, False)], {}),  # nobody says that there was more
        ({1: 10 * MINUTE_MS, 2: 70 * MINUTE_MS}, [(0, False), (11 * MINUTE_MS, True)], {}),  # it died: that is all
        ({1: 10 * MINUTE_MS, 9: 70 * MINUTE_MS}, [(0, False)], {1: 10 * MINUTE_MS}),  # 9 is a controller
        ({2: 70 * MINUTE_MS}, [(0, False)], {}),
    ],
)
def test_disks_that_were_copied_before_the_windows_end_are_told(ends_ms, states, stale):
    """The copy of one broker was an hour old, and the others were blamed for what it lacked."""
    reading = read_disks(of_brokers={1: registered(*states)}, metadata_ends_ms=ends_ms)
    assert find_stale(reading, HOUR) == stale
    found = LogDirectories(kind="log_directories", paths=("/d",)).availability(reading, HOUR, None)
    said = "copied before the window's end: the disks of broker 1 (until 1970-01-01T00:10:00Z)" if stale else ""
    assert (found.expected_count, found.arrived_count, found.missing) == (2, 2 - len(stale), said)


@pytest.mark.parametrize(
    ("quiet_ms", "until", "as_of", "is_told"),
    [
        (500, 10, 90, True),  # as Kafka does by default
        (500, 59, 90, False),
        (500, 10, 10, False),  # the end of a recording
        (55 * MINUTE_MS, 10, 90, False),  # so seldom that the cluster may be idle
        (None, 10, 90, False),  # never by themselves: it may be idle, too
    ],
)
def test_disks_that_were_all_copied_before_the_windows_end_are_told(quiet_ms, until, as_of, is_told):
    """None was older than another, and what all lacked was trusted."""
    ends_ms = dict.fromkeys((1, 2, 100), until * MINUTE_MS)  # 100 is a controller
    reading = read_disks(quiet_ms=quiet_ms, metadata_ends_ms=ends_ms, as_of_ms=as_of * MINUTE_MS)
    found = LogDirectories(kind="log_directories", paths=("/d",)).availability(reading, HOUR, None)
    told = [f"{one} (until 1970-01-01T00:10:00Z)" for one in (1, 2)]
    said = f"copied before the window's end: the disks of broker {', '.join(told)}" if is_told else ""
    assert (found.expected_count, found.arrived_count, found.missing) == (2, 0 if is_told else 2, said)


def test_how_long_a_metadata_log_is_quiet_at_most():
    """Of late: a controller may have been away before."""

    def entry(at_ms, record_type):
        return MetadataEntry(at_ms, at_ms, MetadataRecord(record_type, 0, {"topic_id": "x", "name": "t"}))

    beats = [entry(at_ms, RecordType.NO_OP) for at_ms in (100, 9_000, 9_500)]
    for entries, quiet_ms in ((beats, 500), ([*beats, entry(9_700, RecordType.TOPIC)], 700), (beats[:1], None)):
        assert fold_cluster_history(entries)[0].quiet_ms == quiet_ms


def test_each_brokers_metadata_log_says_how_far_its_disks_reach(tmp_path):
    for node, at_ms in ((1, START_MS), (2, START_MS + 9_000)):
        write_log(tmp_path / f"d{node}", "__cluster_metadata-0", 0, at_ms, node=node)
    write_log(tmp_path / "d3", "a-0", 0, START_MS, node=3)
    assert read_metadata_ends(discover_logs([tmp_path])) == {1: START_MS + 2, 2: START_MS + 9_002}
