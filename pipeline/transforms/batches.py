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
        batches: Rows of `kafka_record_batches` with window and leader.
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
