"""Discovery: from a path (segment file, partition or log directory, or a tree of brokers' disks) to all under it; wrong is a `Problem`.

A directory with `meta.properties`, partition directories or offset checkpoints in it is a log directory; one with a name that Kafka
gives partition directories, and Kafka's files, is one of these; any other is looked into. Only `<20 digits>.log` is live data.
Links are followed while they stay under the source root, and nothing is read twice.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.codec.log.log_directory import (
    MetaProperties,
    parse_directory_name,
    parse_meta_properties,
    parse_offset_checkpoint,
)
from pipeline.errors import InputError
from pipeline.model.log import Problem, TopicPartition
from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree, PartitionDirectory
from pipeline.sources.files.directory_walk import DirectoryWalk, Listing
from pipeline.sources.files.partition_directories import (
    has_partition_files,
    read_partition_directory,
    read_segment_file,
)

META_PROPERTIES = "meta.properties"
CHECKPOINTS = {
    "high_watermarks": "replication-offset-checkpoint",
    "log_start_offsets": "log-start-offset-checkpoint",
    "recovery_points": "recovery-point-offset-checkpoint",
    "cleaner_offsets": "cleaner-offset-checkpoint",
}
"""Files at the root of a log directory, by attribute of `LogDirectory`."""
_ROOT_NAMES = frozenset({META_PROPERTIES, *CHECKPOINTS.values()})
COPY = "already read from"  # says a problem about a copy of a disk
_UNKNOWN_BROKER = MetaProperties(0, None, None, None)
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
    if _is_log_directory(listing, walk):
        return [_read_log_directory(listing, walk)]
    if depth == MAX_DEPTH:
        walk.problem(path, f"more than {MAX_DEPTH} levels deep: not looked into")
        return []
    return [directory for child in listing.directories for directory in _visit_directory(child, walk, depth=depth + 1)]


def _is_log_directory(listing: Listing, walk: DirectoryWalk) -> bool:
    if not _ROOT_NAMES.isdisjoint(listing.files):
        return True
    named = (walk.peek(child) for child in listing.directories if _has_partition_name(child))
    return any(inner is not None and has_partition_files(inner) for inner in named)


def _has_partition_name(path: Path) -> bool:
    try:
        parse_directory_name(path.name)
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

    def parse_meta(data: bytes) -> MetaProperties:
        meta = parse_meta_properties(data)
        if meta.node_id is None:
            reason = "neither node.id nor broker.id: the broker is unknown"
            walk.problem(listing.files[META_PROPERTIES], reason, severity="suspect")
        return meta

    meta = walk.parse(listing.files.get(META_PROPERTIES), parse_meta, _UNKNOWN_BROKER)
    empty: dict[TopicPartition, int] = {}
    paths = {attribute: listing.files.get(name) for attribute, name in CHECKPOINTS.items()}
    checkpoints = {name: walk.parse(path, parse_offset_checkpoint, empty) for name, path in paths.items()}
    return LogDirectory(
        path=str(listing.path),
        broker_id=meta.node_id,
        directory_id=meta.directory_id,
        cluster_id=meta.cluster_id,
        partitions=partitions,
        **checkpoints,
    )


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
