"""Segments as texts of `kafka-dump-log` show them: a tree of log directories, as if the disks themselves were there.

A text holds one file after another, each under the path that was dumped; the driver finds where each begins and ends,
and tasks parse the parts they scan. What a dump does not print is not known: keys, the batches' first timestamps, topic
ids. Side files, the metadata log and directories on their way in or out are no load and left out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.log.directory_names import parse_directory_name
from pipeline.codec.log.problems import limit_problems
from pipeline.codec.log.scans import HEADER_ROW, Flaw, HeaderScan
from pipeline.codec.tools.dump_text import find_dumped_files, parse_dump_log
from pipeline.errors import InputError
from pipeline.model.cluster import ReplicaState
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    LogDirectory,
    LogTree,
    PartitionDirectory,
    SegmentFile,
    TextPart,
)
from pipeline.sources.files.directory_walk import SEGMENT_NAME
from pipeline.sources.files.named_files import list_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pipeline.config.file_sources import DumpLog
    from pipeline.model.cluster import PartitionState

_HEADER_FIELDS = tuple(name for name in HEADER_ROW.names or () if name not in {"crc_ok", "flaw"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedLogs:
    """What the texts show.

    Attributes:
        tree: As of log directories; each segment says where its text is.
        replicas: How far each log reaches.
    """

    tree: LogTree
    replicas: tuple[ReplicaState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Segment:
    """A dumped segment: whose (-1: nobody said), and where its batches begin and end."""

    broker_id: int
    log_directory: str
    key: TopicPartition
    file: SegmentFile
    end_offset: int


def discover_dumps(sources: Sequence[DumpLog]) -> DumpedLogs:
    """Everything dumped of partitions of clients, and what is wrong with the rest.

    Args:
        sources: Texts and whose disk each was made of.
    """
    problems: list[Problem] = []
    held: dict[tuple[int, str, TopicPartition], dict[int, _Segment]] = defaultdict(dict)
    for source in sources:
        for text in list_files(source.paths, ("*.txt",), problems):
            for segment in _read_text(text, -1 if source.broker is None else source.broker, problems):
                segments = held[segment.broker_id, segment.log_directory, segment.key]
                known = segments.get(segment.file.base_offset or 0)
                if known is None or known.file.size_bytes < segment.file.size_bytes:  # dumped twice: what shows more
                    segments[segment.file.base_offset or 0] = segment
    directories, replicas = [], []
    for (broker_id, path), places in groupby(sorted(held), key=lambda place: place[:2]):
        known_id = None if broker_id < 0 else broker_id
        partitions = []
        for place in places:
            segments = held[place]
            in_order = [segments[offset] for offset in sorted(segments)]
            partitions.append(_as_directory(path, place[2], in_order))
            replicas.append(_as_replica(path, known_id, partitions[-1], in_order[-1].end_offset))
        directories.append(LogDirectory(path=path, broker_id=known_id, partitions=tuple(partitions)))
    replicas.sort(key=lambda replica: (replica.topic_partition, -1 if replica.broker_id is None else replica.broker_id))
    return DumpedLogs(tree=LogTree(directories=tuple(directories), problems=tuple(problems)), replicas=tuple(replicas))


def with_topic_ids(tree: LogTree, partitions: Mapping[TopicPartition, PartitionState]) -> LogTree:
    """The tree with the ids of topics that another source knows: a dump tells none.

    Args:
        tree: From `discover_dumps`.
        partitions: What is known of them.
    """

    def named(partition: PartitionDirectory) -> PartitionDirectory:
        state = partitions.get(partition.topic_partition)
        return partition if state is None else replace(partition, topic_id=state.topic_id)

    directories = (
        replace(directory, partitions=tuple(map(named, directory.partitions))) for directory in tree.directories
    )
    return replace(tree, directories=tuple(directories))


def scan_dump(part: TextPart, path: str) -> HeaderScan:
    """The batches of a dumped segment, in the columns of a scan; a first timestamp is -1, as where none is told.

    Args:
        part: Where its text is.
        path: The path that was dumped, for problems.

    Raises:
        InputError: A line of a batch does not parse.
        OSError: The text cannot be read.
    """
    (file,) = parse_dump_log(_read_part(part), path=part.path).files
    rows = np.zeros(len(file.batches), HEADER_ROW)
    for name in _HEADER_FIELDS:
        rows[name] = [getattr(batch, name) for batch in file.batches]
    rows["crc_ok"] = True
    rows["crc_ok"][file.wrong_checksums] = False
    rows["flaw"][file.wrong_checksums] = Flaw.CRC
    wrong = [
        Problem(path=path, position=file.batches[place].position, reason="checksum mismatch, says kafka-dump-log")
        for place in file.wrong_checksums
    ]
    end = int(rows["position"][-1]) + int(rows["size_bytes"][-1]) if len(rows) else 0
    return HeaderScan(rows=rows, problems=limit_problems(path, wrong), valid_bytes=end, file_bytes=end)


def _read_text(path: Path, broker_id: int, problems: list[Problem]) -> Iterator[_Segment]:
    """The segments of one text; what is wrong with one costs that one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        problems.append(Problem(path=str(path), position=None, reason=f"cannot be read: {error.strerror}"))
        return
    starts = find_dumped_files(data)
    if not starts:
        reason = "no `Dumping` line: not the output of kafka-dump-log"
        problems.append(Problem(path=str(path), position=None, reason=reason, first_bytes=data[:64]))
        return
    ends = [start for start, _ in starts[1:]] + [len(data)]
    line, counted = 1, 0
    for (start, dumped), end in zip(starts, ends, strict=True):
        part = TextPart(str(path), start, end)
        line, counted = line + data.count(b"\n", counted, start), start
        try:
            yield from _read_segment(part, dumped, line, broker_id, problems)
        except InputError as error:
            at = line + (error.position or 1) - 1
            first_bytes = error.first_bytes or b""
            problems.append(Problem(path=str(path), position=at, reason=error.reason, first_bytes=first_bytes[:64]))


def _read_segment(
    part: TextPart, dumped: str, line: int, broker_id: int, problems: list[Problem]
) -> Iterator[_Segment]:
    """The segment a part shows; none for side files and what is no load.

    Raises:
        InputError: The path does not say which segment it is, or a line of a batch does not parse.
    """
    path = PurePath(dumped)
    if path.suffix != ".log":
        return
    name = SEGMENT_NAME.fullmatch(path.name)
    if name is None:
        raise InputError(f"{dumped} is no segment: <20 digits>.log is expected")
    try:
        directory = parse_directory_name(path.parent.name)
    except InputError as error:
        reason = f"{dumped} does not name topic and partition: dump it by a path that holds its directory"
        raise InputError(reason) from error
    if directory.kind is not DirectoryKind.LIVE or directory.topic == CLUSTER_METADATA_TOPIC:
        return
    dump = parse_dump_log(_read_part(part), path=part.path)
    (file,) = dump.files
    problems += [
        Problem(path=part.path, position=line + number - 1, reason=f"not a line of kafka-dump-log: {text[:100]!r}")
        for number, text in dump.unexplained
    ]
    if file.complaints:
        said = f"{file.complaints[0].strip()} ({len(file.complaints):,} lines of complaint)"
        problems.append(Problem(path=part.path, position=line, reason=f"the tool says: {said}", severity="suspect"))
    last = file.batches[-1] if file.batches else None
    base_offset = int(name["offset"])
    yield _Segment(
        broker_id=broker_id,
        log_directory=str(path.parent.parent),
        key=TopicPartition(directory.topic, directory.partition),
        file=SegmentFile(
            path=dumped,
            base_offset=base_offset,
            size_bytes=last.position + last.size_bytes if last else 0,
            dumped_in=part,
        ),
        end_offset=last.last_offset + 1 if last else base_offset,
    )


def _read_part(part: TextPart) -> str:
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        return file.read(part.end - part.start).decode(errors="replace")


def _as_directory(path: str, key: TopicPartition, segments: Sequence[_Segment]) -> PartitionDirectory:
    files = [segment.file for segment in segments]
    return PartitionDirectory(
        path=str(PurePath(path, str(key))),
        topic=key.topic,
        partition=key.partition,
        segments=(*files[:-1], replace(files[-1], is_active=True)),
    )


def _as_replica(path: str, broker_id: int | None, partition: PartitionDirectory, end_offset: int) -> ReplicaState:
    return ReplicaState(
        topic=partition.topic,
        topic_id=None,
        partition=partition.partition,
        broker_id=broker_id,
        log_directory=path,
        log_start_offset=partition.segments[0].base_offset,
        log_end_offset=end_offset,
        size_bytes=partition.size_bytes,
    )
