"""Recorded arrivals of a log: its records by producer session, minute and window, packed chunk after chunk.

Records of aborted transactions were load: they are among the others, and counted.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.codec.records.arrival_layout import COUNTS, NO_WINDOW
from pipeline.codec.records.arrivals import ArrivalPacker, BatchTimes, PackedArrivals
from pipeline.codec.records.record_scan import RecordScan
from pipeline.sources.records.batch_rows import TIMESTAMP_TYPES
from pipeline.sources.records.scan_settings import ScanSettings
from pipeline.sources.records.segment_scan import SENSELESS, RecordLog, ScannedSegment


class ArrivalChunks:
    """Packs the records of one log, chunk after chunk; `times` are of exactly the batches of the chunks to come."""

    def __init__(self, log: RecordLog, settings: ScanSettings, times: BatchTimes) -> None:
        self._log, self._times, self._done = log, times, 0
        self._packer = ArrivalPacker(settings.secret, is_clear=log.topic in settings.clear_topics)

    def add(self, scan: RecordScan) -> pa.Table:
        """Packs a chunk, scanned with keys; rows of `CHUNK_SCHEMA`."""
        own = self._times.part(self._done, self._done + len(scan.headers))
        self._done += len(scan.headers)
        # A wrapper that turns out to make no sense only when it is opened is no load.
        countable = ~np.isin(scan.headers.rows["flaw"], SENSELESS)
        return make_chunk(self._log, self._packer.pack(scan, own.where(countable)))


def time_batches(scanned: ScannedSegment, settings: ScanSettings, is_aborted: NDArray[np.bool_]) -> BatchTimes:
    """Times of each batch, for the packer of arrivals."""
    counts = scanned.is_countable & settings.is_wanted(scanned.times.event_time_ms)
    return BatchTimes(
        window_start_ms=np.where(counts, settings.choose_windows(scanned), NO_WINDOW),
        event_time_ms=scanned.times.event_time_ms,
        is_outlier=scanned.times.is_outlier,
        is_aborted=is_aborted,
    )


def make_chunk(log: RecordLog, packed: PackedArrivals) -> pa.Table:
    """Rows of `CHUNK_SCHEMA`, one per group."""
    groups = packed.groups
    ends = np.concatenate([[0], np.cumsum(groups["record_count"])])
    columns: dict[str, Any] = {
        "topic": pa.repeat(pa.scalar(log.topic, pa.string()), len(groups)),
        "topic_id": pa.repeat(pa.scalar(log.topic_id, pa.string()), len(groups)),
        "partition": np.full(len(groups), log.partition, np.int64),
        "timestamp_type": TIMESTAMP_TYPES[groups["is_append_time"]],
        "at_ms": _binaries(ends, packed.at_ms),
        "body_bytes": _binaries(ends, packed.body_bytes),
        "key_number": _binaries(ends if packed.key_number is not None else 0 * ends, packed.key_number),
    }
    numbers = ("window_start_ms", "minute_start_ms", "producer_id", "producer_epoch", "record_count", "first_ms")
    columns |= {name: np.ascontiguousarray(groups[name]) for name in (*numbers, *COUNTS)}
    return pa.table([pa.array(columns[f.name], f.type) for f in CHUNK_SCHEMA], schema=CHUNK_SCHEMA)


def _binaries(ends: NDArray[np.int64], values: NDArray[Any] | None) -> pa.Array:
    held = np.zeros(0, np.int64) if values is None else np.ascontiguousarray(values)
    offsets = (ends * held.itemsize).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(held)])
