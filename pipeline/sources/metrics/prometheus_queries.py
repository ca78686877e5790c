"""What is asked of a Prometheus server: one selector per family of metrics and generation of names.

Selectors rather than `or`: that operator drops the right side's series where the left has one with the same labels and
another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.sources.kinds.prometheus import Prometheus

_STAGES = "requestqueue|local|remote|throttle|responsequeue|responsesend|total"
_STAGES_DEFAULT = "RequestQueue|Local|Remote|Throttle|ResponseQueue|ResponseSend|Total"


class MetricFamily(NamedTuple):
    """Metrics asked for together: an anchored pattern of exposed names, further matchers, one point a window or all."""

    name: str
    matchers: str = ""
    is_coarse: bool = False


FAMILIES = (
    MetricFamily(
        "kafka_producer_producer_node_metrics_"
        "(request|request_total|outgoing_byte|outgoing_byte_total|request_latency_avg|request_latency_max)"
    ),
    MetricFamily(
        "kafka_producer_producer_metrics_(batch_size_avg|records_per_request_avg|record_queue_time_avg"
        "|produce_throttle_time_avg|requests_in_flight|buffer_available_bytes|buffer_total_bytes|bufferpool_wait_ratio"
        "|(bufferpool_wait_time_ns|record_send|record_error|record_retry)(_total)?)"
    ),
    MetricFamily("kafka_producer_app_info_start_time_ms"),
    MetricFamily(
        "kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin|replicationbytesin|replicationbytesout"
        "|bytesrejected|failedproducerequests|totalproducerequests)(persec)?_total"
    ),
    MetricFamily(
        "kafka_server_BrokerTopicMetrics_Count",
        matchers='name=~"(BytesIn|BytesOut|MessagesIn|ReplicationBytesIn|ReplicationBytesOut|BytesRejected'
        '|FailedProduceRequests|TotalProduceRequests)PerSec"',
    ),
    MetricFamily(
        f"kafka_network_requestmetrics_({_STAGES})timems",
        matchers='request="Produce",quantile=~"0.50|0.5|0.99"',
    ),
    MetricFamily(
        f"kafka_network_requestmetrics_({_STAGES})timems_(mean|count|count_total)", matchers='request="Produce"'
    ),
    MetricFamily(
        "kafka_network_RequestMetrics_(Mean|Count|50thPercentile|99thPercentile)",
        matchers=f'request="Produce",name=~"({_STAGES_DEFAULT})TimeMs"',
    ),
    MetricFamily(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle"
        "(_percent|percent_count|percent_count_total|percent_oneminuterate)"
    ),
    MetricFamily(
        "kafka_server_KafkaRequestHandlerPool_(OneMinuteRate|Count)",
        matchers='name="RequestHandlerAvgIdlePercent"',
    ),
    MetricFamily("kafka_network_socketserver_networkprocessoravgidle_?percent"),
    MetricFamily("kafka_network_SocketServer_Value", matchers='name="NetworkProcessorAvgIdlePercent"'),
    MetricFamily(
        "kafka_server_replicamanager_(leadercount|partitioncount|underreplicatedpartitions|offlinereplicacount)",
    ),
    MetricFamily(
        "kafka_server_ReplicaManager_Value",
        matchers='name=~"LeaderCount|PartitionCount|UnderReplicatedPartitions|OfflineReplicaCount"',
    ),
    MetricFamily("kafka_server_app_info_(starttimems|StartTimeMs|start_time_ms)", is_coarse=True),
    MetricFamily("kafka_log_log_size", is_coarse=True),
    MetricFamily("kafka_log_Log_Value", matchers='name="Size"', is_coarse=True),
    MetricFamily("kafka_topic_partition_current_offset", is_coarse=True),
)


class Query(NamedTuple):
    """An expression, the canonical name of all series in the answer (None: their own), one point a window or all."""

    promql: str
    name: str | None = None
    is_coarse: bool = False

    @property
    def subject(self) -> str:
        """What is asked for, in a word."""
        return self.name or self.promql.split('"')[1]


def iter_queries(source: Prometheus) -> Iterator[Query]:
    """The generated queries, then the configured ones.

    >>> from pipeline.sources.kinds.prometheus import Prometheus
    >>> asked = Prometheus(kind="prometheus", url="http://p:9090", selector='env="a"')
    >>> next(iter_queries(asked)).promql[-22:]
    'latency_max)",env="a"}'
    """
    for family in FAMILIES:
        matchers = ",".join(part for part in (f'__name__=~"{family.name}"', family.matchers, source.selector) if part)
        yield Query(promql=f"{{{matchers}}}", is_coarse=family.is_coarse)
    for name, promql in source.queries.items():
        if promql:
            yield Query(promql=promql, name=name)
