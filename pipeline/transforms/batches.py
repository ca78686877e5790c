"""From the rows of `kafka_record_batches` to `silver.record_batches`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def instant(milliseconds: Column) -> Column:
    """Turns UTC milliseconds into a TIMESTAMP; negative ones (Kafka's "none") into NULL."""
    return F.when(milliseconds >= 0, F.timestamp_millis(milliseconds))


def with_window(rows: DataFrame, window_ms: int) -> DataFrame:
    """Adds `window_start`, the start of the window that holds the row's `event_time_ms`."""
    event_time = F.col("event_time_ms")
    return rows.withColumn("window_start", instant(event_time - event_time % window_ms))


def with_leader(rows: DataFrame, leader_epochs: DataFrame) -> DataFrame:
    """Adds `leader_id`: who led at the batch's leader epoch, else who leads now, else -1.

    Args:
        rows: Batches with `topic`, `topic_id`, `partition`, `leader_epoch`.
        leader_epochs: One row per topic-partition and leader epoch: `topic`, `topic_id`, `partition`, `leader_epoch`,
            `leader_id`, `is_current`. A topic made anew under its old name has an id and epochs of its own.
    """
    epoch_key = ["topic", "topic_id", "partition", "leader_epoch"]
    of_epoch = leader_epochs.select(*epoch_key, F.col("leader_id").alias("epoch_leader_id"))
    current = leader_epochs.where("is_current").select(
        "topic", "partition", F.col("leader_id").alias("current_leader_id")
    )
    return (
        rows.join(F.broadcast(of_epoch), epoch_key, "left")
        .join(F.broadcast(current), ["topic", "partition"], "left")
        .withColumn("leader_id", F.coalesce("epoch_leader_id", "current_leader_id", F.lit(-1)))
        .drop("epoch_leader_id", "current_leader_id")
    )


def as_record_batches(batches: DataFrame, cluster: str) -> DataFrame:
    """Selects the columns of `silver.record_batches`; offsets that are not committed yet are left to a later run.

    Args:
        batches: Rows of kind `batch` with window and leader.
        cluster: Cluster name in the configuration.
    """
    return batches.where("is_committed AND window_start IS NOT NULL").select(
        F.lit(cluster).alias("cluster"),
        *("window_start", "topic", "topic_id", "partition", "base_offset", "last_offset", "leader_id", "leader_epoch"),
        *("record_count", "size_bytes", "codec", "magic", "timestamp_type", "is_transactional", "is_control"),
        instant(F.col("base_timestamp_ms")).alias("base_timestamp"),
        instant(F.col("max_timestamp_ms")).alias("max_timestamp"),
        *("is_time_outlier", "producer_id", "producer_epoch", "base_sequence", "missing_offset_count", "lateness_ms"),
        *("is_crc_ok", "segment_base_offset", "position"),
    )


def summarise_segments(batches: DataFrame) -> DataFrame:
    """One row per segment file with what its batches say: the scanned columns of `bronze.log_segments`."""
    data_producer = F.when(F.col("producer_id") >= 0, F.col("producer_id"))
    timestamp = F.when(F.col("max_timestamp_ms") >= 0, F.col("max_timestamp_ms"))
    first_timestamp = F.when(F.col("base_timestamp_ms") >= 0, F.col("base_timestamp_ms"))
    return batches.groupBy("path").agg(
        F.min("base_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.timestamp_millis(F.least(F.min(first_timestamp), F.min(timestamp))).alias("min_timestamp"),
        F.timestamp_millis(F.max(timestamp)).alias("max_timestamp"),
        F.count(F.lit(1)).alias("batch_count"),
        F.sum("record_count").alias("record_count"),
        F.sum(F.col("is_control").cast("bigint")).alias("control_batch_count"),
        F.sum("missing_offset_count").alias("missing_offset_count"),
        F.count_distinct(data_producer).alias("producer_id_count"),
        F.sum((~F.col("is_crc_ok")).cast("bigint")).alias("crc_error_count"),
        F.concat_ws(",", F.array_sort(F.collect_set(F.col("magic").cast("string")))).alias("magic"),
        F.concat_ws(",", F.array_sort(F.collect_set("codec"))).alias("codecs"),
    )


def join_segment_facts(segments: DataFrame, batches: DataFrame, problems: DataFrame) -> DataFrame:
    """Rows of `bronze.log_segments`: what discovery knows of each file, beside what its batches say.

    Args:
        segments: Discovered files with `absolute_path` and `retention_ms`.
        batches: Rows of kind `batch`, of whole files.
        problems: Rows of kind `problem`.
    """
    facts = summarise_segments(batches).withColumnRenamed("path", "absolute_path")
    counts = problems.groupBy(F.col("path").alias("absolute_path")).agg(F.count(F.lit(1)).alias("problem_count"))
    deletable = F.timestamp_millis(F.unix_millis("max_timestamp") + F.col("retention_ms"))
    return (
        segments.join(facts, "absolute_path", "left")
        .join(counts, "absolute_path", "left")
        .withColumn("problem_count", F.coalesce("problem_count", F.lit(0)))
        .withColumn("deletable_at", deletable)
        .drop("absolute_path", "retention_ms")
    )
