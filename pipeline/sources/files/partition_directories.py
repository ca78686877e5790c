"""One partition directory: its segments, their indexes, snapshots, topic id and leader epochs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.codec.log.checkpoints import parse_leader_epochs, parse_partition_metadata
from pipeline.codec.log.directory_names import DirectoryName, parse_directory_name
from pipeline.errors import InputError
from pipeline.model.log_tree import DirectoryKind, LeaderEpoch, PartitionDirectory, SegmentFile
from pipeline.sources.files.directory_walk import SEGMENT_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.sources.files.directory_walk import DirectoryWalk, Listing

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
_SNAPSHOT_NAME = re.compile(r"\d{20}\.snapshot")
_METADATA_SNAPSHOT_NAME = re.compile(r"\d{20}-\d{10}\.checkpoint")
_KAFKA_NAME = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)|\d{20}-\d{10}\.checkpoint")
_LFS_POINTER = b"version https://git-lfs"
_MAX_OFFSET = 2**63 - 1
_TEXT_PROBE_BYTES = 17
_SUSPECT = "suspect"


def has_partition_files(listing: Listing) -> bool:
    """Whether a directory holds what Kafka puts into partition directories."""
    return any(
        name in {LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA} or _KAFKA_NAME.fullmatch(name) for name in listing.files
    )


def read_partition_directory(listing: Listing, walk: DirectoryWalk) -> PartitionDirectory | None:
    """What a partition directory holds.

    Args:
        listing: The directory.
        walk: Takes the problems.

    Returns:
        The directory; None, with a problem noted, where its name is not one Kafka gives. A directory without segments
        is returned, with a problem noted.
    """
    try:
        name = parse_directory_name(listing.path.name)
    except InputError as error:
        walk.problem(listing.path, error.reason)
        return None
    segments = _read_segments(listing, name, walk)
    return _partition(listing, name, segments, walk)


def read_segment_file(path: Path, walk: DirectoryWalk) -> PartitionDirectory | None:
    """A segment file given alone, as a partition directory that holds nothing else.

    Topic and partition come from the name of the directory it lies in, where Kafka gave it; else the topic is empty
    and the partition -1. Any file name is accepted; the base offset is known only from Kafka's own.

    Args:
        path: The file.
        walk: Takes the problems.

    Returns:
        A partition directory with one segment; None, with a problem noted, where the file cannot be used.
    """
    siblings, highest = walk.siblings(path.parent)
    segment = _read_segment(path, siblings, walk, is_active=path.name >= highest)
    if segment is None:
        return None
    try:
        name = parse_directory_name(path.parent.name)
    except InputError:
        name = DirectoryName("", -1, DirectoryKind.LIVE, is_topic_truncated=False)
    return PartitionDirectory(
        path=str(path.parent), topic=name.topic, partition=name.partition, kind=name.kind, segments=(segment,)
    )


def _read_segments(listing: Listing, name: DirectoryName, walk: DirectoryWalk) -> tuple[SegmentFile, ...]:
    logs = [file for file in listing.files if file.endswith(".log")]
    for directory in listing.directories:
        if directory.name.endswith(".log"):
            walk.problem(directory, "a directory where a segment file was expected")
    for file in logs:
        if not SEGMENT_NAME.fullmatch(file):
            walk.problem(listing.files[file], "expected <20 digits>.log as the name of a segment")
    for file in sorted(listing.files):
        if file.endswith(".log.swap") and file.removesuffix(".swap") not in listing.files:
            walk.problem(
                listing.files[file], "left by an interrupted replacement of segments; not read", severity=_SUSPECT
            )
    names = sorted(file for file in logs if SEGMENT_NAME.fullmatch(file))
    if not names and not (name.topic and _has_metadata_snapshot(listing)):
        walk.problem(listing.path, "a partition directory without a segment file")
    found = (_read_segment(listing.files[file], listing.files, walk, is_active=file == names[-1]) for file in names)
    segments = tuple(segment for segment in found if segment is not None)
    for segment in segments:
        absent = [ending for ending, there in _index_paths(segment) if not there]
        if absent and segment.size_bytes:
            walk.problem(
                Path(segment.path), f"no {' and no '.join(absent)} beside it: read all the same", severity=_SUSPECT
            )
    return segments


def _index_paths(segment: SegmentFile) -> tuple[tuple[str, str | None], ...]:
    return ((".index", segment.index_path), (".timeindex", segment.time_index_path))


def _has_metadata_snapshot(listing: Listing) -> bool:
    return any(_METADATA_SNAPSHOT_NAME.fullmatch(file) for file in listing.files)


def _read_segment(
    path: Path, siblings: Mapping[str, Path], walk: DirectoryWalk, *, is_active: bool
) -> SegmentFile | None:
    start = walk.read_start(path, 64)
    if start is None:
        return None
    reason = _not_a_log(start)
    if reason:
        walk.problem(path, reason, position=0, first_bytes=start)
        return None
    match = SEGMENT_NAME.fullmatch(path.name)
    base_offset = int(match["offset"]) if match else None
    if base_offset is not None and base_offset > _MAX_OFFSET:
        walk.problem(path, "the base offset in the file name is beyond a 64-bit number")
        return None

    def sibling(ending: str) -> str | None:
        found = siblings.get(f"{path.stem}{ending}")
        return None if found is None else str(found)

    return SegmentFile(
        path=str(path),
        base_offset=base_offset,
        size_bytes=path.stat().st_size,
        index_path=sibling(".index"),
        time_index_path=sibling(".timeindex"),
        txn_index_path=sibling(".txnindex"),
        is_active=is_active,
    )


def _not_a_log(start: bytes) -> str | None:
    """Why the first bytes cannot be a log's: it starts with an offset, whose first byte is 0 for the next 2^56 records."""
    if start.startswith(_LFS_POINTER):
        return "a Git LFS pointer, not the file itself: `git lfs pull` fetches it"
    probe = start[:_TEXT_PROBE_BYTES]
    if len(probe) >= 8 and all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in probe):
        return "a text file, not a log"
    return None


def _partition(
    listing: Listing, name: DirectoryName, segments: tuple[SegmentFile, ...], walk: DirectoryWalk
) -> PartitionDirectory:
    def paths_like(pattern: re.Pattern[str]) -> tuple[str, ...]:
        return tuple(str(listing.files[file]) for file in sorted(listing.files) if pattern.fullmatch(file))

    return PartitionDirectory(
        path=str(listing.path),
        topic=name.topic,
        partition=name.partition,
        kind=name.kind,
        is_topic_truncated=name.is_topic_truncated,
        topic_id=_read_topic_id(listing, walk),
        segments=segments,
        snapshot_paths=paths_like(_SNAPSHOT_NAME),
        metadata_snapshot_paths=paths_like(_METADATA_SNAPSHOT_NAME),
        leader_epochs=_read_leader_epochs(listing, walk),
    )


def _read_topic_id(listing: Listing, walk: DirectoryWalk) -> str | None:
    data = walk.read_text(listing.files.get(PARTITION_METADATA))
    if data is None:
        return None
    try:
        return parse_partition_metadata(data)
    except InputError as error:
        _refuse(listing.files[PARTITION_METADATA], error, walk)
        return None


def _read_leader_epochs(listing: Listing, walk: DirectoryWalk) -> tuple[LeaderEpoch, ...]:
    data = walk.read_text(listing.files.get(LEADER_EPOCH_CHECKPOINT))
    if data is None:
        return ()
    try:
        return parse_leader_epochs(data)
    except InputError as error:
        _refuse(listing.files[LEADER_EPOCH_CHECKPOINT], error, walk)
        return ()


def _refuse(path: Path, error: InputError, walk: DirectoryWalk) -> None:
    walk.problem(path, error.reason, position=error.position, first_bytes=error.first_bytes)
