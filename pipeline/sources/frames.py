"""The sources as Spark frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.sources.cluster_rows import leader_epoch_rows
from pipeline.sources.metric_pages import SOURCE_NAME as METRIC_PAGES
from pipeline.sources.metric_pages import MetricPageSource, format_pages
from pipeline.sources.record_batches import SOURCE_NAME as RECORD_BATCHES
from pipeline.sources.record_batches import RecordBatchSource
from pipeline.sources.segment_plan import format_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.cluster import ClusterHistory
    from pipeline.sources.metric_pages import MetricPage
    from pipeline.sources.segment_plan import SegmentRead

_LEADER_EPOCHS = (
    "topic string, topic_id string, partition bigint, leader_epoch bigint, leader_id bigint, is_current boolean"
)

_SEGMENTS = (
    "cluster string, broker_id bigint, log_directory string, topic string, topic_id string, partition bigint, "
    "base_offset bigint, path string, absolute_path string, size_bytes bigint, is_scanned boolean, "
    "is_active boolean, retention_ms bigint"
)


def register_sources(spark: SparkSession) -> None:
    """Makes `kafka_record_batches` and `metric_pages` known to a session, for `spark.read.format` and SQL."""
    spark.dataSource.register(RecordBatchSource)
    spark.dataSource.register(MetricPageSource)


def batch_frame(spark: SparkSession, reads: Sequence[SegmentRead], as_of_ms: int) -> DataFrame:
    """Batches and problems of the segments, see `record_batches`; both cores (or all executors) read."""
    return (
        spark.read.format(RECORD_BATCHES)
        .option("plan", format_plan(reads))
        .option("as_of_ms", str(as_of_ms))
        .option("spark_partitions", str(spark.sparkContext.defaultParallelism))
        .load()
    )


def sample_frame(spark: SparkSession, pages: Sequence[MetricPage]) -> DataFrame:
    """Samples and problems of the exporter pages, see `metric_pages`."""
    return (
        spark.read.format(METRIC_PAGES)
        .option("plan", format_pages(pages))
        .option("spark_partitions", str(spark.sparkContext.defaultParallelism))
        .load()
    )


def segment_frame(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Discovered segment files, see `segment_rows`."""
    held = [tuple(row.values()) for row in rows]
    return spark.createDataFrame(held, _SEGMENTS)


def leader_epoch_frame(spark: SparkSession, history: ClusterHistory) -> DataFrame:
    """Who led in which epoch, one row per topic-partition and epoch."""
    rows = [tuple(row.values()) for row in leader_epoch_rows(history)]
    return spark.createDataFrame(rows, _LEADER_EPOCHS)
