"""Reassignments and elections in the JSON that Kafka's own tools read and write.

References:
    `org.apache.kafka.tools.reassign.ReassignPartitionsCommand` (`parsePartitionReassignmentData`),
    `org.apache.kafka.tools.LeaderElectionCommand` (`parseReplicaElectionData`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def format_reassignment(rows: Iterable[tuple[str, int, Sequence[int]]]) -> str:
    """What `kafka-reassign-partitions --reassignment-json-file` reads, from topics, partitions and replicas in order.

    >>> format_reassignment([("orders", 1, (2, 0))])
    '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,0],"log_dirs":["any","any"]}]}'
    """
    partitions = [
        {"topic": topic, "partition": number, "replicas": [*replicas], "log_dirs": ["any"] * len(replicas)}
        for topic, number, replicas in rows
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def format_election(rows: Iterable[tuple[str, int]]) -> str:
    """What `kafka-leader-election --path-to-json-file` reads, from rows of topic and partition.

    >>> format_election([("orders", 1)])
    '{"partitions":[{"topic":"orders","partition":1}]}'
    """
    partitions = [{"topic": topic, "partition": number} for topic, number in rows]
    return json.dumps({"partitions": partitions}, separators=(",", ":"))
