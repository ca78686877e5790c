"""What a live cluster's partitions got that are not fetched: rows from offsets and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.window import instant_of
from pipeline.sources.live.plan import Shortfall

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pipeline.sources.live.reading import LiveReading

_UNKNOWN_COUNTS = (
    *("control_record_count", "missing_offset_count", "compacted_record_count", "crc_error_count", "producer_count"),
    *("max_lateness_ms", "time_outlier_count"),
)


def offset_summary_rows(reading: LiveReading, window_ms: int) -> list[dict[str, Any]]:
    """What offsets say of each window, as rows of `SUMMARY_SCHEMA`."""
    return [
        {
            "row_kind": "window",
            "path": f"{row.topic}-{row.partition}",
            "topic": row.topic,
            "topic_id": row.topic_id,
            "partition": row.partition,
            "window_start_ms": row.window_start_ms,
            "first_offset": row.first_offset,
            "last_offset": row.end_offset - 1,
            "batch_count": 1,
            "record_count": row.offset_count,
            "max_timestamp_ms": row.window_start_ms + window_ms - 1,
        }
        for row in reading.offset_traffic
    ]


def iter_offset_traffic_rows(
    reading: LiveReading, *, cluster: str, compacted: Collection[str], batch_size_bytes: int
) -> Iterator[dict[str, Any]]:
    """Rows of `silver.partition_traffic` from offsets and sizes; batches are taken as full, the fewest there can be."""
    for row in reading.offset_traffic:
        yield {
            "cluster": cluster,
            "window_start": instant_of(row.window_start_ms),
            "topic": row.topic,
            "topic_id": row.topic_id,
            "partition": row.partition,
            "leader_id": row.leader_id,
            "leader_epoch": row.leader_epoch,
            "record_count": row.offset_count,
            "batch_count": -(-row.size_bytes // batch_size_bytes),
            "size_bytes": row.size_bytes,
            "first_offset": row.first_offset,
            "last_offset": row.end_offset - 1,
            "covered_offset_count": row.end_offset - row.first_offset,
            "is_compacted": row.topic in compacted,
            "batch_bytes_squared": float(row.size_bytes * batch_size_bytes),
            "count_kind": "upper_bound",
            "sampling_rate": 0.0,
            **dict.fromkeys(_UNKNOWN_COUNTS, 0),
        }


def list_shortfalls(summaries: Iterable[Mapping[str, Any]]) -> tuple[Shortfall, ...]:
    """Ranges that could not be read whole, from rows of `SUMMARY_SCHEMA`."""
    lost = [row for row in summaries if row["row_kind"] == "shortfall"]
    lost.sort(key=lambda row: (row["topic"], row["partition"], row["reason"]))
    return tuple(Shortfall(topic=row["topic"], partition=row["partition"], reason=row["reason"]) for row in lost)
