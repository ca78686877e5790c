"""What a run read of partitions and windows, from summaries of what was read: sums, and what is less than expected."""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.model.window import TimeWindow

_SUBJECT = ("window_start_ms", "topic", "topic_id", "partition")  # a recreated topic has another id
_MOST_DISPUTED = 1_000


def sum_windows(summaries: DataFrame, span: TimeWindow) -> DataFrame:
    """Batches, records and newest timestamp of each window of a span, and of all others together (start NULL).

    `summaries`: rows of `SUMMARY_SCHEMA`; those about more than windows are given as they are.
    """
    start_ms = F.when(_is_within(span), F.col("window_start_ms"))
    sums = (
        summaries.where("row_kind = 'window'")
        .groupBy(start_ms.alias("window_start_ms"))
        .agg(
            *(F.sum(name).alias(name) for name in ("batch_count", "record_count")),
            F.max("max_timestamp_ms").alias("max_timestamp_ms"),
        )
        .withColumn("row_kind", F.lit("window"))
    )
    return summaries.where("row_kind IN ('problem', 'shortfall')").unionByName(sums, allowMissingColumns=True)


def find_disputed(summaries: DataFrame, span: TimeWindow) -> DataFrame:
    """Rows of partitions and windows of which parts hold other batches than their collector counted; a thousand at most.

    `summaries`: rows of `SUMMARY_SCHEMA`; of kind `window` as counted, of kind `held` as parts hold them.
    """
    kinds = [(kind, F.col("row_kind") == kind) for kind in ("window", "held")]
    sums = (
        summaries.where(F.col("row_kind").isin("window", "held") & _is_within(span))
        .groupBy(*_SUBJECT)
        .agg(
            *(F.sum(F.when(of, F.col("batch_count")).otherwise(0)).alias(f"{kind}_count") for kind, of in kinds),
            *(F.max(F.when(of, F.col("last_offset")).otherwise(-1)).alias(f"{kind}_last") for kind, of in kinds),
        )
    )
    disputed = sums.where("window_count != held_count OR window_last != held_last")
    return disputed.orderBy(*_SUBJECT).limit(_MOST_DISPUTED)  # the driver holds them


def find_covered_less(summaries: DataFrame, traffic: DataFrame, windows: Collection[TimeWindow]) -> DataFrame:
    """Starts of the windows of which a partition was read less than is stored: offsets, or records among them.

    Compaction takes records away; of a sampled window as many count as were read. `summaries`: of `SUMMARY_SCHEMA`;
    `traffic`: of `silver.partition_traffic`, one row per leader and leader epoch.
    """
    starts_ms = [window.start_ms for window in windows]
    records = F.col("record_count")
    read_of = F.bround(records * F.col("sampling_rate")).cast("bigint")
    stored = _cover(
        traffic.withColumns(
            {
                "window_start_ms": F.unix_millis("window_start"),
                "record_count": F.when(F.col("count_kind") == "sampled", read_of).otherwise(records),
            }
        ).where(F.col("window_start_ms").isin(starts_ms))
    )
    read = _cover(summaries.where("row_kind = 'window'")).toDF(*_SUBJECT, "first", "last", "records")
    has_offsets = (F.col("first") <= F.col("first_offset")) & (F.col("last") >= F.col("last_offset"))
    is_covered = has_offsets & (F.col("records") >= F.col("record_count"))
    both = stored.join(read, list(_SUBJECT), "left")
    return both.where(~F.coalesce(is_covered, F.lit(0) == 1)).select("window_start_ms").distinct()


def _cover(rows: DataFrame) -> DataFrame:
    """Offsets of each topic-partition in each window, and the records among them, whoever led."""
    return rows.groupBy(*_SUBJECT).agg(
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum("record_count").alias("record_count"),
    )


def _is_within(span: TimeWindow) -> Column:
    return (F.col("window_start_ms") >= span.start_ms) & (F.col("window_start_ms") < span.end_ms)
