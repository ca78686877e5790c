"""The text of Kafka's tools: shapes of several versions, noise between the lines, and what is refused."""

import json

import pytest

from pipeline.codec.tools.tool_text import (
    parse_consumer_groups,
    parse_log_dirs_describe,
    parse_offsets,
    parse_topics_describe,
)
from pipeline.errors import InputError

TOPICS_41 = """\
[2024-11-21 10:00:00,000] WARN something (org.apache.kafka.Thing)
Topic: a.b-c	TopicId: gDY-1ROJSyK2s_UOjvrR2g	PartitionCount: 2	ReplicationFactor: 2	\
Configs: cleanup.policy=compact,delete,segment.bytes=16777216,retention.ms=-1
	Topic: a.b-c	Partition: 0	Leader: 1	Replicas: 1,2	Isr: 1,2	Elr: 	LastKnownElr:\N{SPACE}
	Topic: a.b-c	Partition: 1	Leader: none	Replicas: 2,1	Isr: 	Elr: 2	LastKnownElr: N/A
Topic: moving	TopicId: wn49YtIlT3KvwYLIUxUhbQ	PartitionCount: 1	ReplicationFactor: 3	Configs:\N{SPACE}
	Topic: moving	Partition: 0	Leader: 1	Replicas: 1,2,3	Isr: 1	Adding Replicas: 3	Removing Replicas: 1
"""
UUID = "9ab98cbf-3c39-4cfc-b6da-c3ecf13172b0"
TOPICS_24 = """\
Topic: old	PartitionCount: 1	ReplicationFactor: 1	Configs:
	Topic: old	Partition: 0	Leader: 0	Replicas: 0	Isr: 0
"""


def test_topics():
    partitions, configs = parse_topics_describe(TOPICS_41)
    assert [(str(p.topic_partition), p.leader_id, p.replicas, p.isr) for p in partitions] == [
        ("a.b-c-0", 1, (1, 2), (1, 2)),
        ("a.b-c-1", -1, (2, 1), ()),
        ("moving-0", 1, (1, 2, 3), (1,)),
    ]
    assert [p.topic_id for p in partitions[1:]] == ["gDY-1ROJSyK2s_UOjvrR2g", "wn49YtIlT3KvwYLIUxUhbQ"]
    assert (partitions[1].eligible_leader_replicas, partitions[1].last_known_elr) == ((2,), ())
    assert (partitions[2].adding_replicas, partitions[2].removing_replicas) == ((3,), (1,))
    assert configs["a.b-c"] == {"cleanup.policy": "compact,delete", "segment.bytes": "16777216", "retention.ms": "-1"}
    assert configs["moving"] == {}


def test_topics_without_ids_or_with_windows_line_ends():
    (partition,), configs = parse_topics_describe(TOPICS_24.replace("\n", "\r\n"))
    assert (partition.topic_id, partition.leader_id, partition.leader_epoch) == (None, 0, None)
    assert configs == {"old": {}}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", None, "no partition"),
        ("Error while executing topic command\n", None, "no partition"),
        (TOPICS_24.replace("Leader: 0", "Leader: x"), 2, "does not parse"),
        (TOPICS_24.replace("\tReplicas: 0", ""), 2, "'Replicas'"),
        (TOPICS_24.replace("Leader: 0", "Leader: 2147483648"), 2, "does not parse"),
        (TOPICS_24.replace("Partition: 0", "Partition: 200001"), 2, "does not parse"),
        (TOPICS_24.replace("Partition: 0", f"Partition: {10**30}"), 2, "does not parse"),
    ],
)
def test_broken_topics(text, line, reason):
    with pytest.raises(InputError, match=reason) as caught:
        parse_topics_describe(text)
    assert caught.value.position == line


def log_dirs(broker=1, directory="/d", **changes):
    replica = {"partition": "a-b-3", "size": 9, "offsetLag": 2, "isFuture": True, **changes}
    brokers = [{"broker": broker, "logDirs": [{"logDir": directory, "partitions": [replica]}]}]
    document = json.dumps({"version": 1, "brokers": brokers})
    return f"Querying brokers for log directories information\nReceived ...\n{document}"


def test_log_dirs():
    (found,) = parse_log_dirs_describe(log_dirs())
    assert found == (1, "/d", ("a-b", 3), 9, 2, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Querying brokers\n", "no line of JSON"),
        ("{}", "'brokers'"),
        ("{", "not the JSON"),
        ('{"brokers": [{}]}', "not the JSON"),
        *((log_dirs(size=size), "not the JSON") for size in (-1, 1.5, [1], None)),
        (log_dirs(size=2**48 + 1), "not the JSON"),  # a few of 2^63 - 1 have a sum that no table holds
        (log_dirs(partition="a-200001"), "not the JSON"),
        (log_dirs(offsetLag=-(2**63) - 1), "not the JSON"),
        *((log_dirs(broker=broker), "not the JSON") for broker in (2**31, True)),
        *((log_dirs(directory=path), "not the JSON") for path in (["\x1b[31m"], "\ud800")),
    ],
)
def test_broken_log_dirs(text, reason):
    with pytest.raises(InputError, match=reason):
        parse_log_dirs_describe(text)


def test_offsets():
    assert parse_offsets("noise\na.b-c:0:17\nx:1:\nx:2:-1\n") == {("a.b-c", 0): 17, ("x", 2): -1}
    assert parse_offsets("\n") == {}  # no partition has a record that late
    with pytest.raises(InputError, match="no `topic:partition:offset` line"):
        parse_offsets("nothing")
    for beyond in (f"x:0:{2**63}", "x:200001:0"):
        with pytest.raises(InputError, match="cannot read it"):
            parse_offsets(beyond)


GROUPS = """\

Consumer group 'idle' has no active members.

GROUP TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID   HOST         CLIENT-ID
idle  clicks   0          39              41              2    -             -            -
idle  clicks   1          -               7               -    -             -            -

GROUP TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID   HOST         CLIENT-ID
busy  a.b-c    11         5               5               0    reader-4ace   /127.0.0.1   my reader
busy  -        -          -               -               -    spare-99      /10.0.0.9    spare
Warning: Consumer group 'other' is rebalancing now and a bit longer.
"""


def test_groups():
    rows = parse_consumer_groups(GROUPS)
    assert [(r.group_id, r.topic, r.partition, r.committed_offset, r.log_end_offset, r.lag_count) for r in rows] == [
        ("idle", "clicks", 0, 39, 41, 2),
        ("idle", "clicks", 1, None, 7, None),
        ("busy", "a.b-c", 11, 5, 5, 0),
        ("busy", None, None, None, None, None),
    ]
    assert [(r.member_id, r.client_host, r.client_id) for r in rows[1:]] == [
        (None, None, None),
        ("reader-4ace", "127.0.0.1", "my reader"),
        ("spare-99", "10.0.0.9", "spare"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Consumer group 'x' has no active members.\n", "no table with a column CURRENT-OFFSET"),
        (GROUPS.replace(" 39 ", " many "), "a line whose CURRENT-OFFSET is not a number$"),
        (GROUPS.replace(" 39 ", f" {2**63} "), "a line whose CURRENT-OFFSET is not a number$"),
        (GROUPS.replace(" 11 ", f" {2**31} "), "a line whose PARTITION is not a number$"),
    ],
)
def test_broken_groups(text, reason):
    with pytest.raises(InputError, match=reason):
        parse_consumer_groups(text)


OFFSETS = """
GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID                              HOST            CLIENT-ID
g1              a               2          65473           65474           1               c 0-9ab98cbf-3c39-4cfc-b6da-c3ecf13172b0 /127.0.0.1      c 0
"""


def test_offsets_of_a_member_with_blanks_in_its_id():
    (row,) = parse_consumer_groups(OFFSETS)
    assert (row.member_id, row.client_host, row.client_id) == (f"c 0-{UUID}", "127.0.0.1", "c 0")
    assert (row.committed_offset, row.log_end_offset, row.lag_count) == (65473, 65474, 1)


def describe_group(group, *rows):
    """A table as the tool prints it: rows are topic, partition, committed offset, member and client id."""
    head = OFFSETS.splitlines()[1].split()
    cells = [
        (group, topic, str(number), str(at), "9", str(9 - at), member, "/10.0.0.9", client)
        for topic, number, at, member, client in rows
    ]
    least = (15, 15, 10, 15, 15, 15, 15, 15, 0)
    widths = [max(width, *(len(row[at]) for row in cells)) for at, width in enumerate(least)]
    lines = [" ".join(map(str.ljust, row, (*widths[:-1], 0))) for row in (head, *cells)]
    return "\n" + "".join(f"{line}\n" for line in lines)


HONEST = describe_group("payments", ("clicks", 0, 8, f"p-{UUID}", "p"), ("clicks", 1, 8, f"p-{UUID}", "p"))
TABLE = HONEST.replace(" 8 ", " 0 ")
ROW = TABLE.split("\n")[2]
FORGED = {
    "a row": f"x\n{ROW}",
    "whole rows before and after": f"x-1 /10.0.0.9 x\n{ROW}\n{ROW}",
    "a table": f"x\n{TABLE}",
    "a table of members": f"x\n\nGROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS\n{ROW}",
    "a table after none": f"\n{TABLE}",
}


@pytest.mark.parametrize("name", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("of", ["client", "client of a static member", "group"])
def test_a_row_that_a_name_forges_is_refused_with_the_text(name, of):
    member = f"instance-1-{UUID}" if of == "client of a static member" else f"{name}-{UUID}"
    of_client = describe_group("g", ("clicks", 0, 5, member, name))
    own = describe_group(name, ("clicks", 0, 5, UUID, "c")) if of == "group" else of_client
    for text in (own + HONEST, HONEST + own):
        with pytest.raises(InputError, match=r"may hold a line break$|without a column|not a number$") as caught:
            parse_consumer_groups(text)
        assert caught.value.position
    assert len(parse_consumer_groups(HONEST)) == 2


@pytest.mark.parametrize("header", ["padded", "by hand"])
def test_a_blank_line_in_a_client_id_hides_no_other_member(header):
    text = describe_group("g", ("t", 0, 1, UUID, "x\n\nWarning: y"), ("t", 1, 1, UUID, "honest"))
    if header == "by hand":
        text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
    with pytest.raises(InputError, match=r"may hold a line break$"):
        parse_consumer_groups(text)


def test_a_member_without_a_client_id_and_one_with_other_separators_are_rows():
    rows = parse_consumer_groups(describe_group("g", ("t", 0, 1, UUID, ""), ("t", 1, 1, UUID, "a\x0b\u2028b")))
    assert [(row.partition, row.client_id) for row in rows] == [(0, ""), (1, "a\x0b\u2028b")]
