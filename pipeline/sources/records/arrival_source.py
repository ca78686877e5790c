"""Spark data source `kafka_arrivals`: recorded arrivals, packed, per segment chunk, producer session, minute and window.

It reads the files that `kafka_record_batches` reads, with the same plan, and every record in them. Keys leave the Python
worker as numbers of their ids, if at all.

Options: `plan` (from `format_plan`), `spark_partitions`, those of `record_options`, and `slices` (of a sampled source the
times that are read, as JSON).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.codec.records.arrival_layout import COUNTS
from pipeline.model.window import TimeWindow
from pipeline.sources.records.arrival_scan import ArrivalScanSettings, iter_arrivals
from pipeline.sources.records.arrow_source import ArrowSource
from pipeline.sources.records.record_batches import TIMESTAMP_TYPES
from pipeline.sources.records.record_options import read_record_options
from pipeline.sources.records.segment_reader import SegmentReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from pipeline.codec.records.arrivals import PackedArrivals
    from pipeline.sources.files.segment_plan import SegmentRead
    from pipeline.sources.records.key_rows import RecordLog

SOURCE_NAME = "kafka_arrivals"
"""Rows are those of `CHUNK_SCHEMA`."""
SLICES = "slices"


def read_settings(options: Mapping[str, str]) -> ArrivalScanSettings:
    """What the options say, with the secret taken up: on the driver.

    Raises:
        ConfigError: There is no secret.
    """
    told = read_record_options(options)
    return ArrivalScanSettings(
        scan=told.scan,
        secret=told.secret,
        clear_topics=told.clear_topics,
        slices=tuple(TimeWindow(*piece) for piece in json.loads(options[SLICES])),
    )


def make_chunk(read: RecordLog, packed: PackedArrivals) -> pa.RecordBatch:
    """Rows of `CHUNK_SCHEMA`, one per group.

    Args:
        read: Where they were read.
        packed: At least one group.
    """
    groups = packed.groups
    ends = np.concatenate([[0], np.cumsum(groups["record_count"])])
    columns: dict[str, Any] = {
        "topic": pa.repeat(pa.scalar(read.topic, pa.string()), len(groups)),
        "topic_id": pa.repeat(pa.scalar(read.topic_id, pa.string()), len(groups)),
        "partition": np.full(len(groups), read.partition, np.int64),
        "timestamp_type": TIMESTAMP_TYPES[groups["is_append_time"]],
        "at_ms": _binaries(ends, packed.at_ms),
        "body_bytes": _binaries(ends, packed.body_bytes),
        "key_number": _binaries(ends if packed.key_number is not None else 0 * ends, packed.key_number),
    }
    numbers = ("window_start_ms", "minute_start_ms", "producer_id", "producer_epoch", "record_count", "first_ms")
    columns |= {name: np.ascontiguousarray(groups[name]) for name in (*numbers, *COUNTS)}
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in CHUNK_SCHEMA], schema=CHUNK_SCHEMA)


def _binaries(ends: NDArray[np.int64], values: NDArray[Any] | None) -> pa.Array:
    held = np.zeros(0, np.int64) if values is None else np.ascontiguousarray(values)
    offsets = (ends * held.itemsize).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(held)])


class ArrivalReader(SegmentReader):
    """Scans the plan's segments in Python workers."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._settings = read_settings(options)

    def read_segment(self, read: SegmentRead) -> Iterator[pa.RecordBatch]:
        """Yields the rows of each chunk."""
        for packed in iter_arrivals(read, self._settings):
            yield make_chunk(read, packed)


class ArrivalSource(ArrowSource):
    """The data source as Spark knows it."""

    source_name = SOURCE_NAME
    rows = CHUNK_SCHEMA
    reader_type = ArrivalReader
