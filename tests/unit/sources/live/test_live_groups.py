"""What coordinators tell of consumer groups. Oracle: written out by hand."""

import itertools
from types import SimpleNamespace

import pytest
from kafka.errors import ClusterAuthorizationFailedError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from pipeline.model.log import TopicPartition
from pipeline.sources.live import reading
from pipeline.sources.live.admin import OffsetAt
from pipeline.sources.live.requests import Failures

KEY = TopicPartition("t", 0)


def ask(client, at_ms=0, brokers=(1,)):
    """Rows of groups, and questions without an answer; `t-0` ends at 200."""
    state = SimpleNamespace(
        partitions={KEY: None}, high_watermarks={KEY: OffsetAt(200, -1)}, silent_brokers={}, failures=Failures()
    )
    return reading.ask_groups(SimpleNamespace(admin=client, broker_ids=brokers), state, at_ms), state.failures.questions


def test_groups_that_one_broker_makes_up_hold_no_run(monkeypatch):
    """A coordinator may claim any number of groups, and answer late."""
    monkeypatch.setattr(reading.time, "monotonic", itertools.count(0, 100).__next__)
    named = [{"group_id": f"g{number}"} for number in range(1_000)]
    answers = {"describe_groups": lambda ids: {ids[0]: {}}, "list_group_offsets": lambda name: {name: {}}}
    told = ask(SimpleNamespace(list_groups=lambda **_: named, **answers))
    assert told == ((), {"consumer groups": "997 groups were not asked: the others took 300 s"})


def group_client(groups):
    """A client whose coordinator describes these groups; each has one member, which owns `t-0`."""
    assigned = {"assigned_partitions": [{"topic": "t", "partitions": [0]}]}
    return SimpleNamespace(
        list_groups=lambda **_: [{"group_id": group_id} for group_id in groups],
        describe_groups=lambda ids: {
            ids[0]: {
                "protocol_data": groups[ids[0]].get("assignor"),
                "members": [{"member_assignment": assigned, "member_id": "m", "client_id": "c"} | groups[ids[0]]],
            }
        },
        list_group_offsets=lambda group_id: {group_id: {KEY: SimpleNamespace(offset=150)}},
    )


LONG = "n" * 1_025


@pytest.mark.parametrize(
    ("group_id", "told"),
    [(LONG, {}), ("g", {"member_id": LONG}), ("g", {"client_id": LONG}), ("g", {"assignor": LONG})],
    ids=["group", "member", "client", "assignor"],
)
def test_names_that_are_too_long_are_left_out_and_their_groups_named(group_id, told):
    longest = LONG[1:]
    rows, questions = ask(group_client({longest: {}, group_id: told}))
    assert [(row.group_id, row.lag_count) for row in rows] == [(longest, 50)]
    (reason,) = questions.values()
    assert reason.endswith(f"more rows than a run holds: of {group_id[:40]}")


def test_groups_have_no_more_rows_than_a_run_holds(monkeypatch):
    monkeypatch.setattr(reading, "_MOST_CHARACTERS", 350)
    groups = {f"g{number}": {} for number in range(5)}
    found = [ask(group_client(groups), at_ms) for at_ms in range(50)]
    assert {len(rows) for rows, _ in found} == {3}
    assert {row.group_id for rows, _ in found for row in rows} == groups.keys()  # each has its turn
    said = "2 groups were not asked: the others have as many rows as a run holds"
    assert [questions for _, questions in found] == [{"consumer groups": said}] * 50


@pytest.mark.parametrize(
    "assigned",
    [
        b"\0\0\0\0\0\1\0\2\xff\xfe\0\0\0\1\0\0\0\0\0\0\0\0",
        b"\xff\xff\0\0\0\0",
        b"\0\0\xff\xff\xff\xff\0\0\0\0",
        b"\0\0\0\0\0\1\xff\xff\0\0\0\1\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0",
    ],
    ids=["no UTF-8", "no version", "no topics", "no name", "no partitions"],
)
def test_a_member_whose_bytes_mean_nothing_ends_no_run(assigned):
    """Members choose them, and Kafka hands them on as they are; kafka-python raises whatever comes of it."""
    client = group_client({"good": {}, "odd": {}})
    as_before = client.describe_groups

    def describe(ids):
        if ids != ["odd"]:
            return as_before(ids)
        return {"odd": {"members": [{"member_assignment": ConsumerProtocolAssignment.decode(assigned).to_dict()}]}}

    client.describe_groups = describe
    rows, _ = ask(client)
    assert {row.group_id: row.member_id for row in rows}["good"] == "m"


def test_a_broker_that_refuses_to_list_groups_hides_none_of_others():
    client = group_client({"g": {}})
    listed = client.list_groups

    def list_groups(broker_ids):
        if 2 in broker_ids:
            raise ClusterAuthorizationFailedError
        return [*listed(), {"group_id": None}]

    client.list_groups = list_groups
    rows, questions = ask(client, brokers=(1, 2, 3))
    assert {row.group_id for row in rows} == {"g"}
    assert questions == {"consumer groups of broker 2": "ClusterAuthorizationFailed"}
