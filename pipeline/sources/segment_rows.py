"""Segment files as rows of `bronze.log_segments`, before anything was read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.log_tree import DirectoryKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pipeline.model.log_tree import LogTree

KEY = ("broker_id", "log_directory", "topic", "topic_id", "partition", "base_offset")


def iter_segment_rows(
    cluster: str,
    tree: LogTree,
    read_paths: Collection[str],
    retention_ms: Mapping[str, int],
    relative: Callable[[str], str],
) -> Iterator[dict[str, Any]]:
    """One row per segment file of a live replica.

    Args:
        cluster: Name in the configuration.
        tree: What was found.
        read_paths: Files whose batches this run read.
        retention_ms: `retention.ms` by topic, where it is known and the topic is not compacted.
        relative: Shortens a path to what it is under its source root.
    """
    for directory, partition, segment in tree.iter_segments(kind=DirectoryKind.LIVE):
        yield {
            "cluster": cluster,
            "broker_id": -1 if directory.broker_id is None else directory.broker_id,
            "log_directory": relative(directory.path),
            "topic": partition.topic,
            "topic_id": partition.topic_id or "",
            "partition": partition.partition,
            "base_offset": segment.base_offset or 0,
            "path": relative(segment.path),
            "absolute_path": segment.path,
            "size_bytes": segment.size_bytes,
            "is_scanned": segment.path in read_paths,
            "is_active": segment.is_active,
            "retention_ms": None if segment.is_active else retention_ms.get(partition.topic),
        }
