"""Who publishes what is needed, one by one, by the name it has there. Oracle: rule files, sources and pages of those who publish it."""

from pathlib import Path

import pytest

from pipeline.codec.metrics.metric_names import name_series

PAPER = (Path(__file__).parents[4] / "docs/METRICS.md").read_text()
OUTGOING = "kafka_producer_producer_node_metrics_outgoing_byte_total"
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"
OFFSET = "kafka_topic_partition_current_offset"
PRODUCE_TIME = "kafka_network_requestmetrics_totaltimems"
PUBLISHED = {
    "JMX exporter 0.x, client": ("kafka_producer_producer_node_metrics_outgoing_byte_total", {}, OUTGOING),
    "JMX exporter 1.x, client": ("kafka_producer_producer_node_metrics_outgoing_byte", {}, OUTGOING),
    "JMX exporter, default format, client": (
        "kafka_producer_producer_node_metrics_outgoing_byte_rate",
        {"client_id": "c"},
        "kafka_producer_producer_node_metrics_outgoing_byte_rate",
    ),
    "Confluent's reduced client rules": (
        "kafka_producer_producer_node_metrics_outgoing_byte_rate",
        {"client_id": "x, node-id=node-0"},
        "kafka_producer_producer_node_metrics_outgoing_byte_rate",
    ),
    "Micrometer": ("kafka_producer_node_outgoing_byte_total", {}, OUTGOING),
    "Spring Boot": ("kafka_producer_node_outgoing_byte_total", {"spring_id": "f.c"}, OUTGOING),
    "Strimzi's Connect rules": ("kafka_producer_node_outgoing_byte_total", {"clientid": "c"}, OUTGOING),
    "OpenTelemetry's Java agent": ("kafka_producer_outgoing_byte_total", {"node_id": "node-0"}, OUTGOING),
    "KIP-714 by OpenTelemetry": ("org_apache_kafka_producer_node_outgoing_byte_total", {}, OUTGOING),
    "KIP-714 by OpenTelemetry, dots": ("org.apache.kafka.producer.node.outgoing.byte.total", {}, OUTGOING),
    "KIP-714 by Strimzi": ("clients_org_apache_kafka_producer_node_outgoing_byte_total", {}, OUTGOING),
    "JMX exporter's example rules": ("kafka_server_brokertopicmetrics_bytesin_total", {}, BYTES_IN),
    "JMX exporter, default format": ("kafka_server_BrokerTopicMetrics_Count", {"name": "BytesInPerSec"}, BYTES_IN),
    "MSK's open monitoring": ("kafka_server_BrokerTopicMetrics_Count", {"name": "BytesInPerSec"}, BYTES_IN),
    "Strimzi's broker rules": ("kafka_server_brokertopicmetrics_bytesin_total", {"topic": "t"}, BYTES_IN),
    "Strimzi's metrics reporter": ("kafka_server_brokertopicmetrics_bytesinpersec_total", {}, BYTES_IN),
    "Aiven": ("kafka_server_BrokerTopicMetrics_BytesInPerSec_Count", {"host": "b"}, BYTES_IN),
    "Confluent's broker rules": ("kafka_server_brokertopicmetrics_bytesinpersec", {}, BYTES_IN),
    "Confluent's broker rules, all topics": (
        "kafka_server_brokertopicmetrics_bytesinpersec_count_alltopics",
        {},
        BYTES_IN,
    ),
    "handler idle by _objectname": (
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent",
        {"_objectname": "kafka.server<type=KafkaRequestHandlerPool, name=RequestHandlerAvgIdlePercent><>OneMinuteRate"},
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate",
    ),
    "OpenTelemetry's JMX rules": ("kafka_network_io_bytes_total", {"state": "in"}, BYTES_IN),
    "OpenTelemetry's JMX rules, time": ("kafka_request_time_99p", {"type": "produce"}, PRODUCE_TIME),
    "Redpanda": ("redpanda_kafka_request_bytes_total", {"redpanda_namespace": "kafka", "redpanda_request": "produce"}, BYTES_IN),
    "Redpanda, offsets": ("redpanda_kafka_max_offset", {"redpanda_namespace": "kafka"}, OFFSET),
    "kafka_exporter": ("kafka_topic_partition_current_offset", {}, OFFSET),
    "OpenTelemetry's Kafka receiver": ("kafka_partition_current_offset", {}, OFFSET),
    "kminion": ("kminion_kafka_topic_partition_high_water_mark", {}, OFFSET),
    "kminion, sizes": ("kminion_kafka_broker_log_dir_size_total_bytes", {}, "kminion_kafka_broker_log_dir_size_total_bytes"),
    "Confluent Cloud": ("confluent_kafka_server_received_bytes", {}, "confluent_kafka_server_received_bytes"),
}  # fmt: skip


@pytest.mark.parametrize("publisher", PUBLISHED)
def test_what_each_publishes_is_known_without_a_line_of_configuration(publisher):
    exposed, labels, canonical = PUBLISHED[publisher]
    series = name_series(exposed, labels)
    assert series is not None
    assert series.name == canonical
    assert f"(`{canonical}`)" in PAPER
