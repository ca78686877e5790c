"""What `kafka-reassign-partitions --verify` prints, and the JSON that it and `kafka-leader-election` read.

References: `ReassignPartitionsCommand`, `LeaderElectionCommand` (Kafka 2.8 to 4.1).
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.codec.tools.tool_text import int32, partition_number
from pipeline.errors import InputError, parser
from pipeline.model.log import TopicPartition

_STATUSES = (
    r"Reassignment of partition (?P<name>\S+)-(?P<number>[0-9]+) (?:is )?(?P<status>.+)",
    r"Reassignment of replica (?P<name>\S+)-(?P<number>[0-9]+)-(?P<broker>[0-9]+) (?:is )?(?P<status>.+)",
    r"There is (?P<status>no active reassignment) of partition (?P<name>\S+)-(?P<number>[0-9]+), (?P<but>but .+)",
    r"Partition (?P<name>\S+)-(?P<number>[0-9]+) (?:on broker (?P<broker>[0-9]+) )?(?:is )?(?P<status>.+)",
)
_REASSIGNMENT_WORDS = ("Status of partition reassignment", "Clearing ", "No active")


class ReassignmentStatus(NamedTuple):
    topic_partition: TopicPartition
    status: str  # `completed`, `still in progress`, or what is wrong, as printed
    broker_id: int | None = None  # whose replica moves between disks, where the line is about one

    @property
    def is_running(self) -> bool:
        return self.status == "still in progress"

    @property
    def is_over(self) -> bool:
        return self.status.startswith("completed")


@parser
def parse_reassignment_status(text: str) -> tuple[ReassignmentStatus, ...]:
    """What `kafka-reassign-partitions --verify` says of moves between brokers and disks; `InputError` with the line."""
    statuses = []
    for number, line in enumerate(text.splitlines(), start=1):
        status = _parse_status(line.strip())
        if status is not None:
            statuses.append(status)
        elif line.strip() and not line.startswith(_REASSIGNMENT_WORDS):
            raise InputError("not a line of kafka-reassign-partitions --verify", position=number)
    if not statuses:
        raise InputError("no status of a reassignment")
    return tuple(statuses)


def _parse_status(line: str) -> ReassignmentStatus | None:
    match = next((match for pattern in _STATUSES if (match := re.fullmatch(pattern, line))), None)
    if match is None:
        return None
    fields = match.groupdict()
    status = ", ".join(part for part in (fields["status"], fields.get("but")) if part).removesuffix(".")
    broker_id = None if fields.get("broker") is None else int32(fields["broker"])
    return ReassignmentStatus(TopicPartition(fields["name"], partition_number(fields["number"])), status, broker_id)


def format_reassignment(rows: Iterable[tuple[str, int, Sequence[int]]]) -> str:
    """Formats the JSON for `kafka-reassign-partitions --reassignment-json-file`."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": [*replicas], "log_dirs": ["any"] * len(replicas)}
        for topic, number, replicas in rows
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def format_election(rows: Iterable[tuple[str, int]]) -> str:
    """Formats the JSON for `kafka-leader-election --path-to-json-file`."""
    partitions = [{"topic": topic, "partition": number} for topic, number in rows]
    return json.dumps({"partitions": partitions}, separators=(",", ":"))


@parser
def parse_reassignment(text: str, *, path: Path | str | None = None) -> dict[tuple[str, int], tuple[int, ...]]:
    """Replicas by topic and partition from such JSON; `InputError` for another, or no replica or one twice."""
    reassignment = {}
    for one in json.loads(text)["partitions"]:
        replicas = tuple(int32(replica) for replica in one["replicas"])
        if not replicas or len({*replicas}) < len(replicas):
            raise InputError(f"replicas {list(replicas)} of a partition; expected some, each once", path=path)
        reassignment[str(one["topic"]), partition_number(one["partition"])] = replicas
    return reassignment
