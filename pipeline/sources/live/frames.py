"""A live cluster's batches as Spark frames, and what they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.sources.live.plan import Shortfall, format_fetches
from pipeline.sources.live.source import ARRIVAL, BATCH, KEY, PROBLEM, RANGE, SOURCE_NAME
from pipeline.sources.records.packed_keys import PACKED_SCHEMA
from pipeline.sources.records.record_batches import ARROW_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.sources.live.reading import LiveReading


_OFFSET_TRAFFIC = (
    "cluster string, window_start_ms bigint, topic string, topic_id string, partition bigint, leader_id bigint, "
    "leader_epoch bigint, record_count bigint, batch_count bigint, size_bytes bigint, first_offset bigint, "
    "last_offset bigint, is_compacted boolean, batch_bytes_squared double"
)
_UNKNOWN_COUNTS = (
    *("control_record_count", "missing_offset_count", "compacted_record_count", "crc_error_count", "producer_count"),
    *("max_lateness_ms", "time_outlier_count"),
)


def live_frame(spark: SparkSession, reading: LiveReading, wanted: Mapping[str, str] | None = None) -> DataFrame:
    """Batches, problems, ranges, keys and arrivals of everything that is to be fetched; see `source`. Read twice, it fetches twice.

    Args:
        spark: Session.
        reading: The plan.
        wanted: What to count of keys, from `key_frames.key_options`, and what to read of arrivals, from
            `arrival_frames.arrival_options`; nothing by default.
    """
    return (
        spark.read.format(SOURCE_NAME)
        .option("plan", format_fetches(reading.reads))
        .option("source", reading.source.model_dump_json(by_alias=True))
        .option("as_of_ms", str(reading.observed_at_ms))
        .option("spark_partitions", str(spark.sparkContext.defaultParallelism))
        .options(**(wanted or {}))
        .load()
    )


def live_summary_rows(fetched: DataFrame, window_ms: int) -> list[dict[str, Any]]:
    """What the fetched batches give each window, and what was wrong: rows as of `kafka_segment_summaries`.

    Args:
        fetched: From `live_frame`, cached.
        window_ms: Length of a window.
    """
    event_time = F.col("event_time_ms")
    is_counted = (F.col("row_kind") == BATCH) & F.col("is_committed") & (event_time >= 0)
    windows = (
        fetched.where(is_counted)
        .groupBy("topic", "topic_id", "partition", (event_time - event_time % window_ms).alias("window_start_ms"))
        .agg(
            F.min("base_offset").alias("first_offset"),
            F.max("last_offset").alias("last_offset"),
            F.count("*").alias("batch_count"),
            F.sum(F.when(F.col("is_control"), 0).otherwise(F.col("record_count"))).alias("record_count"),
            F.max(event_time).alias("max_timestamp_ms"),
        )
        .toArrow()
        .to_pylist()
    )
    problems = (
        fetched.where(F.col("row_kind") == PROBLEM)
        .select(
            *("topic", "topic_id", "partition", "position", "reason", "severity", "first_bytes_hex"),
            F.concat_ws("-", "topic", "partition").alias("path"),
        )
        .toArrow()
        .to_pylist()
    )
    return [
        *({"row_kind": "window", "path": f"{row['topic']}-{row['partition']}", **row} for row in windows),
        *({"row_kind": "problem", **row} for row in problems),
    ]


def offset_summary_rows(reading: LiveReading, window_ms: int) -> list[dict[str, Any]]:
    """What is told by offsets of each window, as of `kafka_segment_summaries`."""
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


def offset_traffic_frame(
    spark: SparkSession, reading: LiveReading, *, cluster: str, compacted: Collection[str], batch_size_bytes: int
) -> DataFrame:
    """Rows of `silver.partition_traffic` from offsets and sizes; batches are taken as full ones, the fewest there can be.

    Args:
        spark: Session.
        reading: What was looked up.
        cluster: Name in the configuration.
        compacted: Compacted topics.
        batch_size_bytes: The producers' `batch.size`.
    """
    rows = [
        (
            *(cluster, row.window_start_ms, row.topic, row.topic_id, row.partition, row.leader_id, row.leader_epoch),
            *(row.offset_count, -(-row.size_bytes // batch_size_bytes), row.size_bytes),
            *(row.first_offset, row.end_offset - 1, row.topic in compacted, float(row.size_bytes * batch_size_bytes)),
        )
        for row in reading.offset_traffic
    ]
    zero = F.lit(0).cast("bigint")
    return spark.createDataFrame(rows, _OFFSET_TRAFFIC).select(
        *("cluster", F.timestamp_millis("window_start_ms").alias("window_start")),
        *("topic", "topic_id", "partition", "leader_id", "leader_epoch", "record_count"),
        *("batch_count", "size_bytes", "first_offset", "last_offset", "is_compacted", "batch_bytes_squared"),
        (F.col("last_offset") - F.col("first_offset") + 1).alias("covered_offset_count"),
        *(zero.alias(name) for name in _UNKNOWN_COUNTS),
        F.lit("upper_bound").alias("count_kind"),
        F.lit(0.0).alias("sampling_rate"),
    )


def live_shortfalls(fetched: DataFrame) -> tuple[Shortfall, ...]:
    """Ranges that could not be read whole.

    Args:
        fetched: From `live_frame`, cached.
    """
    rows = fetched.where((F.col("row_kind") == RANGE) & F.col("reason").isNotNull())
    return tuple(
        Shortfall(topic=row["topic"], partition=row["partition"], reason=row["reason"])
        for row in rows.select("topic", "partition", "reason").sort("topic", "partition", "reason").collect()
    )


def live_batches(fetched: DataFrame, reading: LiveReading) -> DataFrame:
    """The batches of the run's windows, or of their slices, in the columns of `kafka_record_batches`."""
    in_span = F.lit(False)  # noqa: FBT003  (a literal column)
    for piece in reading.slices:
        in_span = in_span | F.col("event_time_ms").between(piece.start_ms, piece.end_ms - 1)
    return fetched.where((F.col("row_kind") == BATCH) & in_span).select(*ARROW_SCHEMA.names)


def live_arrivals(fetched: DataFrame) -> DataFrame:
    """What was packed of arrivals, in the columns of `kafka_arrivals`."""
    return fetched.where(F.col("row_kind") == ARRIVAL).select(*CHUNK_SCHEMA.names)


def live_keys(fetched: DataFrame) -> DataFrame:
    """What was counted of keys, in the columns of `kafka_key_counts`."""
    return fetched.where(F.col("row_kind") == KEY).select(*PACKED_SCHEMA.names)
