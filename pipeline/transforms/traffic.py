"""From record batches to `silver.partition_traffic`: what each partition got in each window, by leader."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl
import pyarrow as pa

from pipeline.transforms.arithmetic import divide, divide_by, join_squares, split_squares

GRAIN = ("window_start", "topic", "topic_id", "partition", "leader_id", "leader_epoch")
_SUMS = (
    *("record_count", "control_record_count", "batch_count", "size_bytes", "covered_offset_count", "data_bytes"),
    *("missing_offset_count", "compacted_record_count", "crc_error_count", "time_outlier_count", "upper", "lower"),
)
_OF_BATCHES = (
    *("is_control", "record_count", "size_bytes", "base_offset", "last_offset", "missing_offset_count", "is_crc_ok"),
    *("is_time_outlier", "lateness_ms", "producer_id"),
)
_SCALED = ("record_count", "control_record_count", "batch_count", "size_bytes")


def sum_batches(batches: pa.Table) -> pa.Table:
    """Sums of some of `silver.record_batches`, for `finish_traffic`: by topic-partition, leader, epoch and window."""
    is_data = ~pl.col("is_control")
    records, size = pl.col("record_count"), pl.col("size_bytes")
    covered = pl.col("last_offset") - pl.col("base_offset") + 1
    upper, lower = split_squares(size)
    sums = pl.DataFrame(batches.select([*GRAIN, *_OF_BATCHES])).group_by(GRAIN).agg(
        records.filter(is_data).sum(),
        records.filter(~is_data).sum().alias("control_record_count"),
        is_data.cast(pl.Int64).sum().alias("batch_count"),
        size.sum(),
        pl.col("base_offset").min().alias("first_offset"),
        pl.col("last_offset").max(),
        covered.sum().alias("covered_offset_count"),
        size.filter(is_data).sum().alias("data_bytes"),
        pl.col("missing_offset_count").sum(),
        (covered - records).sum().alias("compacted_record_count"),
        (~pl.col("is_crc_ok")).cast(pl.Int64).sum().alias("crc_error_count"),
        pl.col("is_time_outlier").cast(pl.Int64).sum().alias("time_outlier_count"),
        upper.alias("upper"),
        lower.alias("lower"),
        pl.col("lateness_ms").max().alias("max_lateness_ms"),
        pl.col("producer_id").unique().alias("producers"),
    )  # fmt: skip  # a chain on one line, its sums one a line
    return sums.to_arrow()


def finish_traffic(
    sums: pa.Table, compacted_topics: Collection[str], batch_size_bytes: int, *, sampling_rate: float = 1.0
) -> pa.Table:
    """Adds up sums of batches: rows of `silver.partition_traffic`.

    Args:
        sums: From `sum_batches`, of all parts.
        compacted_topics: Topics whose `cleanup.policy` holds compact: gaps in their offsets are expected.
        batch_size_bytes: The producers' `batch.size`, for the fill ratio.
        sampling_rate: Part of each window that was read; counts are divided by it.
    """
    traffic = pl.DataFrame(sums).group_by(GRAIN, maintain_order=True).agg(
        *(pl.col(name).sum() for name in _SUMS),
        pl.col("first_offset").min(),
        *(pl.col(name).max() for name in ("last_offset", "max_lateness_ms")),
        pl.col("producers").explode().n_unique().cast(pl.Int64).alias("producer_count"),
    )  # fmt: skip  # a chain on one line, its sums one a line
    squared = join_squares(pl.col("upper"), pl.col("lower"))
    return (
        traffic.with_columns(
            pl.col("topic").is_in(sorted(compacted_topics)).alias("is_compacted"),
            divide(pl.col("record_count"), pl.col("batch_count")).alias("records_per_batch"),
            divide(pl.col("data_bytes"), pl.col("batch_count") * batch_size_bytes).alias("fill_ratio"),
            # Squares so that the units behind the load stay those that were read.
            divide_by(squared, sampling_rate * sampling_rate).alias("batch_bytes_squared"),
            pl.lit("exact" if sampling_rate == 1 else "sampled").alias("count_kind"),
            pl.lit(float(sampling_rate)).alias("sampling_rate"),
        )
        .with_columns(_scale(name, sampling_rate) for name in _SCALED)
        .drop("upper", "lower", "data_bytes")
        .to_arrow()
    )


def _scale(name: str, rate: float) -> pl.Expr:
    """Counts of the whole window from those of a part."""
    if rate == 1:
        return pl.col(name)
    return divide_by(pl.col(name), rate).round(mode="half_away_from_zero").cast(pl.Int64)
