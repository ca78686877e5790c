"""Copies of disks that end before the window does. Oracle: written out by hand; logs are real files."""

import os
from types import SimpleNamespace

import pytest

from pipeline.codec.metadata.cluster_history import MetadataEntry, fold_cluster_history
from pipeline.codec.metadata.cluster_metadata import MetadataRecord, RecordType
from pipeline.model.cluster import Broker, ClusterHistory, PartitionState, Timeline
from pipeline.model.window import MINUTE_MS, TimeWindow
from pipeline.sources.files.cluster_state import read_metadata_ends, read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_gaps import find_old_copies, find_stale
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.source import Described
from tests.batches import START_MS, make_batch, make_records
from tests.unit.sources.files.disks import A, read_disks, registered, write_log

HOUR = TimeWindow(0, 60 * MINUTE_MS)
OLD = "copies end before what their disk's checkpoint or another replica has: of a-0"


def read_missing(root, *windows):
    """What is missing of windows that begin and end so many ms after the first record."""
    source = LogDirectories(kind="log_directories", paths=(root,))
    spans = tuple(TimeWindow(START_MS + begin, START_MS + end) for begin, end in windows)
    question = ClusterQuestion(name="c", topics=(), windows=spans, as_of_ms=START_MS + 90_000_000, earlier=())
    reading = LogDirectories.read_cluster([source], question, Described())
    return [source.availability(reading, window, START_MS).missing for window in spans]


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


@pytest.mark.parametrize(
    ("newest_s", "written_s", "end_s", "is_told"),
    [
        (5, 30, 600, True),
        (34, 30, 600, True),  # it is written every five seconds
        (5, 30, 80, False),  # copies take their time
        (5, 900, 600, False),
        (5, -3600, 600, False),  # an archive that keeps no times: the last record came after second 5
    ],
)
def test_without_a_metadata_log_disks_that_nobody_wrote_to_since_are_told(
    tmp_path, newest_s, written_s, end_s, is_told
):
    """All copies were as old, and the windows after them were trusted without what came since."""
    write_copies(tmp_path, (1, 6, [(0, 0)]), (2, 6, [(0, 0)]), high_watermark=6)
    for node in (1, 2):
        os.utime(tmp_path / f"d{node}/replication-offset-checkpoint", (0, START_MS / 1000 + written_s))
    question = ClusterQuestion(name="c", topics=(), windows=(HOUR,), as_of_ms=START_MS + 90_000_000, earlier=())
    source = LogDirectories(kind="log_directories", paths=(tmp_path,))
    reading = LogDirectories.read_cluster([source], question, Described())
    found = source.availability(reading, TimeWindow(START_MS, START_MS + 1000 * end_s), START_MS + 1000 * newest_s)
    told = [f"{one} (until 2023-11-14T22:13:50Z)" for one in (1, 2)]
    said = f"copied before the window's end: the disks of broker {', '.join(told)}" if is_told else ""
    assert (found.arrived_count, found.missing) == (0 if is_told else 2, said)


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
