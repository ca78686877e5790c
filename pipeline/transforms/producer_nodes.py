"""From samples of producers' metrics to `silver.producer_nodes`: one row per producer client, broker and window.

Java producers' metrics (of an exporter, of Prometheus, of kafka-producer-perf-test) and librdkafka's statistics become the
same columns. Where two sources tell of the same client in a window, the one nearest to the client counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from pipeline.codec.metrics.metric_names import (
    APP_INFO_PREFIX,
    CLIENT_PREFIX,
    CLIENT_VERSION,
    LIBRDKAFKA_PREFIX,
    NODE_PREFIX,
)
from pipeline.transforms.counters import with_increases, with_scrape_before
from pipeline.transforms.exact_sums import exact_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from pipeline.model.window import TimeWindow

_BROKER_PREFIX = f"{LIBRDKAFKA_PREFIX}broker_"
_START_NAMES = (f"{APP_INFO_PREFIX}start_time_ms", f"{LIBRDKAFKA_PREFIX}start_time_ms")
_CLIENT = ("source", "instance", "client_id")
_SAMPLE = (*_CLIENT, "node_id", "observed_at_ms")
_PAIR = ("window_start_ms", *_CLIENT, "broker_id")
_NODE_VALUES = {
    "request_total": (f"{NODE_PREFIX}request_total", f"{_BROKER_PREFIX}tx_total"),
    "byte_total": (f"{NODE_PREFIX}outgoing_byte_total", f"{_BROKER_PREFIX}txbytes_total"),
    "error_total": (f"{_BROKER_PREFIX}txerrs_total",),
    "retry_total": (f"{_BROKER_PREFIX}txretries_total",),
    "latency_avg": (f"{NODE_PREFIX}request_latency_avg", f"{_BROKER_PREFIX}rtt_avg_ms"),
    "latency_max": (f"{NODE_PREFIX}request_latency_max", f"{_BROKER_PREFIX}rtt_max_ms"),
    "in_flight": (f"{_BROKER_PREFIX}waitresp_cnt",),
    "queue_time": (f"{_BROKER_PREFIX}int_latency_avg_ms",),
    "throttle_time": (f"{_BROKER_PREFIX}throttle_avg_ms",),
}
_CLIENT_VALUES = {
    "record_total": (f"{CLIENT_PREFIX}record_send_total", f"{LIBRDKAFKA_PREFIX}txmsgs_total"),
    "error_total": (f"{CLIENT_PREFIX}record_error_total",),
    "retry_total": (f"{CLIENT_PREFIX}record_retry_total",),
    "buffer_wait_ns_total": (f"{CLIENT_PREFIX}bufferpool_wait_time_ns_total",),
    "produce_total": (f"{_BROKER_PREFIX}produce_total",),
    "batch_size_avg": (f"{CLIENT_PREFIX}batch_size_avg", f"{LIBRDKAFKA_PREFIX}topic_batchsize_avg_bytes"),
    "records_per_request_avg": (f"{CLIENT_PREFIX}records_per_request_avg",),
    "queue_time_avg": (f"{CLIENT_PREFIX}record_queue_time_avg",),
    "throttle_time_avg": (f"{CLIENT_PREFIX}produce_throttle_time_avg",),
    "requests_in_flight": (f"{CLIENT_PREFIX}requests_in_flight",),
    "buffer_available": (f"{CLIENT_PREFIX}buffer_available_bytes",),
    "buffer_total": (f"{CLIENT_PREFIX}buffer_total_bytes", f"{LIBRDKAFKA_PREFIX}msg_size_max_bytes"),
    "buffer_used": (f"{LIBRDKAFKA_PREFIX}msg_size_bytes",),
    "queue_messages": (f"{LIBRDKAFKA_PREFIX}msg_max",),
}
_SUMMED = ("produce_total",)


def summarise_producer_nodes(
    samples: DataFrame,
    cluster: str,
    span: TimeWindow,
    window_ms: int,
    *,
    precedence: Sequence[str],
    interval_ms: Mapping[str, int],
    client_configs: Mapping[str, Mapping[str, str]],
) -> DataFrame:
    """Summarises the samples of each window.

    Args:
        samples: `source`, `instance`, `observed_at_ms`, `name` (canonical), `labels` (map), `value`; from before the span
            too, so that the first sample of a window has one to be compared with.
        cluster: Cluster name in the configuration.
        span: Windows wanted; samples outside serve only as predecessors.
        window_ms: Length of a window.
        precedence: Names of sources; of two that tell of a client in a window the earlier counts.
        interval_ms: Distance of two samples, by source; those without one have no gaps.
        client_configs: Configured settings by client id.
    """
    wanted = f"observed_at_ms >= {span.start_ms} AND observed_at_ms < {span.end_ms}"
    named = samples.withColumn("client_id", F.col("labels")["client_id"]).where("client_id IS NOT NULL")
    nodes = with_increases(
        _with_instants(_node_values(named), named, _NODE_VALUES),
        ("request_total", "byte_total", "error_total", "retry_total"),
        (*_CLIENT, "node_id"),
        window_ms,
        interval_ms,
    ).where(wanted)
    clients = with_increases(
        _with_instants(_client_values(named), named, _CLIENT_VALUES),
        ("record_total", "error_total", "retry_total", "buffer_wait_ns_total", "produce_total"),
        _CLIENT,
        window_ms,
        interval_ms,
    ).where(wanted)
    per_node = _per_node(nodes).join(_per_client(clients), ["window_start_ms", *_CLIENT], "left")
    return (
        _nearest(per_node, precedence)
        .withColumn("throttle_time_avg_ms", F.coalesce("throttle_time_avg_ms", "node_throttle_time_avg_ms"))
        .withColumn("queue_time_avg_ms", F.coalesce("queue_time_avg_ms", "node_queue_time_avg_ms"))
        .withColumn("requests_in_flight", F.coalesce("requests_in_flight", "node_requests_in_flight"))
        .withColumn("error_rate_per_s", F.coalesce("error_rate_per_s", "node_error_rate_per_s"))
        .withColumn("retry_rate_per_s", F.coalesce("retry_rate_per_s", "node_retry_rate_per_s"))
        .withColumn("client_config", _known_config(client_configs))
        .withColumn("cluster", F.lit(cluster))
        .withColumn("window_start", F.timestamp_millis("window_start_ms"))
        .drop("window_start_ms", *(column for column in per_node.columns if column.startswith("node_")))
    )


def _values(names: Mapping[str, tuple[str, ...]]) -> list[Column]:
    """One column per value: of several metrics of that meaning the largest, of counters of parts the sum; NaN is NULL already."""
    return [
        (F.sum if column in _SUMMED else F.max)(F.when(F.col("name").isin([*found]), F.col("value"))).alias(column)
        for column, found in names.items()
    ]


def _node_values(samples: DataFrame) -> DataFrame:
    """One row per producer, broker and instant."""
    names = [name for found in _NODE_VALUES.values() for name in found]
    return (
        samples.where(F.col("name").isin(names))
        .withColumn("node_id", F.col("labels")["node_id"])
        .where(F.col("node_id").rlike(r"^node-\d+$"))  # bootstrap connections are node--1, node--2, …
        .groupBy(*_SAMPLE)
        .agg(*_values(_NODE_VALUES))
        .withColumn("broker_id", F.regexp_extract("node_id", r"(\d+)$", 1).cast("bigint"))
    )


def _client_values(samples: DataFrame) -> DataFrame:
    """One row per producer and instant."""
    names = [CLIENT_VERSION, *(name for found in _CLIENT_VALUES.values() for name in found)]
    version = F.max(F.when(F.col("name") == CLIENT_VERSION, F.col("labels")["version"])).alias("client_version")
    chosen = samples.where(F.col("name").isin(names)).groupBy(*_CLIENT, "observed_at_ms")
    values = chosen.agg(*_values(_CLIENT_VALUES), version)
    available = F.coalesce("buffer_available", F.col("buffer_total") - F.col("buffer_used"))
    return values.withColumn("buffer_available", available)


def _with_instants(values: DataFrame, samples: DataFrame, names: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """Adds when the client last started, where it says so, and when it was scraped before for such metrics."""
    alike = samples.where(F.col("name").isin([name for found in names.values() for name in found]))
    started = samples.where(F.col("name").isin([*_START_NAMES])).groupBy(*_CLIENT, "observed_at_ms")
    starts = started.agg(F.max(F.col("value").cast("bigint")).alias("started_at_ms"))
    return with_scrape_before(values.join(starts, [*_CLIENT, "observed_at_ms"], "left"), _CLIENT, alike)


def _per_node(nodes: DataFrame) -> DataFrame:
    observed_s = F.sum("covered_ms") / 1000
    return nodes.groupBy(*_PAIR).agg(
        F.count(F.lit(1)).alias("sample_count"),
        F.sum("request_total_increase").alias("request_count"),
        F.try_divide(F.sum("request_total_increase"), observed_s).alias("request_rate_per_s"),
        F.sum("byte_total_increase").alias("outgoing_bytes"),
        F.try_divide(F.sum("byte_total_increase"), observed_s).alias("outgoing_rate_bytes_per_s"),
        exact_mean(F.col("latency_avg")).alias("request_latency_avg_ms"),
        F.max("latency_max").alias("request_latency_max_ms"),
        F.sum("reset_count").alias("counter_reset_count"),
        F.sum("gap_count").alias("gap_count"),
        F.sum("covered_ms").alias("covered_ms"),
        F.try_divide(F.sum("error_total_increase"), observed_s).alias("node_error_rate_per_s"),
        F.try_divide(F.sum("retry_total_increase"), observed_s).alias("node_retry_rate_per_s"),
        exact_mean(F.col("in_flight")).alias("node_requests_in_flight"),
        exact_mean(F.col("queue_time")).alias("node_queue_time_avg_ms"),
        exact_mean(F.col("throttle_time")).alias("node_throttle_time_avg_ms"),
    )


def _per_client(clients: DataFrame) -> DataFrame:
    observed_s = F.sum("covered_ms") / 1000
    per_request = F.try_divide(F.sum("record_total_increase"), F.sum("produce_total_increase"))
    waited_s = F.sum("buffer_wait_ns_total_increase") / 1e9
    return clients.groupBy("window_start_ms", *_CLIENT).agg(
        exact_mean(F.col("batch_size_avg")).alias("batch_size_avg_bytes"),
        F.coalesce(exact_mean(F.col("records_per_request_avg")), per_request).alias("records_per_request_avg"),
        exact_mean(F.col("queue_time_avg")).alias("queue_time_avg_ms"),
        exact_mean(F.col("throttle_time_avg")).alias("throttle_time_avg_ms"),
        exact_mean(F.col("requests_in_flight")).alias("requests_in_flight"),
        F.min("buffer_available").alias("buffer_available_bytes"),
        F.max("buffer_total").alias("buffer_total_bytes"),
        F.max("queue_messages").alias("node_queue_messages"),
        F.max("client_version").alias("client_version"),
        F.try_divide(waited_s, observed_s).alias("buffer_blocked_ratio"),
        F.try_divide(F.sum("error_total_increase"), observed_s).alias("error_rate_per_s"),
        F.try_divide(F.sum("retry_total_increase"), observed_s).alias("retry_rate_per_s"),
        F.try_divide(F.sum("record_total_increase"), observed_s).alias("record_rate_per_s"),
    )


def _nearest(rows: DataFrame, precedence: Sequence[str]) -> DataFrame:
    """Rows of the source that comes first in the order, per client and window."""
    order = F.array_position(F.array(*map(F.lit, precedence)), F.col("source"))
    of_client = Window.partitionBy("window_start_ms", "client_id")
    return (
        rows.withColumn("order", F.when(order > 0, order).otherwise(len(precedence) + 1))
        .withColumn("first_order", F.min("order").over(of_client))
        .where("order = first_order")
        .drop("order", "first_order")
    )


def _known_config(client_configs: Mapping[str, Mapping[str, str]]) -> Column:
    """Settings that a client's metrics tell, and those of the configuration, which win; NULL where there are none."""
    whole, is_java = F.col("buffer_total_bytes").cast("bigint"), F.col("node_queue_messages").isNull()
    told = F.create_map(
        F.lit("buffer.memory"), F.when(is_java, whole).cast("string"),
        F.lit("queue.buffering.max.kbytes"), F.when(~is_java, (whole / 1024).cast("bigint")).cast("string"),
        F.lit("queue.buffering.max.messages"), F.col("node_queue_messages").cast("bigint").cast("string"),
    )  # fmt: skip
    configured = F.coalesce(_configured(client_configs), F.create_map().cast("map<string,string>"))
    others = F.map_filter(told, lambda name, value: value.isNotNull() & ~F.map_contains_key(configured, name))
    known = F.map_concat(others, configured)
    return F.when(F.size(known) > 0, known)


def _configured(client_configs: Mapping[str, Mapping[str, str]]) -> Column:
    """The configured settings of a row's client; NULL where there are none."""
    column = F.lit(None).cast("map<string,string>")
    for client_id, settings in client_configs.items():
        pairs = [F.lit(text) for pair in sorted(settings.items()) for text in pair]
        column = F.when(F.col("client_id") == client_id, F.create_map(*pairs)).otherwise(column)
    return column
