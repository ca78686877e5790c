"""Time that is not as one expects: zones, windows that divide no day, clocks that differ, late and lost segments, topics made
anew. Oracle: records and offsets counted as they are written."""

import shutil
import time
from collections import Counter
from datetime import date

import pytest

from pipeline.config_file import load_config
from pipeline.engine import note_sail
from pipeline.jobs import ingest
from pipeline.model.window import HOUR_MS, TimeWindow, milliseconds_of
from pipeline.runs import plan_runs
from pipeline.storage.rows import load_rows
from pipeline.tables.bronze import QUARANTINE, WINDOW_STATUS
from pipeline.tables.silver import PARTITION_TRAFFIC, RECORD_BATCHES
from tests.batches import make_batch, make_records
from tests.config_files import write_configuration
from tests.engines import sail

SEVEN_H = 7 * HOUR_MS
START_MS = 70_000 * SEVEN_H  # 2025-11-24T16:00Z: windows of seven hours are counted from 1970, not from midnight
LOG_APPEND_TIME = 0x08
LEADERS = "Topic: orders\tTopicId: {topic_id}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: \n" + "".join(
    f"\tTopic: orders\tPartition: {number}\tLeader: {number}\tReplicas: {number}\tIsr: {number}\n" for number in (0, 1)
)
IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")


class Lab:
    """Two brokers, each with a partition of `orders`, and windows of seven hours."""

    def __init__(self, folder):
        self.folder = folder
        self.ends = Counter()
        self.make_topic(IDS[0])
        sources = [
            {"kind": "log_directories", "paths": [str(folder / "brokers")]},
            {"kind": "topics_describe", "path": str(folder / "topics.txt")},
        ]
        self.config = load_config(write_configuration(folder, {"lab": {"sources": sources}}, window="PT7H"))

    def make_topic(self, topic_id):
        self.topic_id = topic_id
        (self.folder / "topics.txt").write_text(LEADERS.format(topic_id=topic_id))
        for broker in (0, 1):
            log = self.log(broker)
            log.mkdir(parents=True, exist_ok=True)
            (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
            (log / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")

    def delete_topic(self):
        for broker in (0, 1):
            for path in self.log(broker).iterdir():
                path.unlink()
        self.ends.clear()

    def log(self, broker):
        return self.folder / f"brokers/{broker}/orders-{broker}"

    def append(self, broker, *stamps_ms, attributes=0):
        """A segment of one-record batches."""
        first = self.ends[broker]
        batches = [
            make_batch(make_records(1, base_offset=first + n, start_ms=stamp_ms), attributes=attributes)
            for n, stamp_ms in enumerate(stamps_ms)
        ]
        path = self.log(broker) / f"{first:020d}.log"
        path.write_bytes(b"".join(batches))
        self.ends[broker] += len(batches)
        return path

    def run(self, first, last, *, engine=None, late_ms=HOUR_MS):
        """Ingests the windows of these numbers."""
        span = TimeWindow(START_MS + first * SEVEN_H, START_MS + (last + 1) * SEVEN_H)
        (run,) = plan_runs(self.config, span, run_id="r", now_ms=span.end_ms + late_ms)
        return ingest.run(engine or sail(), run)

    def rows(self, table):
        return load_rows(self.config.warehouse, table, cluster="lab").to_pylist()

    def records(self):
        """Records by broker and number of the window."""
        rows = self.rows(PARTITION_TRAFFIC)
        return {
            (row["leader_id"], (milliseconds_of(row["window_start"]) - START_MS) // SEVEN_H): row["record_count"]
            for row in rows
        }


def hours(*numbers):
    return [START_MS + round(number * HOUR_MS) for number in numbers]


@pytest.fixture(params=["UTC", "America/New_York", "Pacific/Chatham"])
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_windows_across_midnight_hold_the_same_records_in_any_zone_of_the_host(tmp_path, zone):
    """The second window begins at 23:00 UTC; Chatham is ahead by 13 h 45 min."""
    lab = Lab(tmp_path)
    lab.append(0, *hours(0, 6.99, 7, 13.99, 14))
    lab.append(1, *hours(8))
    lab.run(0, 1)
    of_two = {(0, 0): 2, (0, 1): 2, (1, 1): 1}
    assert lab.records() == of_two
    lab.run(2, 2)
    lab.run(1, 1)
    assert lab.records() == of_two | {(0, 2): 1}
    rows = lab.rows(WINDOW_STATUS)
    assert sorted(str(row["window_start"])[:16] for row in rows) == [
        "2025-11-24 16:00",
        "2025-11-24 23:00",
        "2025-11-25 06:00",
    ]
    assert {row["window_date"] for row in rows} == {date(2025, 11, 24), date(2025, 11, 25)}


def test_a_segment_that_comes_late_is_counted_when_its_window_is_run_again(tmp_path):
    lab = Lab(tmp_path)
    lab.append(0, *hours(1, 8))
    lab.run(0, 1)
    lab.append(0, *hours(2, 15, 9))  # a producer that was cut off sends what it held
    lab.run(2, 2)
    assert lab.records() == {(0, 0): 1, (0, 1): 1, (0, 2): 1}
    lab.run(0, 1)
    assert lab.records() == {(0, 0): 2, (0, 1): 2, (0, 2): 1}
    assert sorted(row["lateness_ms"] for row in lab.rows(RECORD_BATCHES)) == [0, 0, 0, 0, 6 * HOUR_MS]


def test_brokers_whose_clocks_differ_lose_and_double_nothing(tmp_path):
    """A batch is of the window that its broker's clock says: one is nine hours behind, and stamps what it appends."""
    lab = Lab(tmp_path)
    lab.append(0, *hours(1, 8, 15), attributes=LOG_APPEND_TIME)
    lab.append(1, *hours(1 - 9, 8 - 9, 15 - 9), attributes=LOG_APPEND_TIME)
    lab.run(-2, 2)
    assert lab.records() == {(0, 0): 1, (0, 1): 1, (0, 2): 1, (1, -2): 1, (1, -1): 1, (1, 0): 1}
    assert not any(row["is_time_outlier"] for row in lab.rows(RECORD_BATCHES))


def test_a_broker_whose_clock_is_days_ahead_costs_no_other_its_place(tmp_path):
    lab = Lab(tmp_path)
    lab.append(0, *hours(1, 8))
    lab.append(1, *hours(1, 2, 24 * 40, 8), attributes=LOG_APPEND_TIME)  # it was set right again
    lab.run(0, 1)
    assert lab.records() == {(0, 0): 1, (0, 1): 1, (1, 0): 3, (1, 1): 1}
    assert [row["base_offset"] for row in lab.rows(RECORD_BATCHES) if row["is_time_outlier"]] == [2]


class Deleting:
    """Sail, after retention took a file that was found and is not read yet."""

    def __init__(self, path):
        self._path, self._sail = path, sail()
        note_sail(self)

    def range(self, *numbers):
        self._path.unlink(missing_ok=True)
        return self._sail.range(*numbers)

    def __getattr__(self, name):
        return getattr(self._sail, name)


def test_a_segment_that_retention_takes_in_the_middle_of_a_run_costs_itself_and_is_named(tmp_path):
    lab = Lab(tmp_path)
    gone = lab.append(0, *hours(1))
    lab.append(0, *hours(2, 8))
    lab.append(1, *hours(1))
    lab.run(0, 1, engine=Deleting(gone))
    assert lab.records() == {(0, 0): 1, (0, 1): 1, (1, 0): 1}
    named = [row["path"] for row in lab.rows(QUARANTINE) if row["reason"].startswith("cannot be read: No such file")]
    assert named == ["brokers/0/orders-0/00000000000000000000.log"]


def test_a_topic_made_anew_under_its_name_takes_nothing_from_the_old_one(tmp_path):
    """Its offsets begin at 0 again; what is stored of the first stays, in the window that both have records of."""
    lab = Lab(tmp_path)
    lab.append(0, *hours(1, 2, 3))
    lab.run(0, 0)
    lab.delete_topic()
    lab.make_topic(IDS[1])
    lab.append(0, *hours(4, 8))
    (note,) = lab.run(0, 1).notes
    assert note == "log_directories: 1 stored windows kept, the source now holds less (--force replaces them)"
    assert lab.records() == {(0, 0): 3, (0, 1): 1}
    found = {(row["topic_id"], row["first_offset"], row["last_offset"]) for row in lab.rows(PARTITION_TRAFFIC)}
    assert found == {(IDS[0], 0, 2), (IDS[1], 1, 1)}


def test_a_topic_that_is_deleted_while_its_disks_are_read_makes_its_window_incomplete(tmp_path, monkeypatch):
    """The window counted as complete, without what the topic got; a topic that had no traffic lacks nothing."""
    lab = Lab(tmp_path)
    lab.append(0, *hours(1))
    lab.append(1, *hours(1, 8))
    lab.run(0, 0)
    read = ingest.read_run_input

    def delete_before(*given):
        for broker in (0, 1):
            shutil.rmtree(lab.log(broker))
        return read(*given)

    monkeypatch.setattr("pipeline.jobs.ingest.read_run_input", delete_before)
    lab.run(1, 1)
    lacking = {row["window_start"].hour: row["missing"] for row in lab.rows(WINDOW_STATUS) if row["missing"]}
    assert lacking == {
        23: "topics were deleted, or made anew, and what they got since the window before is lost (`topics` leaves topics out): orders"
    }
