"""What cannot be read of a metadata log, and what it takes away. Oracle: the table below, record by record."""

import dataclasses
import struct

import pytest

from pipeline.config.pipeline_config import Cluster
from pipeline.model.cluster import StateSubject
from pipeline.model.log import Codec, Record
from pipeline.model.window import LATEST_MS, TimeWindow
from pipeline.sources.cluster_reading import iter_availability, read_cluster
from pipeline.sources.files.cluster_state import read_cluster_history
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.questions import ClusterQuestion
from tests.batches import make_batch
from tests.unit.sources.files.window_rows import list_broker_rows, list_window_states

MINUTE_MS = 60_000
WINDOWS = (TimeWindow(0, MINUTE_MS), TimeWindow(MINUTE_MS, 2 * MINUTE_MS))
LATE_MS = 70_000  # in the second window
ID = bytes(range(16))
REGISTER = bytes([1, 0, 3]) + struct.pack(">i?", 1, False) + ID + struct.pack(">q", 7) + b"\x01\x01\x02a\0\0\0"
TOPIC = b"\x01\x02\x00\x02t" + ID + b"\0"


def write_log(folder, *timed):
    """A broker's log directory whose metadata log has a batch for each (moment, value)."""
    log = folder / "__cluster_metadata-0"
    log.mkdir(parents=True)
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    batches = [
        make_batch([Record(offset=offset, timestamp_ms=at_ms, key=None, value=value, headers=())])
        for offset, (at_ms, value) in enumerate(timed)
    ]
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    return folder


UNREAD = {
    "a registration of a later version": (
        bytes([1, 0, 9]),
        {"brokers"},
        "REGISTER_BROKER_RECORD of version 9, known up to 4",
    ),
    "a leader's change of a later version": (
        bytes([1, 5, 9]),
        {"partitions"},
        "PARTITION_CHANGE_RECORD of version 9, known up to 2",
    ),
    "a type nobody knows": (b"\x01\x63\x00", {*StateSubject}, "a record of type 99, known are types up to 29"),
    "a topic that is cut": (TOPIC[:9], {"partitions"}, "expected 16 bytes, 4 are left"),
}


@pytest.mark.parametrize(("value", "subjects", "reason"), UNREAD.values(), ids=UNREAD)
def test_a_record_that_cannot_be_read_takes_away_what_rests_on_it(tmp_path, value, subjects, reason):
    folder = write_log(tmp_path, (0, REGISTER), (LATE_MS, value), (LATE_MS + 1, TOPIC))
    history, problems = read_cluster_history(discover_logs([folder]))
    assert [problem.reason for problem in problems] == [reason]
    assert [(one.at_ms, set(one.subjects), one.reason) for one in history.unread] == [(LATE_MS, subjects, reason)]
    assert history.state_at(2 * MINUTE_MS).brokers[1].rack == "a"
    question = ClusterQuestion(name="c", windows=WINDOWS, as_of_ms=0)
    reading = read_cluster(Cluster(sources=[{"kind": "log_directories", "paths": [folder]}]), question)
    before, after = (
        row for _, _, row in iter_availability(Cluster(sources=[LOGS(folder)]), reading, WINDOWS, None, listed={})
    )
    assert before.missing == ""
    assert reason in after.missing
    assert (after.expected_count - before.expected_count) == int("partitions" in subjects)  # shares are incomplete
    states = list_window_states(history, WINDOWS)
    (first, second) = list_broker_rows("c", history, {1: 1}, states, {})
    assert (first["takes_replicas"], first["doubt"], first["is_fenced"]) == (True, None, False)
    if "brokers" in subjects:  # no plan may place a replica by these racks
        assert (second["takes_replicas"], second["doubt"], second["is_fenced"]) == (False, reason, None)
    else:
        assert (second["takes_replicas"], second["doubt"], second["is_fenced"]) == (True, None, False)


def test_a_partition_that_no_topic_has_takes_nothing_away(tmp_path):
    numbered = (
        b"\x01\x03\x00"
        + struct.pack(">i", number)
        + ID
        + b"\x02\0\0\0\1" * 2
        + b"\x01\x01"
        + struct.pack(">iiib", 1, 0, 0, 0)
        for number in (0, 2**31 - 2)
    )
    folder = write_log(tmp_path, *((0, value) for value in (TOPIC, *numbered)))
    history, problems = read_cluster_history(discover_logs([folder]))
    assert [str(key) for key in history.partitions] == ["t-0"]
    assert history.unread == ()
    (problem,) = problems
    assert problem.reason == "PARTITION_RECORD at offset 2 is about partition 2147483646, as no topic has"


def LOGS(folder):  # noqa: N802 - a source as a value
    return LogDirectories(kind="log_directories", paths=(folder,))


def test_a_batch_that_is_damaged_takes_away_everything_since_the_one_before(tmp_path):
    folder = write_log(tmp_path, (5, REGISTER), (LATE_MS, TOPIC))
    (log,) = folder.glob("*/*.log")
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(bytes(data))
    history, _ = read_cluster_history(discover_logs([folder]))
    ((at_ms, subjects, _),) = history.unread
    assert (at_ms, subjects) == (5, {*StateSubject})


@pytest.mark.parametrize("at_ms", [-1, LATEST_MS + 1, (1 << 63) - 1])
def test_a_batch_at_a_time_that_no_calendar_holds_is_none(tmp_path, at_ms):
    folder = write_log(tmp_path, (5, REGISTER), (at_ms, TOPIC))
    history, _ = read_cluster_history(discover_logs([folder]))
    ((since_ms, subjects, _),) = history.unread
    assert (since_ms, subjects) == (5, {*StateSubject})


def test_the_torn_end_of_a_log_that_is_written_takes_nothing_away(tmp_path):
    folder = write_log(tmp_path, (5, REGISTER), (LATE_MS, TOPIC))
    (log,) = folder.glob("*/*.log")
    log.write_bytes(log.read_bytes()[:-5])
    assert read_cluster_history(discover_logs([folder]))[0].unread == ()


def test_a_log_whose_beginning_is_gone_is_known_at_no_time(tmp_path):
    folder = write_log(tmp_path, (5, REGISTER))
    (log,) = folder.glob("*/*.log")
    log.rename(log.with_name(f"{7:020d}.log"))
    ((at_ms, subjects, reason),) = read_cluster_history(discover_logs([folder]))[0].unread
    assert (at_ms, subjects) == (None, {*StateSubject})
    assert "no snapshot reaches it" in reason


def test_what_cannot_be_read_of_a_snapshot_is_unknown_since_the_time_that_it_is_of(tmp_path):
    """Its batches bear the later time at which it was written: until then a host's log contradicted those of all others."""
    folder = write_log(tmp_path, (LATE_MS, TOPIC))
    (log,) = folder.glob("*/*.log")
    log.rename(log.with_name(f"{7:020d}.log"))
    header = Record(
        offset=0, timestamp_ms=90, key=b"\0\0\0\3\0\0", value=b"\0\0" + struct.pack(">q", 5) + b"\0", headers=()
    )
    values = (REGISTER, bytes([1, 0, 9]), bytes([1, 0, 9]))
    told = [Record(offset=n, timestamp_ms=90, key=None, value=one, headers=()) for n, one in enumerate(values, start=1)]
    batches = make_batch([header], attributes=0x20), *(make_batch([one]) for one in told)
    log.with_name(f"{7:020d}-{1:010d}.checkpoint").write_bytes(b"".join(batches))
    history, _ = read_cluster_history(discover_logs([folder]))
    assert (history.known_since_ms, [one.at_ms for one in history.unread]) == (5, [5, 5])


@pytest.mark.parametrize("depth", ["", "broker-1", "disks/broker-1"])
def test_doctor_names_what_it_cannot_read(tmp_path, depth):
    write_log(tmp_path / depth, (5, REGISTER), (LATE_MS, bytes([1, 0, 9])), (LATE_MS, bytes([1, 0, 9])))
    _, finding = LOGS(tmp_path).probe()
    assert (finding.name, finding.is_ok) == ("metadata log", False)
    assert finding.found == "REGISTER_BROKER_RECORD of version 9, known up to 4"
    assert "plans move no replica" in finding.advice


def test_doctor_is_silent_about_a_log_that_it_can_read(tmp_path):
    write_log(tmp_path, (5, REGISTER))
    assert [finding.is_ok for finding in LOGS(tmp_path).probe()] == [True]


def test_a_broker_whose_disks_are_all_cordoned_takes_no_replica(tmp_path):
    history, _ = read_cluster_history(discover_logs([write_log(tmp_path, (0, REGISTER))]))
    (timeline,) = history.brokers.values()
    for ids, cordoned, takes in ((("x", "y"), ("x",), True), (("x", "y"), ("x", "y"), False), ((), (), True)):
        broker = dataclasses.replace(timeline.values[0], directory_ids=ids, cordoned_directory_ids=cordoned)
        changed = dataclasses.replace(history, brokers={1: dataclasses.replace(timeline, values=(broker,))})
        (row,) = list_broker_rows("c", changed, {}, list_window_states(changed, WINDOWS[:1]), {})
        assert row["takes_replicas"] is takes


def test_compressed_records_are_not_read_and_not_believed(tmp_path):
    """Controllers write none; a kilobyte of them may take a megabyte, and a file all memory."""
    folder = write_log(tmp_path, (0, REGISTER))
    records = [Record(offset=one, timestamp_ms=LATE_MS, key=None, value=TOPIC, headers=()) for one in range(1, 9)]
    log = folder / "__cluster_metadata-0" / f"{0:020d}.log"
    said = (0, f"a batch at position {log.stat().st_size} of {log.name}")
    log.write_bytes(log.read_bytes() + make_batch(records, codec=Codec.ZSTD))
    history, _ = read_cluster_history(discover_logs([folder]))
    assert [(one.at_ms, one.reason) for one in history.unread] == [said]


def test_what_cannot_be_read_is_noted_a_thousand_times(tmp_path):
    odd = [(at_ms, b"\x01\x63\x00") for at_ms in range(1_200)]
    folder = write_log(tmp_path, (0, REGISTER), (0, bytes([1, 12, 9])), *odd)
    history, problems = read_cluster_history(discover_logs([folder]))
    assert (len(history.unread), len(problems)) == (1_000, 1_000)


def test_a_log_of_more_records_than_any_has_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.sources.files.metadata_log._MOST_RECORDS", 2, raising=False)
    folder = write_log(tmp_path, (0, REGISTER), (1, TOPIC), (2, TOPIC))
    history, _ = read_cluster_history(discover_logs([folder]))
    assert history.list_doubts(StateSubject.BROKERS, 1) == ("the metadata log has more than 2 records",)


def test_configs_beyond_those_of_any_cluster_are_in_doubt(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.codec.metadata.cluster_history._MOST_COPIED", 0)
    configs = [(at_ms, bytes([1, 4, 0, 2, 2, 0x74, 2, 0x61 + at_ms, 2, 0x31, 0])) for at_ms in range(2)]
    folder = write_log(tmp_path, (0, REGISTER), *configs)
    history, problems = read_cluster_history(discover_logs([folder]))
    assert history.list_doubts(StateSubject.CONFIGS, 2) == ("more configs than a cluster has",)
    assert history.list_doubts(StateSubject.PARTITIONS, 2) == ()
    assert len(problems) == 1
