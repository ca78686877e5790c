"""A log directory: names of partition directories, checkpoints, properties, metadata and producer snapshots.

Parsers of text accept CRLF, and raise `InputError` with the line's number, without the line: such a file may hold anything.
References: `LocalLog`, `Topic.validate`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadataFile`,
`MetaProperties`, `ProducerStateManager.readSnapshot` (Kafka 4.1).
"""

import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import google_crc32c

from pipeline.errors import InputError, parser
from pipeline.model.log import TopicPartition, is_partition_number
from pipeline.model.log_tree import DirectoryKind, LeaderEpoch

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


@parser
def parse_directory_name(name: str) -> DirectoryName:
    """Topic, partition (behind the *last* dash) and kind from a partition directory's name; `InputError` for others."""
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
    if topic in {".", ".."} or len(topic) > MAX_TOPIC_LENGTH or not _TOPIC.fullmatch(topic):
        form = f"at most {MAX_TOPIC_LENGTH} characters of a-z A-Z 0-9 . _ -"
        raise InputError(f"directory {name!r}: {topic!r} is not a topic name, {form}")
    truncated = kind is not DirectoryKind.LIVE and len(name) == MAX_DIRECTORY_NAME_LENGTH
    return DirectoryName(topic, int(number), kind, truncated)


_SNAPSHOT_HEADER = struct.Struct(">hIi")  # version 1, CRC-32C of all behind it, count of entries
_PRODUCER_BYTES = struct.calcsize(">qhiqiqiq")
_SNAPSHOT_CRC_FROM = 6
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_MOST_OFFSET = 1 << 62  # so that sums and differences of two stay within 64 bits
_MOST_ID = 2**31 - 1  # of brokers, partitions and leader epochs


class MetaProperties(NamedTuple):
    """`meta.properties`: version 0 has `broker.id`, version 1 `node.id` and (since Kafka 3.7) `directory.id`."""

    broker_id: int | None  # `node.id` or `broker.id`
    cluster_id: str | None
    directory_id: str | None


@parser
def parse_offset_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """Offset by topic-partition in a `*-offset-checkpoint` file: `topic partition offset` a line."""
    return {TopicPartition(name, number): offset for name, number, offset in _read_rows(data, "topic partition offset")}


@parser
def parse_leader_epochs(data: bytes) -> tuple[LeaderEpoch, ...]:
    return tuple(
        LeaderEpoch(epoch=epoch, start_offset=start) for epoch, start in _read_rows(data, "epoch start-offset")
    )


@parser
def parse_meta_properties(data: bytes) -> MetaProperties:
    """The owner of a log directory; ids it lacks are None. `InputError`: no properties, unknown version, wrong ids."""
    properties: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(_split_lines(data), start=1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise InputError("expected `name=value`", position=number)
        properties[name.strip()] = (number, value.strip().replace("\\:", ":").replace("\\=", "="))
    if "version" not in properties:
        raise InputError("no `version` in meta.properties")
    number, value = properties["version"]
    if (version := _parse_integer(value, number)) not in {0, 1}:
        raise InputError(f"meta.properties of version {version}, expected 0 or 1", position=number)
    node = properties.get("node.id", properties.get("broker.id"))
    node_id = None if node is None else _parse_integer(node[1], node[0], least=0, most=_MOST_ID)
    cluster_id, directory_id = (properties.get(name, (0, None))[1] for name in ("cluster.id", "directory.id"))
    return MetaProperties(node_id, cluster_id, directory_id)


@parser
def parse_partition_metadata(data: bytes) -> str:
    """The topic id in a `partition.metadata` file (Kafka 2.8 and later), as Kafka prints it: base64, URL alphabet."""
    lines = [line for line in _split_lines(data) if line]
    if not lines or lines[0] != "version: 0":
        raise InputError("expected `version: 0` in partition.metadata", position=1)
    name, _, topic_id = (lines[1] if len(lines) > 1 else "").partition(": ")
    if name != "topic_id" or len(topic_id) != 22:
        raise InputError("expected `topic_id: <22 characters>` in partition.metadata", position=2)
    return topic_id


@parser
def check_producer_snapshot(data: bytes) -> None:
    """Checks `<offset>.snapshot`, what a partition knew of its producers; `InputError` says what does not fit."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise InputError(f"a snapshot of {len(data)} bytes, expected at least 10", position=0)
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != 1:
        raise InputError(f"snapshot version {version}, expected 1", position=0, first_bytes=data)
    computed = google_crc32c.value(data[_SNAPSHOT_CRC_FROM:])
    if computed != crc:
        raise InputError(f"CRC-32C of the snapshot is {computed}, expected {crc}", position=2, first_bytes=data[2:])
    if count < 0 or _SNAPSHOT_HEADER.size + count * _PRODUCER_BYTES > len(data):
        reason = f"{count} producers do not fit into {len(data)} bytes"
        raise InputError(reason, position=_SNAPSHOT_CRC_FROM, first_bytes=data[_SNAPSHOT_CRC_FROM:])


def _read_rows(data: bytes, form: str) -> Iterator[list[Any]]:
    """Fields of the lines after the version and the count, which has to be theirs; all but a topic are numbers."""
    lines = _split_lines(data)
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return
    if lines[0] != "0":
        raise InputError("expected checkpoint version 0", position=1)
    if len(lines) < 2:
        raise InputError("expected a count on line 2", position=2)
    count, names = _parse_integer(lines[1], 2), form.split()
    most = [_MOST_OFFSET if name.endswith("offset") else _MOST_ID for name in names]
    if count != len(lines) - 2:
        raise InputError(f"expected {count} entries, found {len(lines) - 2}", position=2)
    for number, line in enumerate(lines[2:], start=3):
        fields = line.split(" ")
        if len(fields) != len(names):
            raise InputError(f"expected `{form}`", position=number)
        found = zip(names, fields, most, strict=True)
        yield [text if name == "topic" else _parse_integer(text, number, most=m) for name, text, m in found]


def _split_lines(data: bytes) -> list[str]:
    # not str.splitlines: it also splits at form feeds and other bytes that are not line ends to Java
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_number = data.count(b"\n", 0, error.start) + 1
        raise InputError("expected text, found other bytes", position=line_number) from error
    return text.replace("\r\n", "\n").split("\n")


def _parse_integer(text: str, number: int, *, least: int = -1, most: int = _MOST_OFFSET) -> int:
    if not _INTEGER.fullmatch(text):
        raise InputError("expected a number", position=number)
    if not least <= (value := int(text)) <= most:
        raise InputError(f"expected a number from {least} to {most}", position=number)
    return value
