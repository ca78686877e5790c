"""One partition directory: its segments, their indexes, snapshots, topic id and leader epochs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.codec.log.log_directory import (
    DirectoryName,
    parse_directory_name,
    parse_leader_epochs,
    parse_partition_metadata,
)
from pipeline.errors import InputError
from pipeline.model.log_tree import DirectoryKind, PartitionDirectory, SegmentFile
from pipeline.sources.files.directory_walk import SEGMENT_NAME, DirectoryWalk, Listing

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
_SNAPSHOT_NAME = re.compile(r"\d{20}\.snapshot")
_METADATA_SNAPSHOT_NAME = re.compile(r"\d{20}-\d{10}\.checkpoint")
_KAFKA_NAME = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|\d{20}-\d{10}\.checkpoint")
_BESIDE = {"index_path": ".index", "time_index_path": ".timeindex", "txn_index_path": ".txnindex"}
_MOST_BYTES = 2**31 - 1
_TOO_LARGE = "more than 2 GiB: Kafka itself writes and opens no such segment"


def has_partition_files(listing: Listing) -> bool:
    named = {LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA}
    return any(name in named or _KAFKA_NAME.fullmatch(name) for name in listing.files)


def read_partition_directory(listing: Listing, walk: DirectoryWalk) -> PartitionDirectory | None:
    """Reads a partition directory; None, with a problem noted, where Kafka gives no such name."""
    try:
        name = parse_directory_name(listing.path.name)
    except InputError as error:
        walk.problem(listing.path, error.reason)
        return None
    snapshots, metadata_snapshots = (
        tuple(str(listing.files[file]) for file in sorted(listing.files) if pattern.fullmatch(file))
        for pattern in (_SNAPSHOT_NAME, _METADATA_SNAPSHOT_NAME)
    )
    return PartitionDirectory(
        path=str(listing.path),
        topic=name.topic,
        partition=name.partition,
        kind=name.kind,
        is_topic_truncated=name.is_topic_truncated,
        segments=_read_segments(listing, walk, may_be_empty=bool(metadata_snapshots)),
        topic_id=walk.parse(listing.files.get(PARTITION_METADATA), parse_partition_metadata, None),
        snapshot_paths=snapshots,
        metadata_snapshot_paths=metadata_snapshots,
        leader_epochs=walk.parse(listing.files.get(LEADER_EPOCH_CHECKPOINT), parse_leader_epochs, ()),
    )


def read_segment_file(path: Path, walk: DirectoryWalk) -> PartitionDirectory | None:
    """A segment file given alone, as a directory of its own; topic empty, partition -1, base offset None where names tell none."""
    siblings, highest = walk.siblings(path.parent)
    segment = _read_segment(path, siblings, walk, is_active=path.name >= highest)
    if segment is None:
        return None
    try:
        name = parse_directory_name(path.parent.name)
    except InputError:
        name = DirectoryName("", -1, DirectoryKind.LIVE, is_topic_truncated=False)
    topic, partition, kind, _ = name
    return PartitionDirectory(path=str(path.parent), topic=topic, partition=partition, kind=kind, segments=(segment,))


def _read_segments(listing: Listing, walk: DirectoryWalk, *, may_be_empty: bool) -> tuple[SegmentFile, ...]:
    logs = [file for file in listing.files if file.endswith(".log")]
    for directory in listing.directories:
        if directory.name.endswith(".log"):
            walk.problem(directory, "a directory where a segment file was expected")
    for file in logs:
        if not SEGMENT_NAME.fullmatch(file):
            walk.problem(listing.files[file], "expected <20 digits>.log as the name of a segment")
    for file, path in sorted(listing.files.items()):
        if file.endswith(".log.swap") and file.removesuffix(".swap") not in listing.files:
            walk.problem(path, "left by an interrupted replacement of segments; not read", severity="suspect")
    names = sorted(file for file in logs if SEGMENT_NAME.fullmatch(file))
    if not names and not may_be_empty:
        walk.problem(listing.path, "a partition directory without a segment file")
    read = (_read_segment(listing.files[file], listing.files, walk, is_active=file == names[-1]) for file in names)
    segments = tuple(segment for segment in read if segment is not None)
    for segment in segments:
        indexes = {".index": segment.index_path, ".timeindex": segment.time_index_path}
        absent = [ending for ending, path in indexes.items() if not path]
        if absent and segment.size_bytes:
            reason = f"no {' and no '.join(absent)} next to it: read all the same"
            walk.problem(Path(segment.path), reason, severity="suspect")
    return segments


def _read_segment(
    path: Path, siblings: Mapping[str, Path], walk: DirectoryWalk, *, is_active: bool
) -> SegmentFile | None:
    found = walk.read_start(path, 64)
    if found is None:
        return None
    start, size_bytes = found
    reason = _not_a_log(start) or (_TOO_LARGE if size_bytes > _MOST_BYTES else None)
    if reason:
        walk.problem(path, reason, position=0)
        return None
    match = SEGMENT_NAME.fullmatch(path.name)
    base_offset = int(match["offset"]) if match else None
    if base_offset is not None and base_offset >= 2**63:
        walk.problem(path, "the base offset in the file name is beyond a 64-bit number")
        return None
    named = {name: siblings.get(f"{path.stem}{ending}") for name, ending in _BESIDE.items()}
    indexes: dict[str, Any] = {name: str(file) for name, file in named.items() if file is not None}
    return SegmentFile(path=str(path), base_offset=base_offset, size_bytes=size_bytes, is_active=is_active, **indexes)


def _not_a_log(start: bytes) -> str | None:
    """Why the first bytes cannot be a log's: it starts with an offset, whose first byte is 0 for the next 2^56 records."""
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself: `git lfs pull` fetches it"
    probe = start[:17]
    if len(probe) >= 8 and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in probe):
        return "a text file, not a log"
    return None
