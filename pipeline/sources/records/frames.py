"""The sources as Spark frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pipeline.sources.files.cluster_rows import leader_epoch_rows
from pipeline.sources.files.segment_plan import format_plan
from pipeline.sources.live.source import LiveBatchSource
from pipeline.sources.metrics.metric_pages import SOURCE_NAME as METRIC_PAGES
from pipeline.sources.metrics.metric_pages import MetricPageSource, format_pages
from pipeline.sources.metrics.sample_rows import SAMPLE_SCHEMA
from pipeline.sources.records.record_batches import SOURCE_NAME as RECORD_BATCHES
from pipeline.sources.records.record_batches import RecordBatchSource
from pipeline.sources.records.segment_summaries import SOURCE_NAME as SEGMENT_SUMMARIES
from pipeline.sources.records.segment_summaries import SegmentSummarySource
from pipeline.tables.arrow_types import format_sql_schema

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from pipeline.model.cluster import ClusterHistory
    from pipeline.model.window import TimeWindow
    from pipeline.sources.files.segment_plan import SegmentRead
    from pipeline.sources.metrics.metric_pages import MetricPage

_LEADER_EPOCHS = (
    "topic string, topic_id string, partition bigint, leader_epoch bigint, leader_id bigint, is_current boolean"
)


def register_sources(spark: SparkSession) -> None:
    """Makes `kafka_record_batches`, `kafka_live_batches`, `kafka_segment_summaries` and `metric_pages` known to a session, for `spark.read.format` and SQL."""
    spark.dataSource.register(RecordBatchSource)
    spark.dataSource.register(SegmentSummarySource)
    spark.dataSource.register(MetricPageSource)
    spark.dataSource.register(LiveBatchSource)


def batch_frame(spark: SparkSession, reads: Sequence[SegmentRead], as_of_ms: int, span: TimeWindow) -> DataFrame:
    """Batches of the segments whose event time lies in the span; both cores (or all executors) read."""
    return (
        _planned(spark, RECORD_BATCHES, format_plan(reads))
        .option("as_of_ms", str(as_of_ms))
        .load()
        .where(f"event_time_ms >= {span.start_ms} AND event_time_ms < {span.end_ms}")
    )


def summary_rows(
    spark: SparkSession, reads: Sequence[SegmentRead], as_of_ms: int, window_ms: int
) -> list[dict[str, Any]]:
    """What each segment holds, per file and per window, and what is wrong with it; see `segment_summaries`."""
    frame = (
        _planned(spark, SEGMENT_SUMMARIES, format_plan(reads))
        .option("as_of_ms", str(as_of_ms))
        .option("window_ms", str(window_ms))
        .load()
    )
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def sample_frame(spark: SparkSession, pages: Sequence[MetricPage], batches: Sequence[pa.RecordBatch] = ()) -> DataFrame:
    """Samples and problems: of the pages, which executors parse, and of rows that are there already.

    Args:
        spark: Session.
        pages: See `metric_pages`.
        batches: Rows of `SAMPLE_SCHEMA`.
    """
    parsed = _planned(spark, METRIC_PAGES, format_pages(pages)).load()
    if not batches:
        return parsed
    held = spark.createDataFrame(pa.Table.from_batches(batches, SAMPLE_SCHEMA), format_sql_schema(SAMPLE_SCHEMA))
    return held if not pages else parsed.unionByName(held)


def _planned(spark: SparkSession, source: str, plan: str) -> DataFrameReader:
    reader = spark.read.format(source).option("plan", plan)
    return reader.option("spark_partitions", str(spark.sparkContext.defaultParallelism))


def leader_epoch_frame(spark: SparkSession, history: ClusterHistory) -> DataFrame:
    """Who led in which epoch, one row per topic-partition and epoch."""
    rows = [tuple(row.values()) for row in leader_epoch_rows(history)]
    return spark.createDataFrame(rows, _LEADER_EPOCHS)
