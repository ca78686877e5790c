"""Replicas from texts of the tools. Oracle: the texts themselves."""

from pipeline.model.cluster import PartitionState, ReplicaState
from pipeline.model.log import TopicPartition
from pipeline.sources.kinds.tool_texts import ConsumerGroups, GetOffsets, LogDirsDescribe, ReassignVerify
from pipeline.sources.source import Described

LOG_DIRS = """Querying brokers for log directories information
Received log directory information from brokers 1,2
{"brokers":[{"broker":1,"logDirs":[{"partitions":[{"partition":"t-0","size":900,"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/d"}]},{"broker":2,"logDirs":[{"partitions":[{"partition":"t-0","size":700,"offsetLag":3,"isFuture":false},{"partition":"t-0","size":5,"offsetLag":40,"isFuture":true}],"error":null,"logDir":"/e"}]}],"version":1}
"""
LED_BY_1 = PartitionState(
    topic="t", topic_id="id", partition=0, leader_id=1, leader_epoch=None, replicas=(1, 2), isr=(1, 2)
)


def read(tmp_path, offsets="t:0:50\n", on_disk=(), log_dirs=LOG_DIRS):
    (tmp_path / "log-dirs.txt").write_text(log_dirs)
    (tmp_path / "offsets.txt").write_text(offsets)
    sources = (
        LogDirsDescribe(kind="log_dirs_describe", path=tmp_path / "log-dirs.txt"),
        GetOffsets(kind="get_offsets", path=tmp_path / "offsets.txt"),
    )
    described = Described()
    for source in sources:
        source.describe(described)
    found = described.list_replicas({TopicPartition("t", 0): LED_BY_1}, besides=on_disk)
    rows = [(r.broker_id, r.is_future, r.size_bytes, r.log_end_offset, r.high_watermark, r.topic_id) for r in found]
    return rows, {kind: [problem.reason for problem in held] for kind, held in described.problems.items()}


def test_replicas_have_their_sizes_and_ends(tmp_path):
    rows, problems = read(tmp_path)
    assert rows == [(1, False, 900, 50, 50, "id"), (2, False, 700, 47, None, "id"), (2, True, 5, None, None, "id")]
    assert problems == {}


def test_what_a_disk_says_comes_first(tmp_path):
    on_disk = [ReplicaState(topic="t", topic_id="id", partition=0, broker_id=1, log_directory="/d", size_bytes=1)]
    assert [row[:2] for row in read(tmp_path, on_disk=on_disk)[0]] == [(2, False), (2, True)]


def test_each_text_fails_alone(tmp_path):
    rows, problems = read(tmp_path, offsets="no offsets\n")
    assert [row[3] for row in rows] == [None, None, None]
    assert problems == {"get_offsets": ["no `topic:partition:offset` line"]}
    rows, problems = read(tmp_path, log_dirs="nothing")
    assert rows == []
    assert list(problems) == ["log_dirs_describe"]


def test_what_is_being_moved_and_what_came_to_nothing(tmp_path):
    text = tmp_path / "verify.txt"
    text.write_text(
        "Status of partition reassignment:\nReassignment of partition a-0 is completed.\n"
        "Reassignment of partition a-b-1 is still in progress.\nReassignment of replica a-2-7 is still in progress.\n"
        "There is no active reassignment of partition a-3, but replica set is 1,2 rather than 2,3.\n"
    )
    source, described = ReassignVerify(kind="reassign_verify", path=text), Described()
    source.describe(described)
    assert described.moving == {(("a-b", 1), None), (("a", 2), 7)}
    (problem,) = described.problems["reassign_verify"]
    assert "a-3 did not come to its end: no active reassignment, but replica set is 1,2" in problem.reason
    text.write_text("nothing of the kind\n")
    nothing = Described()
    source.describe(nothing)
    assert nothing.moving == set()
    assert nothing.problems["reassign_verify"][-1].position == 1


def test_rows_of_groups_that_cannot_be_are_left_out_and_named(tmp_path):
    """A consumer chooses its client id, and the one that assigns may hand out partitions that do not exist."""
    rows = [("g", 0, "m", "c"), ("far", 200_001, "m", "c"), ("g", 1, "n" * 1_025, "c"), ("g" * 1_025, 2, "m", "c")]
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
    text = "".join(f"{group} t {number} 1 2 1 {member} /h {client}\n" for group, number, member, client in rows)
    (tmp_path / "consumer-groups-1795251600000.txt").write_text(header + text)
    described = Described()
    ConsumerGroups(kind="consumer_groups", paths=(tmp_path,)).describe(described)
    assert [(at_ms, one.group_id, one.partition) for at_ms, one in described.groups] == [(1795251600000, "g", 0)]
    (problem,) = described.problems["consumer_groups"]
    assert problem.reason.startswith("left out: names too long, partitions that no topic has")
    assert problem.reason.endswith(f": of far, g, {'g' * 40}")
