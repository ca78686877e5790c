"""A live cluster's batches as Spark frames, and what they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pipeline.sources.live.plan import Shortfall, format_fetches
from pipeline.sources.live.source import BATCH, PROBLEM, RANGE, SOURCE_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.window import TimeWindow
    from pipeline.sources.live.reading import LiveReading


def live_frame(spark: SparkSession, reading: LiveReading) -> DataFrame:
    """Batches, problems and ranges of everything that is to be fetched; see `source`. Each reading of it fetches anew."""
    return (
        spark.read.format(SOURCE_NAME)
        .option("plan", format_fetches(reading.reads))
        .option("source", reading.source.model_dump_json(by_alias=True))
        .option("as_of_ms", str(reading.observed_at_ms))
        .option("spark_partitions", str(spark.sparkContext.defaultParallelism))
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


def live_batches(fetched: DataFrame, span: TimeWindow) -> DataFrame:
    """The batches of the span, in the columns of `kafka_record_batches`."""
    in_span = F.col("event_time_ms").between(span.start_ms, span.end_ms - 1)
    return fetched.where((F.col("row_kind") == BATCH) & in_span).drop(
        "row_kind", "reason", "severity", "first_bytes_hex"
    )
