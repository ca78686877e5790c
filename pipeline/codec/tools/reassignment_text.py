"""What `kafka-reassign-partitions` prints and takes: statuses, plans, topics to move.

References:
    `ReassignPartitionsCommand` (Kafka 2.8 to 4.1).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import InputError
from pipeline.model.log import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

_STATUSES = tuple(
    map(
        re.compile,
        (
            r"Reassignment of partition (?P<name>\S+)-(?P<number>[0-9]+) (?:is )?(?P<status>.+)",
            r"Reassignment of replica (?P<name>\S+)-(?P<number>[0-9]+)-(?P<broker>[0-9]+) (?:is )?(?P<status>.+)",
            r"There is (?P<status>no active reassignment) of partition (?P<name>\S+)-(?P<number>[0-9]+), (?P<but>but .+)",
            r"Partition (?P<name>\S+)-(?P<number>[0-9]+) (?:on broker (?P<broker>[0-9]+) )?(?:is )?(?P<status>.+)",
        ),
    )
)
_IN_PROGRESS = "still in progress"
_REASSIGNMENT_WORDS = ("Status of partition reassignment", "Clearing ", "No active")


class ReassignmentStatus(NamedTuple):
    """A line of `kafka-reassign-partitions --verify`.

    `status`: `completed`, `still in progress`, or what is wrong, as printed. `broker_id`: whose replica moves between
    disks, where the line is about one.
    """

    topic_partition: TopicPartition
    status: str
    broker_id: int | None = None

    @property
    def is_running(self) -> bool:
        """The reassignment is not over."""
        return self.status == _IN_PROGRESS

    @property
    def is_over(self) -> bool:
        """It came to its end as it was meant to."""
        return self.status.startswith("completed")


def parse_reassignment_status(text: str, *, path: Path | str | None = None) -> tuple[ReassignmentStatus, ...]:
    """Statuses from the text of `kafka-reassign-partitions --verify`, of replicas between brokers and between disks.

    Args:
        text: The tool's output.
        path: For error messages.

    Raises:
        InputError: No status in it, or a line that is none; `position` is the line number.
    """
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        status = _parse_status(line.strip())
        if status is not None:
            found.append(status)
        elif line.strip() and not line.startswith(_REASSIGNMENT_WORDS):
            reason = f"not a line of kafka-reassign-partitions --verify: {line[:200]!r}"
            raise InputError(reason, path=path, position=number, first_bytes=line.encode())
    if not found:
        raise InputError("no status of a reassignment", path=path, first_bytes=text.encode())
    return tuple(found)


def _parse_status(line: str) -> ReassignmentStatus | None:
    match = next((match for pattern in _STATUSES if (match := pattern.fullmatch(line))), None)
    if match is None:
        return None
    told = match.groupdict()
    status = ", ".join(part for part in (told["status"], told.get("but")) if part).removesuffix(".")
    broker_id = None if told.get("broker") is None else int(told["broker"])
    return ReassignmentStatus(TopicPartition(told["name"], int(told["number"])), status, broker_id)


def parse_reassignment_plans(
    text: str, *, path: Path | str | None = None
) -> tuple[dict[TopicPartition, tuple[int, ...]], ...]:
    """Replicas by partition from the JSON lines of `kafka-reassign-partitions --generate` or `--execute`, or from a plan.

    Args:
        text: The tool's output, or a file it takes.
        path: For error messages.

    Returns:
        One per line of JSON: `--generate` prints the present assignment, then the proposed one.

    Raises:
        InputError: No such line, or one of another shape.
    """
    plans = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("{"):
            try:
                entries = json.loads(line)["partitions"]
                plans.append(
                    {TopicPartition(row["topic"], row["partition"]): tuple(row["replicas"]) for row in entries}
                )
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                reason = f"not the JSON of a reassignment: {error}"
                raise InputError(reason, path=path, position=number, first_bytes=line.encode()) from error
    if not plans:
        raise InputError("no line of JSON with partitions", path=path, first_bytes=text.encode())
    return tuple(plans)


def parse_topics_to_move(text: str, *, path: Path | str | None = None) -> tuple[str, ...]:
    """Topics of the file that `kafka-reassign-partitions --topics-to-move-json-file` takes.

    Raises:
        InputError: Another shape.
    """
    try:
        return tuple(row["topic"] for row in json.loads(text)["topics"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"not the JSON of topics to move: {error}", path=path, first_bytes=text.encode()) from error
