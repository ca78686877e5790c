"""Segment files as they are listed: input of `bronze.log_segments`."""

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree

LISTED_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("found_at", "log_directory", "topic", "topic_id", "path")),
        *((name, pa.int64()) for name in ("broker_id", "partition", "base_offset", "size_bytes", "kept_ms")),
        ("is_active", pa.bool_()),
    ]
)
"""A segment file as it is listed; `kept_ms` is its `retention.ms`, where known and neither active nor compacted."""


def list_segments(
    retention_ms: Mapping[str, int], relative: Callable[[str], str], directory: LogDirectory
) -> Iterator[pa.Table]:
    """Kernel: the segment files of a log directory's live replicas; `retention_ms` is by topic."""
    rows = [
        {
            "found_at": segment.path,
            "broker_id": -1 if directory.broker_id is None else directory.broker_id,
            "log_directory": relative(directory.path),
            "topic": partition.topic,
            "topic_id": partition.topic_id or "",
            "partition": partition.partition,
            "base_offset": segment.base_offset or 0,
            "path": relative(segment.path),
            "size_bytes": segment.size_bytes,
            "is_active": segment.is_active,
            "kept_ms": None if segment.is_active else retention_ms.get(partition.topic),
        }
        for _, partition, segment in LogTree(directories=(directory,)).iter_segments(kind=DirectoryKind.LIVE)
    ]
    yield pa.Table.from_pylist(rows, LISTED_SCHEMA)
