"""Discovery: from a path (segment file, partition or log directory, or a tree of brokers' disks) to all under it; wrong is a `Problem`.

A log directory has `meta.properties`, offset checkpoints or partition directories in it; any other directory is looked into. Links
are followed while they stay under the source root, and nothing is read twice.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.codec.log import log_directory as form
from pipeline.codec.log.log_directory import MetaProperties
from pipeline.codec.log.problems import name_text
from pipeline.errors import InputError
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree, PartitionDirectory, SegmentFile
from pipeline.sources.files.directory_walk import SEGMENT_NAME, DirectoryWalk, Listing

META_PROPERTIES = "meta.properties"
CHECKPOINTS = {  # files at the root of a log directory, by attribute of `LogDirectory`
    "high_watermarks": "replication-offset-checkpoint",
    "log_start_offsets": "log-start-offset-checkpoint",
    "recovery_points": "recovery-point-offset-checkpoint",
    "cleaner_offsets": "cleaner-offset-checkpoint",
}
_ROOT_NAMES = frozenset({META_PROPERTIES, *CHECKPOINTS.values()})
COPY = "already read from"  # says a problem about a copy of a disk
_UNKNOWN_BROKER = MetaProperties(None, None, None)
MAX_DEPTH = 12  # levels of plain directories looked through before a tree is given up as not Kafka's


def discover_logs(paths: Iterable[Path | str]) -> LogTree:
    """Everything usable under some paths, out of which no link may lead; problems say what was refused, and why."""
    walk = DirectoryWalk()
    all_directories: list[LogDirectory] = []
    for path in map(Path, paths):
        if not walk.enter(path):
            continue
        before = len(walk.problems)
        if path.is_dir():
            directories = _visit_directory(path, walk, depth=0)
        else:
            alone = read_segment_file(path, walk)
            directories = [] if alone is None else [_lone_directory(Path(alone.path).parent, alone, walk)]
        if not directories and not walk.met_again and len(walk.problems) == before:
            walk.problem(path, "no Kafka log in it")
        all_directories += directories
    kept, doubles = refuse_doubles(all_directories)
    # files given one by one share their log directory's files, and what is wrong with those
    return LogTree(directories=kept, problems=tuple(dict.fromkeys((*walk.problems, *doubles))))


def _visit_directory(path: Path, walk: DirectoryWalk, *, depth: int) -> list[LogDirectory]:
    listing = walk.list(path)
    if listing is None:
        return []
    if not listing.files and not listing.directories:
        walk.problem(path, "an empty directory")
        return []
    if _has_partition_name(path) and has_partition_files(listing):
        partition = read_partition_directory(listing, walk)
        return [] if partition is None else [_lone_directory(path.parent, partition, walk)]
    inside = (walk.peek(child) for child in listing.directories if _has_partition_name(child))
    if not _ROOT_NAMES.isdisjoint(listing.files) or any(one and has_partition_files(one) for one in inside):
        return [_read_log_directory(listing, walk)]
    if depth == MAX_DEPTH:
        walk.problem(path, f"more than {MAX_DEPTH} levels deep: not looked into")
        return []
    return [directory for child in listing.directories for directory in _visit_directory(child, walk, depth=depth + 1)]


def _has_partition_name(path: Path) -> bool:
    try:
        form.parse_directory_name(path.name)
    except InputError:
        return False
    return True


def _read_log_directory(listing: Listing, walk: DirectoryWalk) -> LogDirectory:
    partitions: list[PartitionDirectory] = []
    for inner in filter(None, map(walk.list, listing.directories)):
        if _has_partition_name(inner.path) or has_partition_files(inner):
            partition = read_partition_directory(inner, walk)
            partitions += [] if partition is None else [partition]
    partitions.sort(key=lambda found: (found.topic, found.partition, found.kind, found.path))
    return _with_root_files(listing, walk, tuple(partitions))


def _lone_directory(parent: Path, partition: PartitionDirectory, walk: DirectoryWalk) -> LogDirectory:
    """The log directory of a partition given alone: its parent, where that can be read and says who it is."""
    files = walk.named(parent, _ROOT_NAMES) if os.access(parent, os.R_OK | os.X_OK) else {}
    return _with_root_files(Listing(path=parent, files=files, directories=()), walk, (partition,))


def _with_root_files(listing: Listing, walk: DirectoryWalk, partitions: tuple[PartitionDirectory, ...]) -> LogDirectory:
    """A log directory with whose it is, and its checkpoints; what is missing or malformed leaves its part empty."""
    meta = walk.parse(listing.files.get(META_PROPERTIES), form.parse_meta_properties, _UNKNOWN_BROKER)
    if meta.broker_id is None and meta is not _UNKNOWN_BROKER:
        reason = "neither node.id nor broker.id: the broker is unknown"
        walk.problem(listing.files[META_PROPERTIES], reason, severity="suspect")
    empty: dict[TopicPartition, int] = {}
    paths = {attribute: listing.files.get(name) for attribute, name in CHECKPOINTS.items()}
    checkpoints = {name: walk.parse(path, form.parse_offset_checkpoint, empty) for name, path in paths.items()}
    fields: dict[str, Any] = {**meta._asdict(), **checkpoints}
    return LogDirectory(path=str(listing.path), partitions=partitions, **fields)


def refuse_doubles(directories: Iterable[LogDirectory]) -> tuple[tuple[LogDirectory, ...], tuple[Problem, ...]]:
    """Log directories without copies of a disk (same cluster, node and `directory.id`; first by path stays), a problem for each.

    Another `directory.id` is a second disk, a live partition of both is suspect; without ids (before Kafka 3.7) it is one where no live
    partition is in both, else a copy. Partitions of one disk given one by one are put together.
    """
    kept: list[LogDirectory] = []
    problems: list[Problem] = []
    by_path: dict[str, list[LogDirectory]] = {}
    for one in directories:
        by_path.setdefault(one.path, []).append(one)
    merged = [same[0] if len(same) == 1 else _merge(same) for same in by_path.values()]
    ordered = sorted(merged, key=lambda one: (one.broker_id is None, one.broker_id or 0, one.path))
    disks: dict[tuple[object, ...], str] = {}  # by node and directory id: the first path
    holders: dict[tuple[object, ...], str] = {}  # by node and live partition, and for disks without an id once more
    for directory in ordered:
        node, directory_id = (directory.broker_id, directory.cluster_id), directory.directory_id
        live = [p for p in directory.partitions if p.kind is DirectoryKind.LIVE and node[0] is not None]
        if directory_id is not None:
            first, what = disks.get((*node, directory_id)), f"with directory.id {directory_id} is"
        else:
            found = (holders.get((*node, p.topic_partition, None)) for p in live)
            first, what = next(filter(None, found), None), "without directory.id holds partitions"
        if first is not None:
            problems.append(Problem(path=directory.path, reason=f"node.id {node[0]} {what} {COPY} {first}"))
            continue
        if node[0] is not None:
            disks.setdefault((*node, directory_id), directory.path)
        for partition in live:
            holder = holders.setdefault((*node, partition.topic_partition), directory.path)
            if holder != directory.path:
                reason = f"a live partition that {holder} of the same broker holds too"
                problems.append(Problem(path=partition.path, reason=reason, severity="suspect"))
            if directory_id is None:
                holders.setdefault((*node, partition.topic_partition, None), directory.path)
        kept.append(directory)
    return tuple(kept), tuple(problems)


def _merge(same: Sequence[LogDirectory]) -> LogDirectory:
    by_path: dict[str, list[PartitionDirectory]] = {}
    for directory in same:
        for partition in directory.partitions:
            by_path.setdefault(partition.path, []).append(partition)
    partitions = []
    for parts in by_path.values():
        segments = {segment.path: segment for partition in parts for segment in partition.segments}
        ordered = sorted(segments.values(), key=lambda s: (s.base_offset is None, s.base_offset or 0, s.path))
        fullest = max(parts, key=lambda partition: len(partition.segments))
        partitions.append(replace(fullest, segments=tuple(ordered)))
    partitions.sort(key=lambda p: (p.topic, p.partition, p.kind, p.path))
    return replace(same[0], partitions=tuple(partitions))


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
        name = form.parse_directory_name(listing.path.name)
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
        topic_id=walk.parse(listing.files.get(PARTITION_METADATA), form.parse_partition_metadata, None),
        snapshot_paths=snapshots,
        metadata_snapshot_paths=metadata_snapshots,
        leader_epochs=walk.parse(listing.files.get(LEADER_EPOCH_CHECKPOINT), form.parse_leader_epochs, ()),
    )


def read_segment_file(path: Path, walk: DirectoryWalk) -> PartitionDirectory | None:
    """A segment file given alone, as a directory of its own; topic empty, partition -1, base offset None where names tell none."""
    siblings, highest = walk.siblings(path.parent)
    segment = _read_segment(path, siblings, walk, is_active=path.name >= highest)
    if segment is None:
        return None
    try:
        topic, partition, kind, _ = form.parse_directory_name(path.parent.name)
    except InputError:
        topic, partition, kind = "", -1, DirectoryKind.LIVE
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
            reason = f"no {' and no '.join(absent)} next to it; it is read all the same"
            walk.problem(Path(segment.path), reason, severity="suspect")
    return segments


def _read_segment(
    path: Path, siblings: Mapping[str, Path], walk: DirectoryWalk, *, is_active: bool
) -> SegmentFile | None:
    found = walk.read_start(path, 64)
    if found is None:
        return None
    start, size_bytes = found
    if reason := name_text(start) or (_TOO_LARGE if size_bytes > _MOST_BYTES else ""):
        walk.problem(path, reason, position=0)
        return None
    match = SEGMENT_NAME.fullmatch(path.name)
    base_offset = int(match["offset"]) if match else None
    if base_offset is not None and base_offset >= 2**63:
        walk.problem(path, "the base offset in the file name does not fit in 64 bits")
        return None
    named = {name: siblings.get(f"{path.stem}{ending}") for name, ending in _BESIDE.items()}
    indexes: dict[str, Any] = {name: str(file) for name, file in named.items() if file is not None}
    return SegmentFile(path=str(path), base_offset=base_offset, size_bytes=size_bytes, is_active=is_active, **indexes)
