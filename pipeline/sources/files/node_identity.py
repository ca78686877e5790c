"""One `node.id` found in several directories: a second disk of the broker, or a copy of a disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.model.log import Problem
from pipeline.model.log_tree import DirectoryKind, LogDirectory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pipeline.model.log_tree import PartitionDirectory


def refuse_doubles(found: Iterable[LogDirectory]) -> tuple[tuple[LogDirectory, ...], tuple[Problem, ...]]:
    """Log directories without copies of a disk, and a problem for each copy.

    1. Same cluster, same node, same `directory.id`: one disk was copied. The first by path is kept, others are refused.
    2. Same node, other `directory.id`: a second disk of the broker; a live partition that both hold is suspect.
    3. No `directory.id` (before Kafka 3.7): a second disk where no live partition is in both, else a copy.
    4. Partitions of one disk that were given one by one are not copies: they are put together.

    Returns:
        Directories by broker and path, problems by path.
    """
    kept: list[LogDirectory] = []
    problems: list[Problem] = []
    for directory in sorted(_put_together(found), key=_order):
        twins = [other for other in kept if _is_same_node(other, directory)]
        reason = next(filter(None, (_copied_from(other, directory) for other in twins)), None)
        if reason:
            problems.append(Problem(path=directory.path, reason=reason))
            continue
        problems += [
            Problem(
                path=partition,
                reason=f"a live partition that {other.path} of the same broker holds too",
                severity="suspect",
            )
            for other in twins
            for partition in _shared_live_partitions(other, directory)
        ]
        kept.append(directory)
    return tuple(kept), tuple(problems)


def _order(directory: LogDirectory) -> tuple[bool, int, str]:
    return (directory.broker_id is None, directory.broker_id or 0, directory.path)


def _is_same_node(one: LogDirectory, other: LogDirectory) -> bool:
    return one.broker_id is not None and (one.broker_id, one.cluster_id) == (other.broker_id, other.cluster_id)


def _copied_from(kept: LogDirectory, directory: LogDirectory) -> str | None:
    if directory.directory_id is not None and directory.directory_id == kept.directory_id:
        return (
            f"node.id {directory.broker_id} with directory.id {directory.directory_id} is already read from {kept.path}"
        )
    if directory.directory_id is None and kept.directory_id is None and _shared_live_partitions(kept, directory):
        return f"node.id {directory.broker_id} without directory.id holds partitions already read from {kept.path}"
    return None


def _shared_live_partitions(one: LogDirectory, other: LogDirectory) -> list[str]:
    """Paths in the second directory of live partitions that are in both; every node has `__cluster_metadata`."""
    held = {p.topic_partition for p in one.partitions if p.kind is DirectoryKind.LIVE}
    return [p.path for p in other.partitions if p.kind is DirectoryKind.LIVE and p.topic_partition in held]


def _put_together(found: Iterable[LogDirectory]) -> list[LogDirectory]:
    by_path: dict[str, list[LogDirectory]] = {}
    for directory in found:
        by_path.setdefault(directory.path, []).append(directory)
    return [same[0] if len(same) == 1 else _merge(same) for same in by_path.values()]


def _merge(same: Sequence[LogDirectory]) -> LogDirectory:
    """One log directory of which several partitions or files were given."""
    by_path: dict[str, list[PartitionDirectory]] = {}
    for directory in same:
        for partition in directory.partitions:
            by_path.setdefault(partition.path, []).append(partition)
    partitions = [_merge_segments(parts) for parts in by_path.values()]
    partitions.sort(key=lambda p: (p.topic, p.partition, p.kind, p.path))
    return replace(same[0], partitions=tuple(partitions))


def _merge_segments(parts: Sequence[PartitionDirectory]) -> PartitionDirectory:
    segments = {segment.path: segment for partition in parts for segment in partition.segments}
    ordered = sorted(segments.values(), key=lambda s: (s.base_offset is None, s.base_offset or 0, s.path))
    fullest = max(parts, key=lambda partition: len(partition.segments))
    return replace(fullest, segments=tuple(ordered))
