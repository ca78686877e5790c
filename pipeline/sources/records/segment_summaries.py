"""Spark data source `kafka_segment_summaries`: what each segment file holds, without its batches.

Few rows, so that the driver can take them all: of kind `segment` (one per file: the scanned columns of
`bronze.log_segments`), `window` (one per file and window: offsets and batches, to see what a run covers before it
writes) and `problem`. It reads the files that `kafka_record_batches` reads, with the same plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.codec.log.header_sums import sum_headers
from pipeline.model.log import Problem
from pipeline.sources.records.arrow_source import ArrowSource
from pipeline.sources.records.segment_reader import SegmentReader
from pipeline.sources.records.segment_scan import ScannedSegment, scan_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.sources.files.segment_plan import SegmentRead

SOURCE_NAME = "kafka_segment_summaries"
SCHEMA = pa.schema(
    [
        ("row_kind", pa.string()),
        ("path", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int64()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("min_timestamp_ms", pa.int64()),
        ("max_timestamp_ms", pa.int64()),
        ("batch_count", pa.int64()),
        ("record_count", pa.int64()),
        ("control_batch_count", pa.int64()),
        ("missing_offset_count", pa.int64()),
        ("producer_id_count", pa.int64()),
        ("crc_error_count", pa.int64()),
        ("magic", pa.string()),
        ("codecs", pa.string()),
        ("window_start_ms", pa.int64()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("severity", pa.string()),
        ("first_bytes_hex", pa.string()),
    ]
)


class SegmentSummaryReader(SegmentReader):
    """Scans the plan's segments in Python workers."""

    def read_segment(self, read: SegmentRead) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one segment; of one that cannot be read what is wrong with it."""
        scanned = scan_segment(read, int(self._options["as_of_ms"]))
        if isinstance(scanned, Problem):
            rows = [_problem_row(read, scanned)]
        else:
            problems = [_problem_row(read, problem) for problem in scanned.problems]
            windows = _window_rows(read, scanned, int(self._options["window_ms"]))
            rows = [*problems, _segment_row(read, scanned), *windows]
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class SegmentSummarySource(ArrowSource):
    """The data source as Spark knows it; options `plan`, `as_of_ms`, `window_ms`, `spark_partitions`."""

    source_name = SOURCE_NAME
    rows = SCHEMA
    reader_type = SegmentSummaryReader


def _head(read: SegmentRead, row_kind: str) -> dict[str, Any]:
    return {
        "row_kind": row_kind,
        "path": read.path,
        "topic": read.topic,
        "topic_id": read.topic_id,
        "partition": read.partition,
    }


def _problem_row(read: SegmentRead, problem: Problem) -> dict[str, Any]:
    return {
        **_head(read, "problem"),
        "position": problem.position,
        "reason": problem.reason,
        "severity": problem.severity,
        "first_bytes_hex": problem.first_bytes.hex(),
    }


def _segment_row(read: SegmentRead, scanned: ScannedSegment) -> dict[str, Any]:
    sums, rows = sum_headers(scanned.headers), scanned.headers.rows
    return {
        **_head(read, "segment"),
        "first_offset": _least(rows["base_offset"]),
        "last_offset": _most(rows["last_offset"]),
        "min_timestamp_ms": sums.min_timestamp_ms,
        "max_timestamp_ms": sums.max_timestamp_ms,
        "batch_count": len(rows),
        "record_count": sums.record_count,
        "control_batch_count": sums.control_batch_count,
        "missing_offset_count": int(scanned.missing_offset_count.sum()),
        "producer_id_count": len(sums.producer_ids),
        "crc_error_count": sums.crc_error_count,
        "magic": ",".join(str(magic) for magic in sums.magics),
        "codecs": ",".join(sums.codecs),
    }


def _window_rows(read: SegmentRead, scanned: ScannedSegment, window_ms: int) -> list[dict[str, Any]]:
    """What the segment gives each window: committed batches, their offsets and data records."""
    headers, event_time_ms = scanned.headers, scanned.times.event_time_ms
    counted = scanned.is_committed & scanned.is_countable & (event_time_ms >= 0)
    starts = event_time_ms - event_time_ms % window_ms
    out = []
    for start_ms in np.unique(starts[counted]).tolist():
        chosen = headers.rows[counted & (starts == start_ms)]
        is_data = ~headers.is_control[counted & (starts == start_ms)]
        out.append(
            {
                **_head(read, "window"),
                "window_start_ms": start_ms,
                "first_offset": _least(chosen["base_offset"]),
                "last_offset": _most(chosen["last_offset"]),
                "batch_count": len(chosen),
                "record_count": int(chosen["record_count"][is_data].sum(dtype=np.int64)),
                "max_timestamp_ms": _most(event_time_ms[counted & (starts == start_ms)]),
            }
        )
    return out


def _least(values: NDArray[Any]) -> int | None:
    return int(values.min()) if values.size else None


def _most(values: NDArray[Any]) -> int | None:
    return int(values.max()) if values.size else None
