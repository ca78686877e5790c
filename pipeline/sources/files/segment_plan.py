"""Which segment files a run reads: of each partition the leader's log, else the longest; not those that ended well before the span."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pipeline.codec.log.index_files import read_time_index
from pipeline.errors import InputError
from pipeline.model.log import TopicPartition, fits_topics
from pipeline.model.log_tree import DirectoryKind, LogDirectory, LogTree, PartitionDirectory, SegmentFile
from pipeline.model.window import TimeWindow
from pipeline.sources.records.event_time import TOLERANCE_MS

_OPENING_BYTES = 4096  # what opening a file or range costs, in bytes that could be read instead


class _Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


Read = TypeVar("Read", bound=_Sized)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRead:
    path: str
    size_bytes: int  # its size at discovery: bytes appended later are left to a later run
    broker_id: int  # broker on whose disk it was found; -1 unknown
    log_directory: str
    topic: str
    topic_id: str
    partition: int
    base_offset: int
    next_base_offset: int  # base offset of the partition's next segment with batches, or the active one; -1 for that
    high_watermark: int  # offsets from here on are not committed; -1 unknown
    is_active: bool


def choose_replicas(
    tree: LogTree, leaders: Mapping[TopicPartition, int], topics: Collection[str] = ()
) -> tuple[tuple[LogDirectory, PartitionDirectory], ...]:
    """Picks the one replica of each live partition of `topics` that is counted: the leader's, else the longest log."""
    copies: dict[TopicPartition, list[tuple[LogDirectory, PartitionDirectory]]] = defaultdict(list)
    for directory, partition in tree.iter_partitions(kind=DirectoryKind.LIVE):
        # the metadata log is no load of a broker
        if not partition.is_cluster_metadata and fits_topics(partition.topic, topics):
            copies[partition.topic_partition].append((directory, partition))

    def rank(copy: tuple[LogDirectory, PartitionDirectory]) -> tuple[bool, int, int, int]:
        broker_id = -1 if copy[0].broker_id is None else copy[0].broker_id
        return leaders.get(copy[1].topic_partition) == broker_id, *copy[1].length, -broker_id

    return tuple(max(copies[key], key=rank) for key in sorted(copies))


def plan_reads(
    replicas: Iterable[tuple[LogDirectory, PartitionDirectory]], span: TimeWindow | None = None
) -> tuple[SegmentRead, ...]:
    return tuple(
        _segment_read(directory, partition, index)
        for directory, partition in replicas
        for index, segment in enumerate(partition.segments)
        if segment.size_bytes and (span is None or _may_hold(segment, span))
    )


def _segment_read(directory: LogDirectory, partition: PartitionDirectory, index: int) -> SegmentRead:
    segment = partition.segments[index]
    later = [one for one in partition.segments[index + 1 :] if one.size_bytes or one.is_active]
    return SegmentRead(
        path=segment.path,
        size_bytes=segment.size_bytes,
        broker_id=-1 if directory.broker_id is None else directory.broker_id,
        log_directory=directory.path,
        topic=partition.topic,
        topic_id=partition.topic_id or "",
        partition=partition.partition,
        base_offset=segment.base_offset or 0,
        next_base_offset=-1 if not later or later[0].base_offset is None else later[0].base_offset,
        high_watermark=directory.high_watermarks.get(partition.topic_partition, -1),
        is_active=segment.is_active,
    )


def _may_hold(segment: SegmentFile, span: TimeWindow) -> bool:
    """False only where the time index shows that the segment ended well before the span."""
    if segment.is_active or segment.time_index_path is None:
        return True
    try:
        stamps = read_time_index(Path(segment.time_index_path), segment.base_offset or 0).timestamp_ms
    except (InputError, OSError):
        return True
    return stamps.size == 0 or int(stamps[-1]) >= span.start_ms - TOLERANCE_MS


def pack(
    reads: Sequence[Read], target_bytes: int, least: int, order: Callable[[Read], Any]
) -> tuple[tuple[Read, ...], ...]:
    """Groups for Spark's tasks of about `target_bytes`, at least `least`: the largest first, each to the smallest group; then in `order`."""
    total_bytes = sum(read.size_bytes for read in reads)
    count = min(len(reads), max(least, -(-total_bytes // target_bytes)))
    groups, sizes = list[list[Read]]([] for _ in range(count)), [0] * count
    for read in sorted(reads, key=lambda read: (-read.size_bytes, order(read))):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(read)
        sizes[smallest] += read.size_bytes + _OPENING_BYTES
    return tuple(tuple(sorted(group, key=order)) for group in groups if group)
