"""Silver: what brokers say of themselves, by broker, topic and stage of a request."""

from __future__ import annotations

from pipeline.tables.columns import number, text, whole
from pipeline.tables.table import BY_DATE, CLUSTER, RUN_ID, TOPIC, WINDOW_DATE, WINDOW_START, Table

_SOURCE = text("source", "Source kind that told it.")
_INSTANCE = text("instance", "What was scraped: the broker id, or Prometheus' `instance`.")
_BROKER = whole(
    "broker_id",
    "Broker (`node.id`) from the configuration, a label or the broker's `app-info`; NULL where nobody tells it.",
    nullable=True,
)
_METERS = (
    number(
        "bytes_in",
        "Increase of `BytesInPerSec`: batches that producers sent to leaders here, as compressed; no replication.",
        "bytes",
    ),
    number("bytes_out", "Increase of `BytesOutPerSec`: to consumers.", "bytes"),
    number("message_in_count", "Increase of `MessagesInPerSec`: records appended by producers.", "records"),
    number("bytes_rejected", "Increase of `BytesRejectedPerSec`.", "bytes"),
    number("produce_request_count", "Increase of `TotalProduceRequestsPerSec`.", "requests"),
    number("failed_produce_request_count", "Increase of `FailedProduceRequestsPerSec`.", "requests"),
)
_RESETS = (
    whole("counter_reset_count", "Counter resets seen (a restarted broker).", "resets", nullable=True),
    whole(
        "gap_count",
        "Intervals longer than three times the configured one; only their share within the window is counted.",
        "gaps",
        nullable=True,
    ),
)

BROKER_METRICS = Table(
    name="silver.broker_metrics",
    grain="broker x window, as a metrics source tells it",
    key=("cluster", "window_start", "source", "instance"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _SOURCE,
        _INSTANCE,
        _BROKER,
        whole("sample_count", "Samples in the window.", "scrapes"),
        whole("covered_ms", "Time that the increases stand for.", "ms", nullable=True),
        *_METERS,
        number("replication_bytes_in", "Increase of `ReplicationBytesInPerSec`: from other brokers.", "bytes"),
        number("replication_bytes_out", "Increase of `ReplicationBytesOutPerSec`: to other brokers.", "bytes"),
        number(
            "request_handler_idle_ratio",
            "Idle share of the request handlers over the window (`RequestHandlerAvgIdlePercent`, its count of idle nanoseconds); where only the gauge is exposed the mean of its samples.",
            "ratio",
        ),
        number(
            "network_processor_idle_ratio",
            "Mean of the window's samples of `NetworkProcessorAvgIdlePercent`, itself over Kafka's 2 x 30 s samples.",
            "ratio",
        ),
        whole("leader_count", "`LeaderCount` at the last sample.", "partitions", nullable=True),
        whole("partition_count", "`PartitionCount` at the last sample.", "partitions", nullable=True),
        whole("under_replicated_count", "Largest `UnderReplicatedPartitions`.", "partitions", nullable=True),
        whole("offline_replica_count", "Largest `OfflineReplicaCount`.", "replicas", nullable=True),
        whole(
            "log_size_bytes", "Sum of `kafka.log Size` of all replicas at their last sample.", "bytes", nullable=True
        ),
        *_RESETS,
        RUN_ID,
    ),
)

BROKER_TOPICS = Table(
    name="silver.broker_topics",
    grain="broker x topic x window, as a metrics source tells it",
    key=("cluster", "window_start", "source", "instance", "topic"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _SOURCE,
        _INSTANCE,
        _BROKER,
        TOPIC,
        *_METERS,
        whole("partition_count", "Replicas of the topic with a size; NULL if none.", "replicas", nullable=True),
        whole(
            "log_size_bytes",
            "Sum of `kafka.log Size` of the topic's replicas at their last sample.",
            "bytes",
            nullable=True,
        ),
        *_RESETS,
        RUN_ID,
    ),
)

BROKER_REQUEST_TIMES = Table(
    name="silver.broker_request_times",
    grain="broker x stage of Produce requests x window, as a metrics source tells it",
    key=("cluster", "window_start", "source", "instance", "stage"),
    partitioned_by=BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _SOURCE,
        _INSTANCE,
        _BROKER,
        text("stage", "`requestqueue local remote throttle responsequeue responsesend total`."),
        number("request_count", "Produce requests: increase of the count.", "requests"),
        number(
            "time_mean_ms",
            "Mean over the window's requests: increase of count x mean; NULL where the exporter drops `Mean`, as its example rules do.",
            "ms",
        ),
        number(
            "time_p50_ms",
            "Mean of the samples of the median, each over the broker's decaying sample of about five minutes.",
            "ms",
        ),
        number(
            "time_p99_ms",
            "Mean of the samples of the 99th percentile, each over the broker's decaying sample of about five minutes.",
            "ms",
        ),
        RUN_ID,
    ),
)

BROKER_TABLES = (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES)
