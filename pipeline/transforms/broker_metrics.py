"""From samples of brokers' metrics to what each broker, each of its topics and each stage of its Produce requests did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pipeline.codec.metrics.metric_names import BROKER_TOPIC_PREFIX, LOG_SIZE, REQUEST_PREFIX
from pipeline.transforms.counters import with_increases, with_scrape_before
from pipeline.transforms.exact_sums import exact_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from pipeline.model.window import TimeWindow

STAGES = ("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total")
_POOL = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle"
_REPLICAS = "kafka_server_replicamanager_"
_INSTANCE = ("source", "instance")
_COUNTERS = {
    "bytes_in": "bytesin_total",
    "bytes_out": "bytesout_total",
    "message_in_count": "messagesin_total",
    "bytes_rejected": "bytesrejected_total",
    "produce_request_count": "totalproducerequests_total",
    "failed_produce_request_count": "failedproducerequests_total",
}
_WHOLE_BROKER = {
    "replication_bytes_in": "replicationbytesin_total",
    "replication_bytes_out": "replicationbytesout_total",
}
_STAGE_METRIC = rf"^{REQUEST_PREFIX}({'|'.join(STAGES)})timems(?:_(count|mean))?$"


class BrokerSamples:
    """Samples of brokers, ready to be summarised.

    Args:
        samples: `source`, `instance`, `observed_at_ms`, `name` (canonical), `labels` (map), `value`; from before the span
            too.
        cluster: Cluster name in the configuration.
        span: Windows wanted; samples outside serve only as predecessors.
        window_ms: Length of a window.
        interval_ms: Distance of two samples, by source.
    """

    def __init__(
        self, samples: DataFrame, cluster: str, span: TimeWindow, window_ms: int, interval_ms: Mapping[str, int]
    ) -> None:
        self._samples = samples.where(
            F.col("name").startswith("kafka_server_")
            | F.col("name").startswith("kafka_network_")
            | F.col("name").startswith(LOG_SIZE)
        )
        self._cluster = cluster
        self._wanted = f"observed_at_ms >= {span.start_ms} AND observed_at_ms < {span.end_ms}"
        self._window_ms = window_ms
        self._interval_ms = interval_ms

    def summarise_brokers(self) -> DataFrame:
        """One row per broker and window."""
        counted = {**_COUNTERS, **_WHOLE_BROKER}
        values = {column: _value(BROKER_TOPIC_PREFIX + metric) for column, metric in counted.items()} | {
            "handler_idle_ns": _value(f"{_POOL}percent_count"),
            "handler_idle": _value(f"{_POOL}_percent", f"{_POOL}percent_oneminuterate"),
            "network_idle": _value(
                "kafka_network_socketserver_networkprocessoravgidle_percent",
                "kafka_network_socketserver_networkprocessoravgidlepercent",
            ),
            "leaders": _value(f"{_REPLICAS}leadercount"),
            "partitions": _value(f"{_REPLICAS}partitioncount"),
            "under_replicated": _value(f"{_REPLICAS}underreplicatedpartitions"),
            "offline": _value(f"{_REPLICAS}offlinereplicacount"),
        }
        whole = self._samples.where("labels['topic'] IS NULL")
        scrapes = whole.groupBy(*_INSTANCE, "observed_at_ms").agg(*(c.alias(name) for name, c in values.items()))
        increases = self._increases(scrapes, (*counted, "handler_idle_ns"), _INSTANCE, whole)
        brokers = increases.groupBy("window_start_ms", *_INSTANCE).agg(
            F.count(F.lit(1)).alias("sample_count"),
            F.sum("covered_ms").alias("covered_ms"),
            *(F.sum(f"{column}_increase").alias(column) for column in counted),
            F.coalesce(
                F.try_divide(F.sum("handler_idle_ns_increase"), F.sum("covered_ms") * 1e6),
                exact_mean(F.col("handler_idle")),
            ).alias("request_handler_idle_ratio"),
            exact_mean(F.col("network_idle")).alias("network_processor_idle_ratio"),
            _last("leaders").alias("leader_count"),
            _last("partitions").alias("partition_count"),
            F.max("under_replicated").cast("bigint").alias("under_replicated_count"),
            F.max("offline").cast("bigint").alias("offline_replica_count"),
            F.sum("reset_count").alias("counter_reset_count"),
            F.sum("gap_count").alias("gap_count"),
        )
        sizes = self._log_sizes().groupBy("window_start_ms", *_INSTANCE)
        sized = brokers.join(sizes.agg(F.sum("size").alias("log_size_bytes")), ["window_start_ms", *_INSTANCE], "left")
        return self._finished(sized)

    def summarise_topics(self) -> DataFrame:
        """One row per broker, topic and window."""
        subject = (*_INSTANCE, "topic")
        of_topics = self._samples.withColumn("topic", F.col("labels")["topic"]).where("topic IS NOT NULL")
        is_metered = F.col("name").isin([BROKER_TOPIC_PREFIX + metric for metric in _COUNTERS.values()])
        values = [_value(BROKER_TOPIC_PREFIX + metric).alias(column) for column, metric in _COUNTERS.items()]
        scrapes = of_topics.where(is_metered).groupBy(*subject, "observed_at_ms").agg(*values)
        topics = (
            self._increases(scrapes, tuple(_COUNTERS), subject, self._samples.where(is_metered))
            .groupBy("window_start_ms", *subject)
            .agg(
                *(F.sum(f"{column}_increase").alias(column) for column in _COUNTERS),
                F.sum("reset_count").alias("counter_reset_count"),
                F.sum("gap_count").alias("gap_count"),
            )
        )
        sizes = self._log_sizes().groupBy("window_start_ms", *subject)
        sized = sizes.agg(F.sum("size").alias("log_size_bytes"), F.count(F.lit(1)).alias("partition_count"))
        return self._finished(topics.join(sized, ["window_start_ms", *subject], "full"))

    def summarise_request_times(self) -> DataFrame:
        """One row per broker, stage of Produce requests and window."""
        subject = (*_INSTANCE, "stage")
        found = self._samples.withColumn("stage", F.regexp_extract("name", _STAGE_METRIC, 1)).where("stage <> ''")
        part = F.regexp_extract("name", _STAGE_METRIC, 2)
        quantile = F.col("labels")["quantile"].cast("double")
        scrapes = found.groupBy(*subject, "observed_at_ms").agg(
            F.max(F.when(part == "count", F.col("value"))).alias("requests"),
            F.max(F.when(part == "mean", F.col("value"))).alias("mean"),
            F.max(F.when((part == "") & (quantile == 0.5), F.col("value"))).alias("p50"),
            F.max(F.when((part == "") & (quantile == 0.99), F.col("value"))).alias("p99"),
        )
        timed = scrapes.withColumn("time", F.col("requests") * F.col("mean"))
        return self._finished(
            self._increases(timed, ("requests", "time"), subject, found)
            .groupBy("window_start_ms", *subject)
            .agg(
                F.sum("requests_increase").alias("request_count"),
                F.try_divide(F.sum("time_increase"), F.sum("requests_increase")).alias("time_mean_ms"),
                exact_mean(F.col("p50")).alias("time_p50_ms"),
                exact_mean(F.col("p99")).alias("time_p99_ms"),
            )
        )

    def _increases(
        self, scrapes: DataFrame, counters: tuple[str, ...], subject: tuple[str, ...], alike: DataFrame
    ) -> DataFrame:
        timed = with_scrape_before(scrapes, _INSTANCE, alike).withColumn("started_at_ms", F.lit(None).cast("bigint"))
        return with_increases(timed, counters, subject, self._window_ms, self._interval_ms).where(self._wanted)

    def _log_sizes(self) -> DataFrame:
        """Size of each replica at the last sample of the window."""
        observed = F.col("observed_at_ms")
        replicas = self._samples.where(f"name = '{LOG_SIZE}'").where(self._wanted)
        return (
            replicas.withColumn("topic", F.col("labels")["topic"])
            .withColumn("partition", F.col("labels")["partition"])
            .withColumn("window_start_ms", observed - observed % self._window_ms)
            .groupBy("window_start_ms", *_INSTANCE, "topic", "partition")
            .agg(F.max_by("value", "observed_at_ms").cast("bigint").alias("size"))
        )

    def _finished(self, rows: DataFrame) -> DataFrame:
        return (
            rows.join(self._broker_ids(), [*_INSTANCE], "left")
            .withColumn("cluster", F.lit(self._cluster))
            .withColumn("window_start", F.timestamp_millis("window_start_ms"))
            .drop("window_start_ms")
        )

    def _broker_ids(self) -> DataFrame:
        """Broker id of each instance: a label says it, or the broker's own app-info, or the instance is the number."""
        labels = F.col("labels")
        own = F.when(F.col("name").startswith("kafka_server_app_info_"), labels["id"])
        told = F.max(F.coalesce(labels["broker_id"], own).try_cast("bigint"))
        named = F.when(F.col("instance").rlike(r"^\d+$"), F.col("instance").try_cast("bigint"))
        return self._samples.groupBy(*_INSTANCE).agg(F.coalesce(told, F.first(named)).alias("broker_id"))


def _value(*names: str) -> Column:
    """The value of one of these metrics in the group; of two servers that scraped the same broker the larger."""
    return F.max(F.when(F.col("name").isin([*names]), F.col("value")))


def _last(column: str) -> Column:
    return F.max_by(column, F.when(F.col(column).isNotNull(), F.col("observed_at_ms"))).cast("bigint")
