"""From samples of brokers' metrics to what each broker, each of its topics and each stage of its Produce requests did."""

from functools import cached_property

import polars as pl

from pipeline.codec.metrics.metric_names import BROKER_TOPIC_PREFIX, LOG_SIZE, MOST_LOG_BYTES, REQUEST_PREFIX
from pipeline.codec.metrics.metric_table import STAGES
from pipeline.transforms.arithmetic import divide, instant, mean_sorted, sum_in_order
from pipeline.transforms.counters import SampleSettings, with_increases, with_scrape_before

LABELS = ("topic", "partition", "quantile", "broker_id", "id")  # labels that the summaries look at
_POOL = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle"
_REPLICAS = "kafka_server_replicamanager_"
_BEHIND = "kafka_cluster_partition_underreplicated"
_LARGEST_RATIO = 1.5  # the rate of a minute exceeds 1 by a little; a count of ns is far above
_INSTANCE = ("source", "instance")
_COUNTERS = {
    "bytes_in": "bytesin_total",
    "bytes_out": "bytesout_total",
    "message_in_count": "messagesin_total",
    "bytes_rejected": "bytesrejected_total",
    "produce_request_count": "totalproducerequests_total",
    "failed_produce_request_count": "failedproducerequests_total",
}
_WHOLE_BROKER = {f"replication_bytes_{way}": f"replicationbytes{way}_total" for way in ("in", "out")}
_STAGE_METRIC = rf"^{REQUEST_PREFIX}({'|'.join(STAGES)})timems(?:_(count|mean|sum))?$"


class BrokerSamples:
    """Samples of brokers, ready to be summarised: from `samples.with_labels`, those before the span too."""

    def __init__(self, samples: pl.DataFrame, settings: SampleSettings) -> None:
        name = pl.col("name")
        starts = ("kafka_server_", "kafka_network_", LOG_SIZE, _BEHIND)
        self._samples = samples.filter(pl.any_horizontal(name.str.starts_with(start) for start in starts))
        self._settings = settings

    def summarise_brokers(self) -> pl.DataFrame:
        counted = {**_COUNTERS, **_WHOLE_BROKER}
        either = pl.col("value").filter(pl.col("name") == f"{_POOL}percent_total")
        count, ratio = either.filter(either > _LARGEST_RATIO).max(), either.filter(either <= _LARGEST_RATIO).max()
        values = {column: _value(BROKER_TOPIC_PREFIX + metric) for column, metric in counted.items()} | {
            "handler_idle_ns": pl.coalesce(_value(f"{_POOL}percent_count"), count),
            "handler_idle": pl.coalesce(_value(f"{_POOL}_percent", f"{_POOL}percent_oneminuterate"), ratio),
            "network_idle": _value("kafka_network_socketserver_networkprocessoravgidle_percent"),
            "leaders": _value(f"{_REPLICAS}leadercount"),
            "partitions": _value(f"{_REPLICAS}partitioncount"),
            "under_replicated": _value(f"{_REPLICAS}underreplicatedpartitions"),
            "offline": _value(f"{_REPLICAS}offlinereplicacount"),
        }
        whole = self._samples.filter(pl.col("topic").is_null())
        scrapes = whole.group_by(*_INSTANCE, "observed_at_ms").agg(**values)
        increases = self._increases(scrapes, (*counted, "handler_idle_ns"), _INSTANCE, whole)
        idle_ns, covered_ms = sum_in_order(pl.col("handler_idle_ns_increase")), sum_in_order(pl.col("covered_ms"))
        idle = pl.coalesce(divide(idle_ns, covered_ms * 1e6), mean_sorted(pl.col("handler_idle")))
        brokers = increases.group_by("window_start_ms", *_INSTANCE, maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias("sample_count"),
            covered_ms.alias("covered_ms"),
            *(sum_in_order(pl.col(f"{column}_increase")).alias(column) for column in counted),
            idle.alias("request_handler_idle_ratio"),
            mean_sorted(pl.col("network_idle")).alias("network_processor_idle_ratio"),
            _last("leaders").alias("leader_count"),
            _last("partitions").alias("partition_count"),
            pl.col("under_replicated").max().cast(pl.Int64).alias("under_replicated_count"),
            pl.col("offline").max().cast(pl.Int64).alias("offline_replica_count"),
            pl.col("reset_count").sum().alias("counter_reset_count"),
            pl.col("gap_count").sum(),
        )
        place = ["window_start_ms", *_INSTANCE]
        summed = (sum_in_order(pl.col(column)).name.suffix("_topics") for column in _COUNTERS)
        topics = self._topics.group_by(place).agg(summed)
        sizes = self._log_sizes().group_by(place).agg(sum_in_order(pl.col("size")).alias("log_size_bytes"))
        behind = self._last_of(_BEHIND).group_by(place).agg((pl.col("value") > 0).sum().cast(pl.Int64).alias("behind"))
        # Redpanda has no counters of the whole broker.
        whole_broker = [pl.coalesce(column, f"{column}_topics").alias(column) for column in _COUNTERS]
        for summary in (topics, sizes, behind):
            brokers = brokers.join(summary, on=place, how="left")
        brokers = brokers.with_columns(*whole_broker, pl.coalesce("under_replicated_count", "behind"))
        return self._finished(brokers.drop("behind", *(f"{column}_topics" for column in _COUNTERS)))

    @cached_property
    def _topics(self) -> pl.DataFrame:
        subject = (*_INSTANCE, "topic")
        is_metered = pl.col("name").is_in([BROKER_TOPIC_PREFIX + metric for metric in _COUNTERS.values()])
        values = {column: _value(BROKER_TOPIC_PREFIX + metric) for column, metric in _COUNTERS.items()}
        metered = self._samples.filter(is_metered)
        scrapes = metered.filter(pl.col("topic").is_not_null()).group_by(*subject, "observed_at_ms").agg(**values)
        return (
            self._increases(scrapes, tuple(_COUNTERS), subject, metered)
            .group_by("window_start_ms", *subject, maintain_order=True)
            .agg(
                *(sum_in_order(pl.col(f"{column}_increase")).alias(column) for column in _COUNTERS),
                pl.col("reset_count").sum().alias("counter_reset_count"),
                pl.col("gap_count").sum(),
            )
        )

    def summarise_topics(self) -> pl.DataFrame:
        place = ["window_start_ms", *_INSTANCE, "topic"]
        size = sum_in_order(pl.col("size")).alias("log_size_bytes")
        sized = self._log_sizes().group_by(place).agg(size, pl.len().cast(pl.Int64).alias("partition_count"))
        return self._finished(self._topics.join(sized, on=place, how="full", coalesce=True))

    def summarise_request_times(self) -> pl.DataFrame:
        subject = (*_INSTANCE, "stage")
        times = self._samples.with_columns(
            pl.col("name").str.extract(_STAGE_METRIC, 1).alias("stage"),
            pl.col("name").str.extract(_STAGE_METRIC, 2).fill_null("").alias("part"),
            pl.col("quantile").cast(pl.Float64, strict=False),
        ).filter(pl.col("stage").is_not_null())
        part, quantile, value = pl.col("part"), pl.col("quantile"), pl.col("value")
        scrapes = times.group_by(*subject, "observed_at_ms").agg(
            value.filter(part == "count").max().alias("requests"),
            value.filter(part == "mean").max().alias("mean"),
            value.filter(part == "sum").max().alias("sum"),
            value.filter((part == "") & (quantile == 0.5)).max().alias("p50"),
            value.filter((part == "") & (quantile == 0.99)).max().alias("p99"),
        )
        timed = scrapes.with_columns(pl.coalesce("sum", pl.col("requests") * pl.col("mean")).alias("time"))
        requests = sum_in_order(pl.col("requests_increase"))
        return self._finished(
            self._increases(timed, ("requests", "time"), subject, times)
            .group_by("window_start_ms", *subject, maintain_order=True)
            .agg(
                requests.alias("request_count"),
                divide(sum_in_order(pl.col("time_increase")), requests).alias("time_mean_ms"),
                mean_sorted(pl.col("p50")).alias("time_p50_ms"),
                mean_sorted(pl.col("p99")).alias("time_p99_ms"),
            )
        )

    def _increases(
        self, scrapes: pl.DataFrame, counters: tuple[str, ...], subject: tuple[str, ...], alike: pl.DataFrame
    ) -> pl.DataFrame:
        timed = with_scrape_before(scrapes, _INSTANCE, alike).with_columns(started_at_ms=pl.lit(None, pl.Int64))
        return with_increases(timed, counters, subject, self._settings)

    def _log_sizes(self) -> pl.DataFrame:
        is_size = pl.col("value").is_between(0, MOST_LOG_BYTES)
        return self._last_of(LOG_SIZE).with_columns(pl.when(is_size).then("value").cast(pl.Int64).alias("size"))

    def _last_of(self, metric: str) -> pl.DataFrame:
        observed = pl.col("observed_at_ms")
        start = (observed - observed % self._settings.window_ms).alias("window_start_ms")
        return (
            self._samples.filter((pl.col("name") == metric) & self._settings.is_wanted)
            .group_by(start, *_INSTANCE, "topic", "partition")
            .agg(pl.col("value").sort_by("observed_at_ms").last())
        )

    def _finished(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Adds each instance's broker id: a label says it, or the broker's own app-info, or the instance is the number."""
        start = instant(pl.col("window_start_ms")).alias("window_start")
        own = pl.when(pl.col("name").str.starts_with("kafka_server_app_info_")).then(pl.col("id"))
        labelled = pl.coalesce("broker_id", own).cast(pl.Int64, strict=False).max()
        numbers = pl.col("instance").filter(pl.col("instance").str.contains(r"^\d+$")).first()
        named = numbers.cast(pl.Int64, strict=False)
        ids = self._samples.group_by(_INSTANCE).agg(pl.coalesce(labelled, named).alias("broker_id"))
        return rows.join(ids, on=_INSTANCE, how="left").with_columns(start).drop("window_start_ms")


def _value(*names: str) -> pl.Expr:
    """The value of one of these metrics in the group; of two servers that scraped the same broker the larger."""
    return pl.col("value").filter(pl.col("name").is_in(names)).max()


def _last(column: str) -> pl.Expr:
    return pl.col(column).drop_nulls().last().cast(pl.Int64)
