"""Silver: what brokers say of themselves, by broker, topic and stage of a request."""

from pipeline.tables.table import TOPIC, bigint, dated, double, string

_REPORTED = (string("source", "Source kind that reports it."), string("instance", "What was scraped: the broker id, or Prometheus' `instance`."), bigint("broker_id", "Broker (`node.id`) from the configuration, a label or the broker's `app-info`; NULL where unknown.", nullable=True))
_METERS = (
    double("bytes_in", "Increase of `BytesInPerSec`: batches that producers sent to leaders here, as compressed; no replication.", "bytes"),
    double("bytes_out", "Increase of `BytesOutPerSec`: to consumers.", "bytes"),
    double("message_in_count", "Increase of `MessagesInPerSec`: records appended by producers.", "records"),
    double("bytes_rejected", "Increase of `BytesRejectedPerSec`.", "bytes"),
    double("produce_request_count", "Increase of `TotalProduceRequestsPerSec`.", "requests"),
    double("failed_produce_request_count", "Increase of `FailedProduceRequestsPerSec`.", "requests"),
)
_RESETS = (bigint("counter_reset_count", "Counter resets seen (a restarted broker).", "resets", nullable=True), bigint("gap_count", "Intervals over three times the configured one; only their part in the window counts.", "gaps", nullable=True))

BROKER_METRICS = dated(
    "silver.broker_metrics", "broker x window, as a metrics source reports it",
    ("cluster", "window_start", "source", "instance"),
    *_REPORTED,
    bigint("sample_count", "Samples in the window.", "scrapes"),
    bigint("covered_ms", "Time that the increases stand for.", nullable=True),
    *_METERS,
    double("replication_bytes_in", "Increase of `ReplicationBytesInPerSec`: from other brokers.", "bytes"),
    double("replication_bytes_out", "Increase of `ReplicationBytesOutPerSec`: to other brokers.", "bytes"),
    double("request_handler_idle_ratio", "Idle part of the request handlers: the count of `RequestHandlerAvgIdlePercent`, else the mean of its gauge."),
    double("network_processor_idle_ratio", "Mean of the window's samples of `NetworkProcessorAvgIdlePercent`, itself over Kafka's 2 x 30 s samples."),
    bigint("leader_count", "`LeaderCount` at the last sample.", "partitions", nullable=True),
    bigint("partition_count", "`PartitionCount` at the last sample.", "partitions", nullable=True),
    bigint("under_replicated_count", "Largest `UnderReplicatedPartitions`.", "partitions", nullable=True),
    bigint("offline_replica_count", "Largest `OfflineReplicaCount`.", "replicas", nullable=True),
    bigint("log_size_bytes", "Sum of `kafka.log Size` of all replicas, last samples.", nullable=True),
    *_RESETS,
)  # fmt: skip  # a table: short fields share a line

BROKER_TOPICS = dated(
    "silver.broker_topics", "broker x topic x window, as a metrics source reports it",
    ("cluster", "window_start", "source", "instance", "topic"),
    *_REPORTED, TOPIC, *_METERS, bigint("partition_count", "Replicas of the topic with a size; NULL if none.", "replicas", nullable=True), bigint("log_size_bytes", "Sum of `kafka.log Size` of its replicas, last samples.", nullable=True), *_RESETS,
)  # fmt: skip  # a table: short fields share a line

BROKER_REQUEST_TIMES = dated(
    "silver.broker_request_times", "broker x stage of Produce requests x window, as a metrics source reports it",
    ("cluster", "window_start", "source", "instance", "stage"),
    *_REPORTED,
    string("stage", "`requestqueue local remote throttle responsequeue responsesend total`."),
    double("request_count", "Produce requests: increase of the count.", "requests"),
    double("time_mean_ms", "Mean over the window's requests: increase of count x mean; NULL where the exporter drops `Mean`, as its example rules do."),
    double("time_p50_ms", "Mean of the samples of the median, each over the broker's decaying sample of about five minutes."),
    double("time_p99_ms", "Mean of the samples of the 99th percentile, each over the broker's decaying sample of about five minutes."),
)  # fmt: skip  # a table: short fields share a line

BROKER_TABLES = (BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES)
