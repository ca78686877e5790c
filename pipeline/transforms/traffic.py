"""From record batches to `silver.partition_traffic`: what each partition got in each window, by leader.

Last bits do not depend on the order of the rows, which differs with the number of cores, files and windows in a run:
whole numbers are summed exactly, and rounded once. So equal input gives equal tables on every engine.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GRAIN = ("window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch")
_SCALED = ("record_count", "control_record_count", "batch_count", "size_bytes")
_HELPERS = ("data_bytes", "squared")


def sum_traffic(
    batches: DataFrame, compacted_topics: Collection[str], batch_size_bytes: int, *, sampling_rate: float = 1.0
) -> DataFrame:
    """Sums batches by topic-partition, leader, epoch and window: rows of `silver.partition_traffic` without cluster.

    Args:
        batches: Rows of `BATCH_SCHEMA`.
        compacted_topics: Topics whose `cleanup.policy` holds compact: gaps in their offsets are expected.
        batch_size_bytes: The producers' `batch.size`, for the fill ratio.
        sampling_rate: Part of each window that was read; counts are divided by it.
    """
    is_data, records, size = ~F.col("is_control"), F.col("record_count"), F.col("size_bytes")
    covered = F.col("last_offset") - F.col("base_offset") + 1
    sums = batches.groupBy(*GRAIN).agg(
        _sum(F.when(is_data, records)).alias("record_count"),
        _sum(F.when(~is_data, records)).alias("control_record_count"),
        F.count_if(is_data).alias("batch_count"),
        F.sum(size).alias("size_bytes"),
        F.min("base_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.sum(covered).alias("covered_offset_count"),
        _sum(F.when(is_data, size)).alias("data_bytes"),
        _sum(F.col("missing_offset_count")).alias("missing_offset_count"),
        _sum(covered - records).alias("compacted_record_count"),
        F.count_if(~F.col("is_crc_ok")).alias("crc_error_count"),
        F.count_if(F.col("is_time_outlier")).alias("time_outlier_count"),
        square_sum(size).alias("squared"),
        F.max("lateness_ms").alias("max_lateness_ms"),
        F.size(F.collect_set("producer_id")).cast("bigint").alias("producer_count"),
    )
    rate = float(sampling_rate)
    return sums.withColumns(
        {
            "is_compacted": F.col("topic").isin(sorted(compacted_topics)) if compacted_topics else F.lit(0) == 1,
            "records_per_batch": quotient(F.col("record_count"), F.col("batch_count")),
            "fill_ratio": quotient(F.col("data_bytes"), F.col("batch_count") * batch_size_bytes),
            # Squares so that the units behind the load stay those that were read.
            "batch_bytes_squared": F.col("squared").cast("double") / F.lit(rate * rate),
            "count_kind": F.lit("exact" if sampling_rate == 1 else "sampled"),
            "sampling_rate": F.lit(rate),
            **{name: F.round(F.col(name) / F.lit(rate)).cast("bigint") for name in _SCALED if rate != 1},
        }
    ).drop(*_HELPERS)


def _sum(values: Column) -> Column:
    return F.coalesce(F.sum(values), F.lit(0))


_EXACT = "decimal(38,0)"
_HALF_BITS = 32
_HALF = 1 << _HALF_BITS


def quotient(part: Column, whole: Column) -> Column:
    """Quotient as a double; NULL where the divisor is 0."""
    return F.when(whole != 0, part.cast("double") / whole.cast("double"))


def square_sum(values: Column) -> Column:
    """Exact sum of squares of whole numbers below 2^31, as a decimal: the halves of each square are summed apart."""
    squares = values * values
    upper = F.sum(F.shiftright(squares, _HALF_BITS)).cast(_EXACT)
    lower = F.sum(squares.bitwiseAND(F.lit(_HALF - 1))).cast(_EXACT)
    return upper * F.lit(_HALF).cast("decimal(11,0)") + lower
