"""Segments as texts of `kafka-dump-log` show them: a tree of log directories, as if the disks themselves were there.

A text holds one file after another; the driver finds where each begins and ends, tasks parse those they scan. It is believed up to
the first line not about segments or batches: a record's text could look like any that follows. Keys, first timestamps and topic ids
are not known; side files, the metadata log and directories on their way in or out are left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import NamedTuple

import numpy as np

from pipeline.codec.log.batch_headers import HEADER_ROW, Flaw, HeaderScan
from pipeline.codec.log.log_directory import parse_directory_name
from pipeline.codec.log.problems import limit_problems
from pipeline.codec.tools.dump_text import DumpedSegment, find_dumped_files, parse_dumped_segment
from pipeline.errors import InputError, parser
from pipeline.files import read_small
from pipeline.model import log_tree
from pipeline.model.cluster import ReplicaState
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import LogDirectory, LogTree, PartitionDirectory, SegmentFile, TextPart
from pipeline.sources.files.directory_walk import SEGMENT_NAME, list_files

_MOST_DUMP_BYTES = 1 << 30  # 3 million batches; the text of more is cut by dumping fewer segments at once
_HEADER_FIELDS = tuple(name for name in HEADER_ROW.names or () if name not in {"crc_ok", "flaw"})


class DumpedTree(NamedTuple):
    tree: LogTree
    replicas: tuple[ReplicaState, ...]


class _Segment(NamedTuple):
    """A dumped segment: in which log directory of which broker (-1: unknown), and where its batches begin and end."""

    place: tuple[int, str, TopicPartition]
    file: SegmentFile
    end_offset: int
    leader_epoch: int  # of its last batch; -1 without any


def discover_dumps(dumps: Iterable[tuple[Sequence[Path], int | None]]) -> DumpedTree:
    """Everything dumped of partitions of clients, and what is wrong with the rest; texts with the broker they are of."""
    problems: list[Problem] = []
    held: dict[tuple[int, str, TopicPartition], dict[int, _Segment]] = defaultdict(dict)
    for paths, broker_id in dumps:
        for text in list_files(paths, ("*.txt",), problems):
            for segment in _read_text(text, -1 if broker_id is None else broker_id, problems):
                segments = held[segment.place]
                known = segments.get(segment.file.base_offset or 0)
                if known is None or known.file.size_bytes < segment.file.size_bytes:  # dumped twice: what shows more
                    segments[segment.file.base_offset or 0] = segment
    directories: dict[tuple[int, str], list[PartitionDirectory]] = defaultdict(list)
    replicas = []
    for (broker_id, path, key), segments in sorted(held.items(), key=lambda item: item[0]):
        in_order = [segments[offset] for offset in sorted(segments)]
        files = [segment.file for segment in in_order]
        partition = PartitionDirectory(
            path=str(PurePath(path, str(key))),
            topic=key.topic,
            partition=key.partition,
            segments=(*files[:-1], replace(files[-1], is_active=True)),
        )
        directories[broker_id, path].append(partition)
        replica = ReplicaState(
            topic=key.topic,
            topic_id=None,
            partition=key.partition,
            broker_id=_known(broker_id),
            log_directory=path,
            log_start_offset=files[0].base_offset,
            log_end_offset=in_order[-1].end_offset,
            size_bytes=partition.size_bytes,
            leader_epoch=max(segment.leader_epoch for segment in in_order),
        )
        replicas.append((key, broker_id, replica))
    texts = (
        LogDirectory(path=path, broker_id=_known(broker_id), partitions=tuple(partitions))
        for (broker_id, path), partitions in directories.items()
    )
    replicas.sort(key=lambda held: held[:2])
    tree = LogTree(directories=tuple(texts), problems=tuple(problems))
    return DumpedTree(tree, tuple(replica for *_, replica in replicas))


def _known(broker_id: int) -> int | None:
    return None if broker_id < 0 else broker_id


@parser
def scan_dump(part: TextPart, path: str) -> HeaderScan:
    """The batches of a dumped segment, first timestamps -1; `InputError` for a line that does not parse; `OSError`."""
    file = parse_dumped_segment(_read_part(part))
    rows = np.zeros(len(file.batches), HEADER_ROW)
    for name in _HEADER_FIELDS:
        rows[name] = [getattr(batch, name) for batch in file.batches]
    rows["crc_ok"] = True
    rows["crc_ok"][file.wrong_checksums] = False
    rows["flaw"][file.wrong_checksums] = Flaw.CRC
    reason = "checksum mismatch, says kafka-dump-log"
    wrong = [Problem(path=path, position=file.batches[n].position, reason=reason) for n in file.wrong_checksums]
    end = int(rows["position"][-1]) + int(rows["size_bytes"][-1]) if len(rows) else 0
    return HeaderScan(rows=rows, problems=limit_problems(path, wrong), valid_bytes=end, file_bytes=end)


def _read_text(path: Path, broker_id: int, problems: list[Problem]) -> Iterator[_Segment]:
    try:
        data = read_small(path, _MOST_DUMP_BYTES)
    except OSError as error:
        problems.append(Problem.of_error(path, error))
        return
    starts = find_dumped_files(data)
    if not starts:
        problems.append(Problem(path=str(path), reason="no `Dumping` line: not the output of kafka-dump-log"))
        return
    ends = [start for start, _ in starts[1:]] + [len(data)]
    line, counted = 1, 0
    for (start, dumped), end in zip(starts, ends, strict=True):
        part = TextPart(str(path), start, end)
        line, counted = line + data.count(b"\n", counted, start), start
        try:
            file = parse_dumped_segment(_read_part(part)) if dumped.endswith(".log") else None
        except InputError as error:
            reason, at = f"{error.reason}; nothing from here on is read", line + (error.position or 1) - 1
            problems.append(replace(Problem.of_error(path, error), position=at, reason=reason))
            return
        try:
            if file is not None:
                if file.complaint_count:
                    reason = f"the tool says: {file.complaint.strip()} ({file.complaint_count:,} error lines)"
                    problems.append(Problem(path=part.path, position=line, reason=reason, severity="suspect"))
                yield from _read_segment(part, dumped, broker_id, file)
        except InputError as error:
            problems.append(replace(Problem.of_error(path, error), position=line))


def _read_segment(part: TextPart, dumped: str, broker_id: int, file: DumpedSegment) -> Iterator[_Segment]:
    """The segment a part shows; none for what is no load; `InputError` where it is not clear."""
    path = PurePath(dumped)
    name = SEGMENT_NAME.fullmatch(path.name)
    if name is None:
        raise InputError(f"{dumped} is not a segment: <20 digits>.log is expected")
    try:
        directory = parse_directory_name(path.parent.name)
    except InputError as error:
        reason = f"{dumped} does not name topic and partition: dump it by a path that holds its directory"
        raise InputError(reason) from error
    if directory.kind is not log_tree.DirectoryKind.LIVE or directory.topic == log_tree.CLUSTER_METADATA_TOPIC:
        return
    last = file.batches[-1] if file.batches else None
    base_offset = int(name["offset"])
    size_bytes = last.position + last.size_bytes if last else 0
    yield _Segment(
        (broker_id, str(path.parent.parent), TopicPartition(directory.topic, directory.partition)),
        SegmentFile(path=dumped, base_offset=base_offset, size_bytes=size_bytes, dumped_in=part),
        last.last_offset + 1 if last else base_offset,
        last.partition_leader_epoch if last else -1,
    )


def _read_part(part: TextPart) -> str:
    with Path(part.path).open("rb") as file:
        file.seek(part.start)
        return file.read(part.end - part.start).decode(errors="replace")
