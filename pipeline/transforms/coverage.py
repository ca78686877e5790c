"""What a run read of partitions and windows, from summaries of what was read: sums, and what is less than expected."""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
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


def find_disputed(summaries: DataFrame, span: TimeWindow, compared: Collection[str] = ()) -> DataFrame:
    """Rows of partitions and windows of which parts hold other batches than their collector counted; a thousand at most.

    Without a window those of partitions whose batches share offsets. `summaries`: rows of `SUMMARY_SCHEMA`; of kind `window`
    as counted, others as parts hold them; `compared`: kinds of those about keys and arrivals.
    """
    kinds = ("window", "held", *compared)
    of = {kind: F.col("row_kind") == kind for kind in kinds}
    sums = (
        summaries.where(F.col("row_kind").isin(*kinds) & _is_within(span))
        .groupBy(*_SUBJECT)
        .agg(
            *(F.sum(F.when(of[kind], F.col("batch_count")).otherwise(0)).alias(f"{kind}_count") for kind in kinds[:2]),
            *(F.max(F.when(of[kind], F.col("last_offset")).otherwise(-1)).alias(f"{kind}_last") for kind in kinds[:2]),
            *(F.sum(F.when(of[kind], F.col("record_count")).otherwise(0)).alias(f"{kind}_records") for kind in kinds),
        )
    )
    unlike = [f"{kind}_records != held_records" for kind in kinds if kind != "held"]
    disputed = sums.where(" OR ".join(["window_count != held_count", "window_last != held_last", *unlike]))
    disputed = disputed.unionByName(_find_shared(summaries), allowMissingColumns=True)
    return disputed.orderBy(*_SUBJECT).limit(_MOST_DISPUTED)  # the driver holds them


def _find_shared(summaries: DataFrame) -> DataFrame:
    """Partitions of which two batches share an offset, of one part or of two."""
    spans = summaries.where("row_kind = 'span'").select(*_SUBJECT, "first_offset", "last_offset", "batch_count")
    before = (
        Window.partitionBy(*_SUBJECT[1:])
        .orderBy("first_offset", "last_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    told = spans.withColumn("reached", F.max("last_offset").over(before))
    return told.where("batch_count > 0 OR reached >= first_offset").select(*_SUBJECT).distinct()


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
