"""Segments known by texts of `kafka-dump-log`. Oracle: the texts below; real ones are in the golden lane."""

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.model.cluster import NO_LEADER, ClusterHistory, PartitionState
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import TextPart
from pipeline.model.window import TimeWindow
from pipeline.sources.files.cluster_state import with_ids_by_name
from pipeline.sources.files.dumped_logs import discover_dumps, scan_dump
from pipeline.sources.files.segment_plan import choose_replicas, plan_reads
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.segment_scan import scan_segment

BATCH = (
    "baseOffset: {base} lastOffset: {last} count: 2 baseSequence: 0 lastSequence: 1 producerId: 7 producerEpoch: 0 "
    "partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
    "position: {position} CreateTime: {at} size: 100 magic: 2 compresscodec: lz4 crc: 12 isvalid: {valid}\n"
)
AT_MS = 1_700_000_000_000


def dump(path, *batches):
    """(base offset, is valid) of batches of two offsets and 100 bytes, a second apart."""
    lines = (
        BATCH.format(base=base, last=base + 1, position=100 * place, at=AT_MS + 1000 * base, valid=str(valid).lower())
        for place, (base, valid) in enumerate(batches)
    )
    return f"Dumping {path}\nLog starting offset: 0\n{''.join(lines)}"


def found(tmp_path, *texts, broker=1):
    folder = tmp_path / "texts"
    folder.mkdir()
    for place, text in enumerate(texts):
        (folder / f"{place}.txt").write_text(text)
    return discover_dumps([((folder,), broker)])


def test_a_text_of_several_files_is_a_tree(tmp_path):
    text = (
        dump("/d/a-b-0/00000000000000000004.log", (4, True))
        + dump("/d/a-b-0/00000000000000000000.log", (0, True), (2, False))
        + "Dumping /d/a-b-0/00000000000000000000.index\noffset: 1 position: 0\n"
        + dump("/d/__cluster_metadata-0/00000000000000000000.log", (0, True))
    )
    dumped = found(tmp_path, "words before\n" + text)
    (directory,) = dumped.tree.directories
    (partition,) = directory.partitions
    assert (directory.path, directory.broker_id, partition.topic_partition) == ("/d", 1, ("a-b", 0))
    assert [(s.base_offset, s.size_bytes, s.is_active) for s in partition.segments] == [(0, 200, False), (4, 100, True)]
    (replica,) = dumped.replicas
    assert (replica.log_start_offset, replica.log_end_offset, replica.size_bytes) == (0, 6, 300)
    assert dumped.tree.problems == ()


def test_each_segment_is_scanned_from_its_own_part(tmp_path):
    dumped = found(
        tmp_path,
        dump("/d/t-0/00000000000000000000.log", (0, True), (4, False))
        + dump("/d/t-0/00000000000000000010.log", (10, True)),
    )
    state = PartitionState(
        topic="t", topic_id="id", partition=0, leader_id=1, leader_epoch=None, replicas=(1,), isr=(1,)
    )
    tree, _ = with_ids_by_name(dumped.tree, {TopicPartition("t", 0): state})
    reads = plan_reads(choose_replicas(tree, {}), TimeWindow(AT_MS, AT_MS + 60_000))
    assert all(isinstance(read.dumped_in, TextPart) for read in reads)
    assert {read.topic_id for read in reads} == {"id"}
    first, second = (scan_segment(read, AT_MS + 60_000) for read in reads)
    assert first.headers.base_offset.tolist() == [0, 4]
    assert first.headers.crc_ok.tolist() == [True, False]
    assert first.missing_offset_count.tolist() == [0, 2 + 4]
    assert first.times.event_time_ms.tolist() == [AT_MS, AT_MS + 4000]
    (problem,) = first.problems
    assert (problem.path, problem.position) == ("/d/t-0/00000000000000000000.log", 100)
    assert second.headers.rows["producer_id"].tolist() == [7]


def test_the_present_leader_leads_the_newest_leader_epoch_of_the_log_and_not_of_each_file(tmp_path):
    """The load of a file of an earlier leader epoch was the present leader's, and the window complete."""
    files = [dump(f"/d/t-0/{base:020d}.log", (base, True)) for base in (0, 10, 20)]
    epochs = (3, 4, 4)
    texts = [text.replace("Epoch: 3", f"Epoch: {epoch}") for text, epoch in zip(files, epochs, strict=True)]
    dumped = found(tmp_path, "".join(texts))
    state = PartitionState(
        topic="t", topic_id=None, partition=0, leader_id=1, leader_epoch=None, replicas=(1, 2), isr=(1, 2)
    )
    leaders = LeaderEpochs.of(ClusterHistory.always("topics_describe", [state], {}), dumped.tree, dumped.replicas)
    reads = plan_reads(choose_replicas(dumped.tree, {}))
    led = [
        leaders.lead(read, np.array([epoch], np.int32), np.array([AT_MS]))
        for read, epoch in zip(reads, epochs, strict=True)
    ]
    assert np.concatenate(led).tolist() == [NO_LEADER, 1, 1]


def test_a_segment_dumped_twice_is_there_once(tmp_path):
    path = "/d/t-0/00000000000000000000.log"
    dumped = found(tmp_path, dump(path, (0, True)), dump(path, (0, True), (2, True)))
    assert [replica.log_end_offset for replica in dumped.replicas] == [4]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", None, "no `Dumping` line"),
        ("x\nDumping 00000000000000000000.log\n", 2, "does not name topic and partition"),
        ("Dumping /d/t-0/x.log\n", 1, "is not a segment"),
        (dump("/d/t-1/00000000000000000000.log", (0, True)) + "what is this\n", 4, "not a line of kafka-dump-log"),
        (
            dump("/d/t-1/00000000000000000000.log").rstrip() + "\nbaseOffset: 1 magic: 2 compresscodec: none\n",
            3,
            "does not parse",
        ),
    ],
)
def test_what_is_wrong_costs_itself_only(tmp_path, text, position, reason):
    dumped = found(tmp_path, text, dump("/d/t-0/00000000000000000000.log", (0, True)))
    assert TopicPartition("t", 0) in {replica.topic_partition for replica in dumped.replicas}
    (problem,) = dumped.tree.problems
    assert (problem.position, problem.path) == (position, str(tmp_path / "texts/0.txt"))
    assert reason in problem.reason


RECORD = (
    "| offset: 0 CreateTime: 5 keySize: 11 valueSize: 9 sequence: -1 headerKeys: [] key: card-number payload: secret "
)


@pytest.mark.parametrize(
    "value",
    [
        dump("x", (2, True)),  # a segment goes on
        dump("/d/payments-7/00000000000000000000.log", (0, True)),  # a partition nobody dumped
        "\nbaseOffset: pin=9876 magic: x\n",  # a line that does not parse
        "\nDumping /d/x-0/y.log\n" + "a:" * 40 + " ! !\n",  # hung the task
    ],
)
def test_what_a_record_holds_is_never_read(tmp_path, value):
    honest = dump("/d/t-0/00000000000000000000.log", (0, True))
    forged = dump("/d/t-0/00000000000000000100.log", (100, True)) + RECORD + value
    dumped = found(tmp_path, honest + forged)
    (replica,) = dumped.replicas
    assert (replica.topic_partition, replica.log_end_offset, replica.size_bytes) == (("t", 0), 2, 100)
    (problem,) = dumped.tree.problems
    assert (problem.position, problem.first_bytes) == (7, b"")
    assert "without --print-data-log" in problem.reason
    assert not any(word in problem.reason for word in ("secret", "card-number", "pin"))


def test_a_text_that_is_not_there(tmp_path):
    (problem,) = discover_dumps([((tmp_path / "gone.txt",), None)]).tree.problems
    assert "no such file" in problem.reason


def test_numbers_that_no_column_holds_refuse_a_dump(tmp_path):
    text = dump(f"/d/t-0/{0:020d}.log", (1, True)).replace("size: 100", f"size: {10**13}")
    (tmp_path / "dump.txt").write_text(text)
    with pytest.raises(InputError, match="line that does not parse"):
        scan_dump(TextPart(str(tmp_path / "dump.txt"), 0, len(text)), "x")
