"""The small files of a log directory: checkpoints, `meta.properties`, `partition.metadata`, producer snapshots.

Parsers of text take the file's bytes, accept CRLF line ends (files that went through a Windows checkout have them; see
`has_crlf`), take the path for error messages only, and raise `InputError` with the line number as its position. Kafka
treats an empty file as no entries.

References:
    `CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadataFile`, `MetaProperties`,
    `ProducerStateManager.readSnapshot` (Kafka 4.1).
"""

import re
import struct
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from pipeline.errors import InputError, parser
from pipeline.model.log import TopicPartition
from pipeline.model.log_tree import LeaderEpoch

CHECKPOINT_VERSION = "0"
SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_PRODUCER_BYTES = struct.calcsize(">qhiqiqiq")
_SNAPSHOT_CRC_FROM = 6
_INTEGER = re.compile(r"-?[0-9]{1,19}")


class MetaProperties(NamedTuple):
    """`meta.properties`: version 0 has `broker.id`, version 1 `node.id` and (since Kafka 3.7) `directory.id`."""

    version: int
    node_id: int | None
    cluster_id: str | None
    directory_id: str | None


@parser
def parse_offset_checkpoint(data: bytes, *, path: Path | str | None = None) -> dict[TopicPartition, int]:
    """Offset by topic-partition in a `*-offset-checkpoint` file: `topic partition offset` a line.

    Raises:
        InputError: Unknown version, wrong count, malformed line; `position` is the line number.
    """
    entries: dict[TopicPartition, int] = {}
    for number, line in _read_entries(data, path):
        fields = line.split(" ")
        if len(fields) != 3:
            raise _bad_line("expected `topic partition offset`", path, number)
        partition = _parse_integer(fields[1], path, number)
        offset = _parse_integer(fields[2], path, number)
        entries[TopicPartition(fields[0], partition)] = offset
    return entries


@parser
def parse_leader_epochs(data: bytes, *, path: Path | str | None = None) -> tuple[LeaderEpoch, ...]:
    """Entries of a `leader-epoch-checkpoint`: `epoch start-offset` a line, oldest first; raises as the one above."""
    epochs = []
    for number, line in _read_entries(data, path):
        fields = line.split(" ")
        if len(fields) != 2:
            raise _bad_line("expected `epoch start-offset`", path, number)
        epoch = _parse_integer(fields[0], path, number)
        epochs.append(LeaderEpoch(epoch=epoch, start_offset=_parse_integer(fields[1], path, number)))
    return tuple(epochs)


@parser
def parse_meta_properties(data: bytes, *, path: Path | str | None = None) -> MetaProperties:
    """Parses the owner of a log directory; ids the file lacks are None (early ZooKeeper brokers wrote no `cluster.id`).

    Raises:
        InputError: Not properties, an id that is not a number, or a version other than 0 and 1.
    """
    properties: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(_split_lines(data, path), start=1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise _bad_line("expected `name=value`", path, number)
        properties[name.strip()] = (number, value.strip().replace("\\:", ":").replace("\\=", "="))
    if "version" not in properties:
        raise InputError("no `version` in meta.properties", path=path)
    number, value = properties["version"]
    version = _parse_integer(value, path, number)
    if version not in {0, 1}:
        raise _bad_line(f"meta.properties of version {version}, expected 0 or 1", path, number)
    node = properties.get("node.id", properties.get("broker.id"))
    return MetaProperties(
        version,
        None if node is None else _parse_integer(node[1], path, node[0]),
        properties["cluster.id"][1] if "cluster.id" in properties else None,
        properties["directory.id"][1] if "directory.id" in properties else None,
    )


@parser
def parse_partition_metadata(data: bytes, *, path: Path | str | None = None) -> str:
    """The topic id in a `partition.metadata` file (Kafka 2.8 and later), as Kafka prints it: base64, URL alphabet.

    Raises:
        InputError: Another version or shape.
    """
    lines = [line for line in _split_lines(data, path) if line]
    if not lines or lines[0] != "version: 0":
        raise _bad_line("expected `version: 0` in partition.metadata", path, 1)
    name, _, topic_id = (lines[1] if len(lines) > 1 else "").partition(": ")
    if name != "topic_id" or len(topic_id) != 22:
        raise _bad_line("expected `topic_id: <22 characters>` in partition.metadata", path, 2)
    return topic_id


@parser
def check_producer_snapshot(data: bytes, *, path: Path | str | None = None) -> None:
    """Checks `<offset>.snapshot`, what a partition knew of its producers: version i16 = 1, CRC-32C of everything after it, count i32, 46 bytes an entry.

    Raises:
        InputError: Too short, another version, a wrong CRC, a count that does not fit.
    """
    if len(data) < _SNAPSHOT_HEADER.size:
        raise InputError(f"a snapshot of {len(data)} bytes, expected at least 10", path=path, position=0)
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise InputError(f"snapshot version {version}, expected 1", path=path, position=0, first_bytes=data)
    computed = google_crc32c.value(data[_SNAPSHOT_CRC_FROM:])
    if computed != crc:
        reason = f"CRC-32C of the snapshot is {computed}, expected {crc}"
        raise InputError(reason, path=path, position=2, first_bytes=data[2:])
    if count < 0 or _SNAPSHOT_HEADER.size + count * _PRODUCER_BYTES > len(data):
        reason = f"{count} producers do not fit into {len(data)} bytes"
        raise InputError(reason, path=path, position=_SNAPSHOT_CRC_FROM, first_bytes=data[_SNAPSHOT_CRC_FROM:])


def _read_entries(data: bytes, path: Path | str | None) -> list[tuple[int, str]]:
    """Numbered lines after the version and the count, checked against the count."""
    lines = _split_lines(data, path)
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return []
    if lines[0] != CHECKPOINT_VERSION:
        raise _bad_line("expected checkpoint version 0", path, 1)
    if len(lines) < 2:
        raise _bad_line("expected a count on line 2", path, 2)
    count = _parse_integer(lines[1], path, 2)
    if count != len(lines) - 2:
        raise _bad_line(f"expected {count} entries, found {len(lines) - 2}", path, 2)
    return list(enumerate(lines[2:], start=3))


def _split_lines(data: bytes, path: Path | str | None) -> list[str]:
    # not str.splitlines: it also splits at form feeds and other bytes that are not line ends to Java
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line_number = data.count(b"\n", 0, error.start) + 1
        raise InputError("expected text, found other bytes", path=path, position=line_number) from error
    return text.replace("\r\n", "\n").split("\n")


def _parse_integer(text: str, path: Path | str | None, number: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise _bad_line("expected a number", path, number)
    return int(text)


def _bad_line(reason: str, path: Path | str | None, number: int) -> InputError:
    """What is wrong with a line, which is not repeated: a file of this name may hold anything."""
    return InputError(reason, path=path, position=number)
