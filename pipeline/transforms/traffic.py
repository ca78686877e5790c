"""From record batches to `silver.partition_traffic`: what each partition got in each window, by leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GRAIN = ("cluster", "window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch")


_SCALED = ("record_count", "control_record_count", "batch_count", "size_bytes")


def summarise_traffic(
    record_batches: DataFrame, compacted_topics: frozenset[str], batch_size_bytes: int, *, sampling_rate: float = 1.0
) -> DataFrame:
    """Counts records, batches, bytes and offsets per topic-partition, leader, leader epoch and window.

    Args:
        record_batches: `silver.record_batches`.
        compacted_topics: Topics whose `cleanup.policy` holds compact: gaps in their offsets are expected.
        batch_size_bytes: The producers' `batch.size`, for the fill ratio.
        sampling_rate: Part of each window that was read; counts are divided by it.
    """
    is_data = ~F.col("is_control")
    size = F.col("size_bytes")
    covered = F.col("last_offset") - F.col("base_offset") + 1
    data_batch_count = F.sum(is_data.cast("bigint"))
    data_record_count = F.sum(F.when(is_data, F.col("record_count")).otherwise(0))
    traffic = record_batches.groupBy(*GRAIN).agg(
        data_record_count.alias("record_count"),
        F.sum(F.when(is_data, 0).otherwise(F.col("record_count"))).alias("control_record_count"),
        data_batch_count.alias("batch_count"),
        F.sum(size).alias("size_bytes"),
        F.min("base_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum(covered).alias("covered_offset_count"),
        F.sum("missing_offset_count").alias("missing_offset_count"),
        F.sum(covered - F.col("record_count")).alias("compacted_record_count"),
        F.first(F.col("topic").isin(sorted(compacted_topics))).alias("is_compacted"),
        F.sum((~F.col("is_crc_ok")).cast("bigint")).alias("crc_error_count"),
        F.count_distinct("producer_id").alias("producer_count"),
        F.try_divide(data_record_count, data_batch_count).alias("records_per_batch"),
        F.try_divide(F.sum(F.when(is_data, size)), data_batch_count * batch_size_bytes).alias("fill_ratio"),
        # Exact: a sum of doubles beyond 2^53 would depend on the order of the batches.
        F.sum((size * size).cast("decimal(19,0)")).cast("double").alias("batch_bytes_squared"),
        F.max("lateness_ms").alias("max_lateness_ms"),
        F.sum(F.col("is_time_outlier").cast("bigint")).alias("time_outlier_count"),
    )
    return _scale(traffic, sampling_rate)


def _scale(traffic: DataFrame, rate: float) -> DataFrame:
    """Counts of the whole window from those of a part; squares so that the units behind it stay those that were read."""
    if rate == 1:
        return traffic.withColumns({"count_kind": F.lit("exact"), "sampling_rate": F.lit(1.0)})
    scaled = {name: F.round(F.col(name) / rate).cast("bigint") for name in _SCALED}
    return traffic.withColumns(
        {
            **scaled,
            "batch_bytes_squared": F.col("batch_bytes_squared") / (rate * rate),
            "count_kind": F.lit("sampled"),
            "sampling_rate": F.lit(rate),
        }
    )
