"""Brokers' disks: log directories, partition directories, segment files, and what a reading of them finds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.model.log import OfPartition, Problem, TopicPartition

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""The KRaft quorum's own log: in every node's directory, never a load of a broker."""
KAFKA_TOPICS = frozenset({CLUSTER_METADATA_TOPIC, "__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that brokers write themselves. Any client may make others whose names begin alike."""


class DirectoryKind(StrEnum):
    """Kind of a partition directory, by the ending of its name."""

    LIVE = "live"
    DELETE = "delete"
    STRAY = "stray"
    FUTURE = "future"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpoch:
    """A line of `leader-epoch-checkpoint`: the first offset written in a leader epoch."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    path: str
    base_offset: int | None  # from the file name; None where a file outside a partition directory has another name
    size_bytes: int
    index_path: str | None = None
    time_index_path: str | None = None
    txn_index_path: str | None = None
    is_active: bool = False  # the segment with the highest base offset of its directory, the one a broker appends to


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory(OfPartition):
    path: str
    kind: DirectoryKind = DirectoryKind.LIVE
    is_topic_truncated: bool = False  # Kafka cut the topic's name in one that ends in `-delete`, `-stray` or `-future`
    topic_id: str | None = None  # from `partition.metadata` (base64 uuid), None before Kafka 2.8
    segments: tuple[SegmentFile, ...] = ()  # by base offset; the last one is the active one
    snapshot_paths: tuple[str, ...] = ()
    metadata_snapshot_paths: tuple[str, ...] = ()  # `<offset>-<epoch>.checkpoint` of `__cluster_metadata`, by offset
    leader_epochs: tuple[LeaderEpoch, ...] = ()  # from `leader-epoch-checkpoint`, oldest first; empty where absent

    @property
    def is_cluster_metadata(self) -> bool:
        return self.topic == CLUSTER_METADATA_TOPIC

    @property
    def length(self) -> tuple[int, int]:
        """Base offset (-1: no segment) and size of the last segment: of two copies of a log the longer one is greater."""
        last = self.segments[-1] if self.segments else None
        return (-1, 0) if last is None else (last.base_offset or 0, last.size_bytes)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """One disk of one broker: an entry of `log.dirs`."""

    path: str
    broker_id: int | None = None  # `node.id` or `broker.id` of `meta.properties`; None where that file is absent
    directory_id: str | None = None  # `directory.id`, None before Kafka 3.7
    cluster_id: str | None = None  # `cluster.id`, None in files of ZooKeeper-era brokers; clusters may share one
    partitions: tuple[PartitionDirectory, ...] = ()  # by topic, then partition, then kind
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)  # `replication-offset-checkpoint`
    log_start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # of those moved by a deletion
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)  # up to which the log was flushed
    cleaner_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # first not yet cleaned by compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTree:
    # by broker, then path; a partition directory or a file given alone sits in a log directory of its own
    directories: tuple[LogDirectory, ...] = ()
    problems: tuple[Problem, ...] = ()  # what was refused or is doubtful; the rest is in `directories` all the same

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted({d.broker_id for d in self.directories if d.broker_id is not None}))

    def iter_partitions(
        self, *, kind: DirectoryKind | None = None
    ) -> Iterator[tuple[LogDirectory, PartitionDirectory]]:
        for directory in self.directories:
            for partition in directory.partitions:
                if kind is None or partition.kind is kind:
                    yield directory, partition


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentKey:
    key: bytes
    record_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSummary:
    """Figures that need the records decoded. Control records are not counted."""

    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    null_key_count: int = 0  # records without a key (an empty key is one)
    distinct_key_count: int = 0  # different keys, distinguished by a 64-bit hash
    tombstone_count: int = 0  # records with a null value
    key_bytes: int = 0
    value_bytes: int = 0
    header_count: int = 0
    top_keys: tuple[FrequentKey, ...] = ()  # the most frequent keys, at most ten, the first seen first among equals


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderSums:
    """Totals over batch headers; over usable batches where nothing else is said."""

    damaged_batch_count: int  # those that cannot be used: wrong checksum, impossible counts, records that do not parse
    crc_error_count: int  # those of them whose checksum does not match
    record_count: int  # records, control records included
    control_batch_count: int
    missing_offset_count: int  # offsets between batches that no batch covers
    min_timestamp_ms: int | None  # smallest timestamp in the headers (the first record's of each batch), or None
    max_timestamp_ms: int | None
    magics: tuple[int, ...]  # formats of all batches, ascending
    codecs: tuple[str, ...]
    producer_ids: tuple[int, ...]  # ascending, -1 (none) left out


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary(HeaderSums):
    """Totals over the batches of a segment; of a deep scan, the smallest timestamp is that of the records."""

    directory: LogDirectory
    partition: PartitionDirectory
    segment: SegmentFile
    batch_count: int  # whole batches found, damaged ones included (magic 0 and 1: messages or compressed wrappers)
    size_bytes: int
    first_offset: int | None  # base offset of the first batch; None without batches
    last_offset: int | None  # last offset of the last batch, as its header has it
    records: RecordSummary | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether anything can be used; an empty segment can: it says that nothing was written."""
        return self.batch_count > self.damaged_batch_count or not any(p.severity == "refused" for p in self.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    directory: LogDirectory
    partition: PartitionDirectory
    segments: tuple[SegmentSummary, ...]
    records: RecordSummary | None = None
    problems: tuple[
        Problem, ...
    ] = ()  # of segments that cannot be read; if verified, of files that do not fit together
