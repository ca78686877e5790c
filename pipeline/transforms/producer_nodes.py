"""From scraped producer metrics to `silver.producer_nodes`: one row per producer client, broker and window.

Metric names come in two generations: jmx_exporter 0.x keeps `_total`, 1.x drops it. Counters are turned into
increases between neighbouring scrapes, a fall being a restart (the new value is the increase). An increase belongs to
the window of the later scrape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.transforms.exact_sums import exact_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from pipeline.model.window import TimeWindow

NODE_PREFIX = "kafka_producer_producer_node_metrics_"
CLIENT_PREFIX = "kafka_producer_producer_metrics_"
_SAMPLE = ("instance", "client_id", "node_id", "observed_at_ms")
_PAIR = ("window_start_ms", "instance", "client_id", "broker_id")
_CLIENT_COLUMNS = {
    "batch_size_avg_bytes": (exact_mean, "batch_size_avg"),
    "records_per_request_avg": (exact_mean, "records_per_request_avg"),
    "queue_time_avg_ms": (exact_mean, "record_queue_time_avg"),
    "throttle_time_avg_ms": (exact_mean, "produce_throttle_time_avg"),
    "requests_in_flight": (exact_mean, "requests_in_flight"),
    "buffer_available_bytes": (F.min, "buffer_available_bytes"),
}


def summarise_producer_nodes(samples: DataFrame, cluster: str, span: TimeWindow, window_ms: int) -> DataFrame:
    """Summarises the scrapes of each window.

    Args:
        samples: `instance`, `observed_at_ms`, `name`, `labels` (map), `value`; from before the span too, so that the
            first scrape of a window has one to be compared with.
        cluster: Cluster name in the configuration.
        span: Windows wanted; scrapes outside serve only as predecessors.
        window_ms: Length of a window.
    """
    wanted = f"observed_at_ms >= {span.start_ms} AND observed_at_ms < {span.end_ms}"
    nodes = _node_increases(samples).where(wanted).withColumn("window_start_ms", _window_start(window_ms))
    clients = _client_values(samples.where(wanted).withColumn("window_start_ms", _window_start(window_ms)))
    observed_s = F.sum("interval_ms") / 1000
    per_node = nodes.groupBy(*_PAIR).agg(
        F.count(F.lit(1)).alias("sample_count"),
        F.sum("request_increase").alias("request_count"),
        F.try_divide(F.sum("request_increase"), observed_s).alias("request_rate_per_s"),
        F.sum("byte_increase").alias("outgoing_bytes"),
        F.try_divide(F.sum("byte_increase"), observed_s).alias("outgoing_rate_bytes_per_s"),
        exact_mean(F.col("latency_avg")).alias("request_latency_avg_ms"),
        F.max("latency_max").alias("request_latency_max_ms"),
        F.sum("reset_count").alias("counter_reset_count"),
    )
    return (
        per_node.join(clients, ["window_start_ms", "instance", "client_id"], "left")
        .withColumn("cluster", F.lit(cluster))
        .withColumn("window_start", F.timestamp_millis("window_start_ms"))
        .drop("window_start_ms")
    )


def _window_start(window_ms: int) -> Column:
    return F.col("observed_at_ms") - F.col("observed_at_ms") % window_ms


def _metric(prefix: str, *names: str) -> Column:
    """The value of the first of these metrics in the group; NaN (never recorded) is NULL already."""
    return F.max(F.when(F.col("name").isin([prefix + name for name in names]), F.col("value")))


def _node_increases(samples: DataFrame) -> DataFrame:
    """One row per producer, broker and scrape, with increases since the scrape before."""
    labels = F.col("labels")
    scrapes = (
        samples.where(F.col("name").startswith(NODE_PREFIX))
        .withColumn("client_id", labels["client_id"])
        .withColumn("node_id", labels["node_id"])
        .where(F.col("node_id").rlike(r"^node-\d+$"))  # bootstrap connections are node--1, node--2, …
        .groupBy(*_SAMPLE)
        .agg(
            _metric(NODE_PREFIX, "request_total", "request").alias("request_total"),
            _metric(NODE_PREFIX, "outgoing_byte_total", "outgoing_byte").alias("byte_total"),
            _metric(NODE_PREFIX, "request_latency_avg").alias("latency_avg"),
            _metric(NODE_PREFIX, "request_latency_max").alias("latency_max"),
        )
    )
    before = Window.partitionBy("instance", "client_id", "node_id").orderBy("observed_at_ms")
    is_reset = F.col("request_total") < F.lag("request_total").over(before)
    return scrapes.select(
        "*",
        F.regexp_extract("node_id", r"(\d+)$", 1).cast("bigint").alias("broker_id"),
        _increase("request_total", before).alias("request_increase"),
        _increase("byte_total", before).alias("byte_increase"),
        (F.col("observed_at_ms") - F.lag("observed_at_ms").over(before)).alias("interval_ms"),
        F.coalesce(is_reset.cast("bigint"), F.lit(0)).alias("reset_count"),
    )


def _increase(counter: str, before: WindowSpec) -> Column:
    """Growth since the scrape before; after a restart the whole count; NULL for the first scrape of all."""
    now, earlier = F.col(counter), F.lag(counter).over(before)
    return F.when(now < earlier, now).otherwise(now - earlier)


def _client_values(samples: DataFrame) -> DataFrame:
    """Client-wide averages per producer and window."""
    client = samples.where(F.col("name").startswith(CLIENT_PREFIX))
    return (
        client.withColumn("client_id", F.col("labels")["client_id"])
        .groupBy("window_start_ms", "instance", "client_id")
        .agg(
            *(
                aggregate(F.when(F.col("name") == CLIENT_PREFIX + metric, F.col("value"))).alias(column)
                for column, (aggregate, metric) in _CLIENT_COLUMNS.items()
            )
        )
    )
