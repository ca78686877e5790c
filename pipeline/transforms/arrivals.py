"""From packed chunks of arrivals to `silver.arrivals`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.calibration.arrival_rows import GROUP, ROW_SCHEMA, join_chunks
from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame


def join_arrivals(chunks: DataFrame, cluster: str, *, is_named: bool, sampling_rate: float = 1.0) -> DataFrame:
    """Puts the arrivals of each producer session, topic and minute in one order: `silver.arrivals`.

    Args:
        chunks: Rows of `kafka_arrivals`.
        cluster: Cluster name in the configuration.
        is_named: Keys have numbers of their ids.
        sampling_rate: Part of each window that was read.
    """

    def join(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return join_chunks(batches, is_named=is_named)

    side_by_side = chunks.repartition(*GROUP).sortWithinPartitions(*GROUP, "first_ms")
    rows = side_by_side.mapInArrow(join, format_sql_schema(ROW_SCHEMA))
    return rows.select(
        F.lit(cluster).alias("cluster"),
        F.timestamp_millis("window_start_ms").alias("window_start"),
        F.timestamp_millis("minute_start_ms").alias("minute_start"),
        *(name for name in ROW_SCHEMA.names if name not in {"window_start_ms", "minute_start_ms"}),
        F.lit("exact" if sampling_rate == 1 else "sampled").alias("count_kind"),
        F.lit(float(sampling_rate)).alias("sampling_rate"),
    )
