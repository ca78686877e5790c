"""Contents of a segment in numbers: one row of `inspect`."""

from dataclasses import dataclass

from pipeline.model.log import Problem
from pipeline.model.log_tree import LogDirectory, PartitionDirectory, SegmentFile


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
    ] = ()  # segments that cannot be read; with verification, files that do not fit together
