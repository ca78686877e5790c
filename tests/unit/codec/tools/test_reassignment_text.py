"""Text of `kafka-reassign-partitions`, in the words that the tool holds; real texts are in the golden lane."""

import pytest

from pipeline.codec.tools.reassignment_text import (
    format_election,
    format_reassignment,
    parse_reassignment,
    parse_reassignment_status,
)
from pipeline.errors import InputError


def test_reassignments():
    text = (
        "Status of partition reassignment:\nReassignment of partition a-b-0 is completed.\n"
        "Reassignment of partition a-b-1 is still in progress.\n\nClearing broker-level throttles on brokers 0,1\n"
    )
    done, running = parse_reassignment_status(text)
    assert (done.topic_partition, done.status) == (("a-b", 0), "completed")
    assert (running.status, running.is_running, running.is_over) == ("still in progress", True, False)
    with pytest.raises(InputError) as raised:
        parse_reassignment_status(text + "Something else\n")
    assert raised.value.position == 6
    with pytest.raises(InputError):
        parse_reassignment_status("Reassignment of partition a-200001 is completed.\n")


def test_json_of_plans():
    text = '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,0],"log_dirs":["any","any"]}]}'
    assert format_reassignment([("orders", 1, (2, 0))]) == text
    assert parse_reassignment(text) == {("orders", 1): (2, 0)}
    assert format_election([("orders", 1)]) == '{"partitions":[{"topic":"orders","partition":1}]}'


@pytest.mark.parametrize(
    ("line", "topic_partition", "broker_id", "status"),
    [
        ("Reassignment of partition a-b-1 completed successfully", ("a-b", 1), None, "completed successfully"),
        ("Reassignment of replica a-b-1-12 completed successfully.", ("a-b", 1), 12, "completed successfully"),
        ("Reassignment of replica a-b-1-12 is still in progress.", ("a-b", 1), 12, "still in progress"),
        ("Reassignment of partition a-0 failed", ("a", 0), None, "failed"),
        (
            "There is no active reassignment of partition a-0, but replica set is 1,2 rather than 2,3.",
            *(("a", 0), None, "no active reassignment, but replica set is 1,2 rather than 2,3"),
        ),
        (
            "Partition a-0 cannot be found in any live log directory on broker 3.",
            *(("a", 0), None, "cannot be found in any live log directory on broker 3"),
        ),
        (
            "Partition a-0 on broker 3 is being moved to log dir /x instead of /y.",
            *(("a", 0), 3, "being moved to log dir /x instead of /y"),
        ),
    ],
)
def test_what_a_reassignment_comes_to(line, topic_partition, broker_id, status):
    """As `ReassignPartitionsCommand` of Kafka 2.8 to 4.1 prints them."""
    (found,) = parse_reassignment_status(line)
    assert found == (topic_partition, status, broker_id)
