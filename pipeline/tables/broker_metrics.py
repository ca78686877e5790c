"""Silver: what brokers say of themselves, by broker, topic and stage of a request."""

from __future__ import annotations

from pipeline.tables.table import CLUSTER, RUN_ID, TOPIC, WINDOW_DATE, WINDOW_START, Column, Table

_BY_DATE = ("cluster", "window_date")
_SOURCE = Column(name="source", type="string", nullable=False, doc="Source kind that told it.")
_INSTANCE = Column(
    name="instance", type="string", nullable=False, doc="What was scraped: the broker id, or Prometheus' `instance`."
)
_BROKER = Column(
    name="broker_id",
    type="bigint",
    doc="Broker (`node.id`) from the configuration, a label or the broker's `app-info`; NULL where nobody tells it.",
)
_METERS = (
    Column(
        name="bytes_in",
        type="double",
        unit="bytes",
        doc="Increase of `BytesInPerSec`: batches that producers sent to leaders here, as compressed; no replication.",
    ),
    Column(name="bytes_out", type="double", unit="bytes", doc="Increase of `BytesOutPerSec`: to consumers."),
    Column(
        name="message_in_count",
        type="double",
        unit="records",
        doc="Increase of `MessagesInPerSec`: records appended by producers.",
    ),
    Column(name="bytes_rejected", type="double", unit="bytes", doc="Increase of `BytesRejectedPerSec`."),
    Column(
        name="produce_request_count", type="double", unit="requests", doc="Increase of `TotalProduceRequestsPerSec`."
    ),
    Column(
        name="failed_produce_request_count",
        type="double",
        unit="requests",
        doc="Increase of `FailedProduceRequestsPerSec`.",
    ),
)
_RESETS = (
    Column(name="counter_reset_count", type="bigint", unit="resets", doc="Counter resets seen (a restarted broker)."),
    Column(
        name="gap_count",
        type="bigint",
        unit="gaps",
        doc="Intervals longer than three times the configured one; only their share within the window is counted.",
    ),
)

BROKER_METRICS = Table(
    name="silver.broker_metrics",
    grain="broker x window, as a metrics source tells it",
    key=("cluster", "window_start", "source", "instance"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _SOURCE,
        _INSTANCE,
        _BROKER,
        Column(name="sample_count", type="bigint", nullable=False, unit="scrapes", doc="Samples in the window."),
        Column(name="covered_ms", type="bigint", unit="ms", doc="Time that the increases stand for."),
        *_METERS,
        Column(
            name="replication_bytes_in",
            type="double",
            unit="bytes",
            doc="Increase of `ReplicationBytesInPerSec`: from other brokers.",
        ),
        Column(
            name="replication_bytes_out",
            type="double",
            unit="bytes",
            doc="Increase of `ReplicationBytesOutPerSec`: to other brokers.",
        ),
        Column(
            name="request_handler_idle_ratio",
            type="double",
            unit="ratio",
            doc="Idle share of the request handlers over the window (`RequestHandlerAvgIdlePercent`, its count of idle nanoseconds); where only the gauge is exposed the mean of its samples.",
        ),
        Column(
            name="network_processor_idle_ratio",
            type="double",
            unit="ratio",
            doc="Mean of the window's samples of `NetworkProcessorAvgIdlePercent`, itself over Kafka's 2 x 30 s samples.",
        ),
        Column(name="leader_count", type="bigint", unit="partitions", doc="`LeaderCount` at the last sample."),
        Column(name="partition_count", type="bigint", unit="partitions", doc="`PartitionCount` at the last sample."),
        Column(
            name="under_replicated_count", type="bigint", unit="partitions", doc="Largest `UnderReplicatedPartitions`."
        ),
        Column(name="offline_replica_count", type="bigint", unit="replicas", doc="Largest `OfflineReplicaCount`."),
        Column(
            name="log_size_bytes",
            type="bigint",
            unit="bytes",
            doc="Sum of `kafka.log Size` of all replicas at their last sample.",
        ),
        *_RESETS,
        RUN_ID,
    ),
)

BROKER_TOPICS = Table(
    name="silver.broker_topics",
    grain="broker x topic x window, as a metrics source tells it",
    key=("cluster", "window_start", "source", "instance", "topic"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _SOURCE,
        _INSTANCE,
        _BROKER,
        TOPIC,
        *_METERS,
        Column(
            name="partition_count",
            type="bigint",
            unit="replicas",
            doc="Replicas of the topic with a size; NULL if none.",
        ),
        Column(
            name="log_size_bytes",
            type="bigint",
            unit="bytes",
            doc="Sum of `kafka.log Size` of the topic's replicas at their last sample.",
        ),
        *_RESETS,
        RUN_ID,
    ),
)

BROKER_REQUEST_TIMES = Table(
    name="silver.broker_request_times",
    grain="broker x stage of Produce requests x window, as a metrics source tells it",
    key=("cluster", "window_start", "source", "instance", "stage"),
    partitioned_by=_BY_DATE,
    columns=(
        CLUSTER,
        WINDOW_DATE,
        WINDOW_START,
        _SOURCE,
        _INSTANCE,
        _BROKER,
        Column(
            name="stage",
            type="string",
            nullable=False,
            doc="`requestqueue local remote throttle responsequeue responsesend total`.",
        ),
        Column(name="request_count", type="double", unit="requests", doc="Produce requests: increase of the count."),
        Column(
            name="time_mean_ms",
            type="double",
            unit="ms",
            doc="Mean over the window's requests: increase of count x mean; NULL where the exporter drops `Mean`, as its example rules do.",
        ),
        Column(
            name="time_p50_ms",
            type="double",
            unit="ms",
            doc="Mean of the samples of the median, each over the broker's decaying sample of about five minutes.",
        ),
        Column(
            name="time_p99_ms",
            type="double",
            unit="ms",
            doc="Mean of the samples of the 99th percentile, each over the broker's decaying sample of about five minutes.",
        ),
        RUN_ID,
    ),
)

BROKER_TABLES = (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES)
