"""Spark data source `kafka_record_batches`: the record batches of segment files, as Arrow record batches.

Filters on `topic`, `partition` and `event_time_ms` are pushed down: into the list of files, and before rows leave
Python. What a scan found wrong, and what a file holds as a whole, `kafka_segment_summaries` tells.

Options: `plan` (from `format_plan`) or `path` (a source root to discover), `as_of_ms`, `spark_partitions`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan

from pipeline.model.log import Codec
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.segment_plan import SegmentRead, choose_replicas, plan_reads
from pipeline.sources.records.arrow_source import ArrowSource
from pipeline.sources.records.segment_reader import SegmentReader
from pipeline.sources.records.segment_scan import ScannedSegment, scan_segment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pipeline.codec.log.scans import HeaderScan

SOURCE_NAME = "kafka_record_batches"
CODECS = np.array([codec.name.lower() for codec in Codec] + ["unknown"] * (8 - len(Codec)))
TIMESTAMP_TYPES = np.array(["CreateTime", "LogAppendTime"])

_SEGMENT_FIELDS = (
    ("broker_id", pa.int64()),
    ("topic", pa.string()),
    ("topic_id", pa.string()),
    ("partition", pa.int64()),
    ("segment_base_offset", pa.int64()),
)
_BATCH_FIELDS = (
    ("position", pa.int64()),
    ("size_bytes", pa.int64()),
    ("base_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("leader_epoch", pa.int64()),
    ("magic", pa.int64()),
    ("codec", pa.string()),
    ("timestamp_type", pa.string()),
    ("is_transactional", pa.bool_()),
    ("is_control", pa.bool_()),
    ("base_timestamp_ms", pa.int64()),
    ("max_timestamp_ms", pa.int64()),
    ("event_time_ms", pa.int64()),
    ("is_time_outlier", pa.bool_()),
    ("lateness_ms", pa.int64()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int64()),
    ("base_sequence", pa.int64()),
    ("record_count", pa.int64()),
    ("missing_offset_count", pa.int64()),
    ("is_crc_ok", pa.bool_()),
    ("is_committed", pa.bool_()),
)
ARROW_SCHEMA = pa.schema([*_SEGMENT_FIELDS, *_BATCH_FIELDS])


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What was pushed down: topics and partitions wanted (None: all) and the range of event times."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    def wants(self, read: SegmentRead) -> bool:
        """Whether a segment can hold wanted rows."""
        return (self.topics is None or read.topic in self.topics) and (
            self.partitions is None or read.partition in self.partitions
        )

    def mask(self, event_time_ms: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which batches are wanted."""
        keep = np.ones(event_time_ms.shape, dtype=np.bool_)
        if self.start_ms is not None:
            keep &= event_time_ms >= self.start_ms
        if self.end_ms is not None:
            keep &= event_time_ms < self.end_ms
        return keep


class RecordBatchReader(SegmentReader):
    """Plans the segments and yields their rows; runs in Python workers only."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._as_of_ms = int(options.get("as_of_ms", str(np.iinfo(np.int64).max >> 1)))
        self._filter = RowFilter()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Takes equality on topic and partition and the half-open range of event times; hands back the rest."""
        topics, partitions, start_ms, end_ms = None, None, None, None
        for item in filters:
            match item:
                case EqualTo(("topic",), str(topic)) if topics is None:
                    topics = frozenset({topic})
                case In(("topic",), values) if topics is None:
                    topics = frozenset(values)
                case EqualTo(("partition",), int(partition)) if partitions is None:
                    partitions = frozenset({partition})
                case GreaterThanOrEqual(("event_time_ms",), int(bound)) if start_ms is None:
                    start_ms = bound
                case LessThan(("event_time_ms",), int(bound)) if end_ms is None:
                    end_ms = bound
                case _:
                    yield item
        self._filter = RowFilter(topics, partitions, start_ms, end_ms)

    def choose_reads(self) -> Sequence[SegmentRead]:
        """Those of the plan, else all that lie under the path, as far as they can hold wanted rows."""
        reads = super().choose_reads() if "plan" in self._options else _discover(self._options["path"])
        return [read for read in reads if self._filter.wants(read)]

    def read_segment(self, read: SegmentRead) -> Iterator[pa.RecordBatch]:
        """Scans a segment; one that cannot be read has no rows here and a problem in the summaries."""
        scanned = scan_segment(read, self._as_of_ms)
        if isinstance(scanned, ScannedSegment):
            rows = _rows_of_segment(read, scanned, self._filter.mask(scanned.times.event_time_ms))
            if rows.num_rows:
                yield rows


class RecordBatchSource(ArrowSource):
    """The data source as Spark knows it."""

    source_name = SOURCE_NAME
    rows = ARROW_SCHEMA
    reader_type = RecordBatchReader


def _header_columns(scan: HeaderScan) -> dict[str, NDArray[Any]]:
    base_timestamp = np.where(scan.has_delete_horizon, -1, scan.rows["base_timestamp_ms"])
    direct = ("position", "size_bytes", "base_offset", "last_offset", "magic", "producer_id", "producer_epoch")
    return {
        **{name: scan.rows[name] for name in (*direct, "base_sequence", "record_count", "max_timestamp_ms")},
        "leader_epoch": scan.rows["partition_leader_epoch"],
        "base_timestamp_ms": base_timestamp,
        "codec": CODECS[scan.codec],
        "timestamp_type": TIMESTAMP_TYPES[scan.timestamp_type],
        "is_transactional": scan.is_transactional,
        "is_control": scan.is_control,
        "is_crc_ok": scan.crc_ok,
    }


def _rows_of_segment(read: SegmentRead, scanned: ScannedSegment, keep: NDArray[np.bool_]) -> pa.RecordBatch:
    return batch_rows(
        scanned,
        scanned.is_countable & keep,
        broker_id=read.broker_id,
        topic=read.topic,
        topic_id=read.topic_id,
        partition=read.partition,
        segment_base_offset=read.base_offset,
    )


def batch_rows(
    scanned: ScannedSegment,
    keep: NDArray[np.bool_],
    *,
    broker_id: int,
    topic: str,
    topic_id: str,
    partition: int,
    segment_base_offset: int,
) -> pa.RecordBatch:
    """Rows of `ARROW_SCHEMA` for some batches of a scan.

    Args:
        scanned: The batches.
        keep: Which of them.
        broker_id: Broker they were read from.
        topic: Topic.
        topic_id: Topic id, or "".
        partition: Partition.
        segment_base_offset: Of the file, or the first offset of the range read.
    """
    constants = {
        "broker_id": broker_id,
        "topic": topic,
        "topic_id": topic_id,
        "partition": partition,
        "segment_base_offset": segment_base_offset,
    }
    columns = {
        **_header_columns(scanned.headers),
        "event_time_ms": scanned.times.event_time_ms,
        "is_time_outlier": scanned.times.is_outlier,
        "lateness_ms": scanned.times.lateness_ms,
        "missing_offset_count": scanned.missing_offset_count,
        "is_committed": scanned.is_committed,
    }
    count = int(keep.sum())
    arrays = [
        pa.repeat(pa.scalar(constants[field.name], field.type), count)
        if field.name in constants
        else pa.array(columns[field.name][keep]).cast(field.type)
        for field in ARROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _discover(path: str) -> tuple[SegmentRead, ...]:
    return plan_reads(choose_replicas(discover_logs([path]), leaders={}))
