"""Segment files that give not all they hold: what is missing, of which time. Oracle: files written here."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.jobs.ingest.ingest_input import find_damaged
from pipeline.model.cluster import ClusterHistory
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import LogDirectory, LogTree
from pipeline.model.window import TimeWindow
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_gaps import weigh_disks, without_deleted
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.records.pieces import shortfall_row
from pipeline.sources.records.segment_scan import find_unread_time, scan_segment
from pipeline.sources.source import ClusterReading
from tests.batches import START_MS, make_batch, make_records

AS_OF_MS = START_MS + 90_000
HALF = 50


@pytest.fixture
def reads(tmp_path):
    """Three files of a log, each with ten batches and of a second."""
    (tmp_path / "d/a-0").mkdir(parents=True)
    (tmp_path / "d/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    for number in range(3):
        records = make_records(100, base_offset=100 * number, start_ms=START_MS + 1_000 * number)
        log = b"".join(make_batch(records[at : at + 10]) for at in range(0, 100, 10))
        (tmp_path / f"d/a-0/{100 * number:020d}.log").write_bytes(log)
    return plan_reads(choose_replicas(discover_logs([tmp_path / "d"]), {}))


def damage(read, how):
    with Path(read.path).open("r+b") as log:
        size = read.size_bytes
        if how == "torn":
            log.truncate(size // 2 + 20)
        elif how == "zeros":  # as after a power cut
            log.seek(size // 2)
            log.write(bytes(size - size // 2))
        elif how == "length":
            log.seek(size // 2)
            log.write(b"\xff" * 30)


@pytest.mark.parametrize("how", ["torn", "zeros", "length"])
def test_what_a_damaged_file_does_not_give_is_missing_and_no_hole_in_the_log(reads, how):
    """It failed the data gate of its window, and nothing of its cluster was judged."""
    damage(reads[1], how)
    scanned = scan_segment(reads[1], AS_OF_MS)
    assert scanned.headers.last_offset[-1] == 100 + HALF - 1
    assert scanned.missing_offset_count.sum() == 0
    sent = find_unread_time(reads[1], scanned, AS_OF_MS)
    assert sent == TimeWindow(START_MS + 1_009, START_MS + 2_050)  # from five batches before to five of the next file
    assert find_unread_time(reads[0], scan_segment(reads[0], AS_OF_MS), AS_OF_MS) is None
    damaged = find_damaged(pa.Table.from_pylist([shortfall_row(reads[1], "damaged", sent)]))
    history = ClusterHistory(state_source="s")
    reading = ClusterReading(record_source="s", history=history, directory_counts={1: 1}, damaged=damaged)
    said = "files are damaged or cannot be read (`bronze.quarantine`): of a-0"
    for start_ms, missing in ((0, said), (2_000, said), (3_000, ""), (-5_000, "")):
        window = TimeWindow(START_MS + start_ms, START_MS + start_ms + 1_500)
        assert weigh_disks(reading, window, [1]).missing == missing


def test_of_a_file_that_cannot_be_read_all_may_be_missing_until_the_next_one_begins(reads):
    """It was a line of the quarantine, and its load was missing from the shares, silently."""
    problem = Problem(path=reads[1].path, reason="cannot be read: Input/output error")
    assert find_unread_time(reads[1], problem, AS_OF_MS) == TimeWindow(0, START_MS + 2_050)
    assert find_unread_time(reads[2], problem, AS_OF_MS) == TimeWindow(0, AS_OF_MS + 1)
    Path(reads[1].path).unlink()
    assert find_unread_time(reads[0], problem, AS_OF_MS) == TimeWindow(0, START_MS + 2_050)  # retention took both


@pytest.mark.parametrize("moved", ["d/a-1", "d2/a-0", ""])
def test_a_replica_that_moves_while_it_is_read_is_missing_and_a_topic_that_is_deleted_is_not(reads, tmp_path, moved):
    """Where it was the only one of its topic on that disk the topic was taken for deleted, and its load was missing, silently."""
    (tmp_path / "d2").mkdir()
    tree = LogTree(directories=tuple(LogDirectory(path=str(tmp_path / disk)) for disk in ("d", "d2")))
    log = Path(reads[1].path).parent
    log.rename(log.with_name("a-0.0-delete"))  # as a broker does before it deletes a replica
    (tmp_path / moved).mkdir(exist_ok=True)
    problem = scan_segment(reads[1], AS_OF_MS)
    sent = find_unread_time(reads[1], problem, AS_OF_MS)
    assert sent == TimeWindow(0, AS_OF_MS + 1)
    damaged = find_damaged(pa.Table.from_pylist([shortfall_row(reads[1], "damaged", sent)]))
    assert without_deleted(damaged, tree) == (damaged if moved else {})
    shutil.rmtree(tmp_path / "d2")
    assert without_deleted(damaged, tree) == damaged  # a disk that is gone meanwhile proves nothing


def test_a_last_file_that_was_copied_while_it_was_written_lacks_nothing(reads):
    damage(reads[2], "torn")
    assert find_unread_time(reads[2], scan_segment(reads[2], AS_OF_MS), AS_OF_MS) is None


def test_times_of_several_damaged_files_of_a_log_are_put_together():
    def row(first_ms, end_ms):
        return {
            "row_kind": "shortfall", "topic": "a", "partition": 0, "min_timestamp_ms": first_ms, "max_timestamp_ms": end_ms
        }  # fmt: skip  # fields of a row, several a line

    lost = pa.Table.from_pylist([row(5, 7), row(1, 2), row(None, None)])
    assert find_damaged(lost) == {TopicPartition("a", 0): TimeWindow(1, 7)}
