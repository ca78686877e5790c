"""Names of partition directories: `topic-N`, and the endings Kafka gives to those on their way in or out.

References: `LocalLog.parseTopicPartitionName` and `logDirNameWithSuffixCappedLength`, `Topic.validate` (Kafka 4.1).
"""

import re
from typing import NamedTuple

from pipeline.errors import InputError, parser
from pipeline.model.log import is_partition_number
from pipeline.model.log_tree import DirectoryKind

MAX_TOPIC_LENGTH = 249
MAX_DIRECTORY_NAME_LENGTH = 255
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_MOVING = re.compile(r"(?P<name>\S+-[0-9]+)\.(?P<unique>[0-9a-f]{32})-(?P<kind>delete|stray|future)")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")


class DirectoryName(NamedTuple):
    topic: str
    partition: int
    kind: DirectoryKind
    is_topic_truncated: bool  # perhaps: Kafka cuts the topic of a moving directory so that the name fits 255 characters


def check_topic_name(topic: str) -> str | None:
    """Why a name cannot be a topic's, as a phrase; None where it can."""
    if not topic or topic in {".", ".."}:
        return f"{topic!r} is not a topic name"
    if len(topic) > MAX_TOPIC_LENGTH:
        return f"the topic name has {len(topic)} characters, more than {MAX_TOPIC_LENGTH}"
    if not _TOPIC.fullmatch(topic):
        return f"the topic name {topic!r} has characters outside a-z A-Z 0-9 . _ -"
    return None


@parser
def parse_directory_name(name: str) -> DirectoryName:
    """Topic, partition and kind from the name of a partition directory.

    1. `<name>.<32 hex>-delete|-stray|-future` is a moving directory of `<name>`.
    2. The partition is what follows the *last* dash: topics may hold dashes and dots.

    `InputError` for a name that Kafka does not give.

    >>> parse_directory_name("my-topic.v1-12")
    DirectoryName(topic='my-topic.v1', partition=12, kind=<DirectoryKind.LIVE: 'live'>, is_topic_truncated=False)
    """
    kind, stem = DirectoryKind.LIVE, name
    if moving := _MOVING.fullmatch(name):
        kind, stem = DirectoryKind(moving["kind"]), moving["name"]
    elif name.endswith(("-delete", "-stray", "-future")):
        raise InputError(f"directory {name!r}: expected topic-partition.<32 hex digits> before the ending")
    topic, dash, number = stem.rpartition("-")
    if not dash or not _NUMBER.fullmatch(number):
        raise InputError(f"directory {name!r}: expected topic-partition, a number after the last dash")
    if not is_partition_number(int(number)):
        raise InputError(f"directory {name!r}: no topic has a partition {number}")
    if reason := check_topic_name(topic):
        raise InputError(f"directory {name!r}: {reason}")
    truncated = kind is not DirectoryKind.LIVE and len(name) == MAX_DIRECTORY_NAME_LENGTH
    return DirectoryName(topic, int(number), kind, truncated)
