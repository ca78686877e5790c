"""From segment files as they are listed, and what was read of them, to `bronze.log_segments`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.model.window import LATEST_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_FACTS = (
    *("first_offset", "last_offset", "batch_count", "record_count", "control_batch_count", "missing_offset_count"),
    *("producer_id_count", "crc_error_count", "magic", "codecs", "min_timestamp_ms", "max_timestamp_ms"),
)


def join_segments(listed: DataFrame, summaries: DataFrame) -> DataFrame:
    """Rows of `bronze.log_segments` without cluster.

    `listed`: rows of `LISTED_SCHEMA`.
    `summaries`: rows of `SUMMARY_SCHEMA`; of a file collected in stretches the row with most batches counts.
    """
    is_segment = F.col("row_kind") == "segment"
    rank = F.when(is_segment, F.coalesce("batch_count", F.lit(0)))
    known = (
        summaries.where("row_kind IN ('segment', 'problem')")
        .groupBy(F.col("path").alias("found_at"))
        .agg(F.max_by(F.struct(*_FACTS), rank).alias("facts"), F.count_if(~is_segment).alias("problem_count"))
    )
    newest_ms = _known_ms(F.col("facts.max_timestamp_ms"))
    return (
        listed.join(known, "found_at", "left")
        .withColumns({name: F.col(f"facts.{name}") for name in _FACTS if not name.endswith("_ms")})
        .withColumns(
            {
                "is_scanned": F.col("facts").isNotNull(),
                "problem_count": F.coalesce("problem_count", F.lit(0)),
                "min_timestamp": F.timestamp_millis(_known_ms(F.col("facts.min_timestamp_ms"))),
                "max_timestamp": F.timestamp_millis(newest_ms),
                "deletable_at": F.timestamp_millis(_known_ms(newest_ms + F.col("kept_ms"))),
            }
        )
        .drop("found_at", "facts", "kept_ms")
    )


def _known_ms(instant_ms: Column) -> Column:
    """A timestamp that a client wrote; NULL outside the calendar."""
    return F.when(instant_ms.between(0, LATEST_MS), instant_ms)
