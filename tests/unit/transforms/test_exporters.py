"""Pages as exporters write them to rows of silver. Oracle: one producer and one broker, each page written by hand about them.

Between two scrapes, 10 s apart, the producer `orders` sends 40 requests with 6,000 bytes to broker 2 and 500 records; the
broker takes 6,000 bytes and 500 records of topic `t` in 40 produce requests, of 80 ms in all.
"""

import pyarrow as pa
import pytest

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.model.window import TimeWindow
from pipeline.sources.kinds.metrics import ProducerMetrics
from pipeline.sources.metrics.metric_pages import MetricPage, parse_exposition_page
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.producer_nodes import finish_nodes
from pipeline.transforms.samples import summarise_samples

MINUTE_MS = 60_000
SETTINGS = SampleSettings(
    span=TimeWindow(0, MINUTE_MS), window_ms=MINUTE_MS, interval_ms={"pages": 10_000}, has_brokers=True
)
# (requests, bytes, records) so far, in the two pages
SCRAPES = ((10, 1000, 100), (50, 7000, 600))

CLIENT_PAGES = {
    "JMX exporter 0.x": """\
kafka_producer_producer_node_metrics_request_total{client_id="orders",node_id="node-2",} REQUESTS
kafka_producer_producer_node_metrics_outgoing_byte_total{client_id="orders",node_id="node-2",} BYTES
kafka_producer_producer_node_metrics_request_latency_avg{client_id="orders",node_id="node-2",} 2.5
kafka_producer_producer_metrics_record_send_total{client_id="orders",} RECORDS
kafka_producer_producer_metrics_record_queue_time_avg{client_id="orders",} 4.0
""",
    "JMX exporter 1.x": """\
kafka_producer_producer_node_metrics_request{client_id="orders",node_id="node-2"} REQUESTS
kafka_producer_producer_node_metrics_outgoing_byte{client_id="orders",node_id="node-2"} BYTES
kafka_producer_producer_node_metrics_request_latency_avg{client_id="orders",node_id="node-2"} 2.5
kafka_producer_producer_metrics_record_send{client_id="orders"} RECORDS
kafka_producer_producer_metrics_record_queue_time_avg{client_id="orders"} 4.0
""",
    "Micrometer": """\
kafka_producer_node_request_total{client_id="orders",kafka_version="3.9.1",node_id="node-2",spring_id="f.orders",} REQUESTS
kafka_producer_node_outgoing_byte_total{client_id="orders",kafka_version="3.9.1",node_id="node-2",} BYTES
kafka_producer_node_request_latency_avg{client_id="orders",kafka_version="3.9.1",node_id="node-2",} 2.5
kafka_producer_request_total{client_id="orders",kafka_version="3.9.1",} 999.0
kafka_producer_record_send_total{client_id="orders",kafka_version="3.9.1",} RECORDS
kafka_producer_record_queue_time_avg{client_id="orders",kafka_version="3.9.1",} 4.0
""",
    "OpenTelemetry's agent": """\
kafka_producer_request_total{client_id="orders",node_id="node-2"} REQUESTS
kafka_producer_outgoing_byte_total{client_id="orders",node_id="node-2"} BYTES
kafka_producer_request_latency_avg{client_id="orders",node_id="node-2"} 2.5
kafka_producer_record_send_total{client_id="orders",topic="t"} RECORDS
kafka_producer_record_send_total{client_id="orders",topic="u"} 7
kafka_producer_record_queue_time_avg{client_id="orders"} 4
""",
    "client telemetry, OpenTelemetry": """\
org_apache_kafka_producer_node_request_total{clientId="orders",client_instance_id="Fk9",clientSoftwareName="apache-kafka-java",clientSoftwareVersion="4.2.1",client_rack="a",node_id="node-2"} REQUESTS
org_apache_kafka_producer_node_outgoing_byte_total{clientId="orders",client_instance_id="Fk9",clientSoftwareVersion="4.2.1",node_id="node-2"} BYTES
org_apache_kafka_producer_node_request_latency_avg{clientId="orders",client_instance_id="Fk9",clientSoftwareVersion="4.2.1",node_id="node-2"} 2.5
org_apache_kafka_producer_record_send_total{clientId="orders",client_instance_id="Fk9",clientSoftwareName="apache-kafka-java",clientSoftwareVersion="4.2.1",client_rack="a"} RECORDS
org_apache_kafka_producer_record_queue_time_avg{clientId="orders",client_instance_id="Fk9",clientSoftwareVersion="4.2.1"} 4
""",
    "client telemetry, Strimzi": """\
clients_org_apache_kafka_producer_node_request_total{client_id="orders",client_instance_id="Fk9",node_id="node-2"} REQUESTS
clients_org_apache_kafka_producer_node_outgoing_byte_total{client_id="orders",client_instance_id="Fk9",node_id="node-2"} BYTES
clients_org_apache_kafka_producer_node_request_latency_avg{client_id="orders",client_instance_id="Fk9",node_id="node-2"} 2.5
clients_org_apache_kafka_producer_record_send_total{client_id="orders",client_instance_id="Fk9"} RECORDS
clients_org_apache_kafka_producer_record_queue_time_avg{client_id="orders",client_instance_id="Fk9"} 4.0
""",
    "client telemetry, names with dots": """\
{"org.apache.kafka.producer.node.request.total","client.id"="orders","client_instance_id"="Fk9","node.id"="2"} REQUESTS
{"org.apache.kafka.producer.node.outgoing.byte.total","client.id"="orders","client_instance_id"="Fk9","node.id"="2"} BYTES
{"org.apache.kafka.producer.node.request.latency.avg","client.id"="orders","client_instance_id"="Fk9","node.id"="2"} 2.5
{"org.apache.kafka.producer.record.send.total","client.id"="orders","client_instance_id"="Fk9"} RECORDS
{"org.apache.kafka.producer.record.queue.time.avg","client.id"="orders","client_instance_id"="Fk9"} 4
""",
}
BROKER_PAGES = {
    "JMX exporter, example rules": """\
kafka_server_brokertopicmetrics_bytesin_total BYTES
kafka_server_brokertopicmetrics_bytesin_total{topic="t",} BYTES
kafka_server_brokertopicmetrics_messagesin_total{topic="t",} RECORDS
kafka_server_brokertopicmetrics_messagesin_total RECORDS
kafka_server_brokertopicmetrics_totalproducerequests_total REQUESTS
kafka_network_requestmetrics_totaltimems_count{request="Produce",} REQUESTS
kafka_network_requestmetrics_totaltimems_mean{request="Produce",} 2.0
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99",} 9.0
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent 0.75
kafka_server_replicamanager_leadercount 3.0
""",
    "JMX exporter, default format": """\
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",} BYTES
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="t",} BYTES
kafka_server_BrokerTopicMetrics_Count{name="MessagesInPerSec",topic="t",} RECORDS
kafka_server_BrokerTopicMetrics_Count{name="MessagesInPerSec",} RECORDS
kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",} 600
kafka_server_BrokerTopicMetrics_Count{name="TotalProduceRequestsPerSec",} REQUESTS
kafka_network_RequestMetrics_Count{name="TotalTimeMs",request="Produce",} REQUESTS
kafka_network_RequestMetrics_Mean{name="TotalTimeMs",request="Produce",} 2.0
kafka_network_RequestMetrics_99thPercentile{name="TotalTimeMs",request="Produce",} 9.0
kafka_server_KafkaRequestHandlerPool_OneMinuteRate{name="RequestHandlerAvgIdlePercent",} 0.75
kafka_server_ReplicaManager_Value{name="LeaderCount",} 3.0
""",
    "Aiven": """\
kafka_server_BrokerTopicMetrics_BytesInPerSec_Count{host="b2"} BYTES
kafka_server_BrokerTopicMetrics_BytesInPerSec_Count{host="b2",topic="t"} BYTES
kafka_server_BrokerTopicMetrics_MessagesInPerSec_Count{host="b2",topic="t"} RECORDS
kafka_server_BrokerTopicMetrics_MessagesInPerSec_Count{host="b2"} RECORDS
kafka_server_BrokerTopicMetrics_TotalProduceRequestsPerSec_Count{host="b2"} REQUESTS
kafka_network_RequestMetrics_TotalTimeMs_Count{host="b2",request="Produce"} REQUESTS
kafka_network_RequestMetrics_TotalTimeMs_Mean{host="b2",request="Produce"} 2
kafka_network_RequestMetrics_TotalTimeMs_99thPercentile{host="b2",request="Produce"} 9
kafka_server_KafkaRequestHandlerPool_RequestHandlerAvgIdlePercent_OneMinuteRate{host="b2"} 0.75
kafka_server_ReplicaManager_LeaderCount_Value{host="b2"} 3
""",
    "Confluent's rules, exporter 1.x": """\
kafka_server_brokertopicmetrics_bytesinpersec BYTES
kafka_server_brokertopicmetrics_bytesinpersec{topic="t"} BYTES
kafka_server_brokertopicmetrics_messagesinpersec{topic="t"} RECORDS
kafka_server_brokertopicmetrics_messagesinpersec RECORDS
kafka_server_brokertopicmetrics_totalproducerequestspersec REQUESTS
kafka_network_requestmetrics_totaltimems{request="Produce"} REQUESTS
kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Produce"} 9.0
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent{_objectname="kafka.server<type=KafkaRequestHandlerPool, name=RequestHandlerAvgIdlePercent><>OneMinuteRate"} 0.75
kafka_server_replicamanager_leadercount 3.0
""",
    "Confluent's rules, exporter 0.x": """\
kafka_server_brokertopicmetrics_bytesinpersec BYTES
kafka_server_brokertopicmetrics_bytesinpersec{topic="t",} BYTES
kafka_server_brokertopicmetrics_messagesinpersec{topic="t",} RECORDS
kafka_server_brokertopicmetrics_messagesinpersec RECORDS
kafka_server_brokertopicmetrics_totalproducerequestspersec REQUESTS
kafka_network_requestmetrics_totaltimems{request="Produce",} REQUESTS
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99",} 9.0
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total 0.75
kafka_server_replicamanager_leadercount 3.0
""",
    "Strimzi's reporter": """\
kafka_server_brokertopicmetrics_bytesinpersec_total BYTES
kafka_server_brokertopicmetrics_bytesinpersec_total{topic="t"} BYTES
kafka_server_brokertopicmetrics_messagesinpersec_total{topic="t"} RECORDS
kafka_server_brokertopicmetrics_messagesinpersec_total RECORDS
kafka_server_brokertopicmetrics_totalproducerequestspersec_total REQUESTS
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 9.0
kafka_network_requestmetrics_totaltimems_count{request="Produce"} REQUESTS
kafka_network_requestmetrics_totaltimems_sum{request="Produce"} TIME
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total IDLE_NS
kafka_server_replicamanager_leadercount 3.0
""",
    "OpenTelemetry's JMX rules": """\
kafka_network_io_bytes_total{state="in"} BYTES
kafka_message_count_total RECORDS
kafka_request_count_total{type="produce"} REQUESTS
kafka_request_count_total{type="fetch"} 77
kafka_request_time_99p_milliseconds{type="produce"} 9
""",
    "Redpanda": """\
redpanda_kafka_request_bytes_total{redpanda_namespace="kafka",redpanda_request="produce",redpanda_topic="t"} BYTES
redpanda_kafka_request_bytes_total{redpanda_namespace="kafka",redpanda_request="follower_consume",redpanda_topic="t"} 5
redpanda_kafka_request_bytes_total{redpanda_namespace="redpanda",redpanda_request="produce",redpanda_topic="controller"} 5
redpanda_kafka_records_produced_total{redpanda_namespace="kafka",redpanda_topic="t"} RECORDS
redpanda_kafka_handler_latency_seconds_count{handler="produce"} REQUESTS
redpanda_kafka_handler_latency_seconds_sum{handler="produce"} SECONDS
redpanda_kafka_handler_latency_seconds_bucket{handler="produce",le="+Inf"} REQUESTS
redpanda_kafka_under_replicated_replicas{redpanda_namespace="kafka",redpanda_partition="0",redpanda_topic="t"} 1
redpanda_kafka_under_replicated_replicas{redpanda_namespace="kafka",redpanda_partition="1",redpanda_topic="t"} 0
""",
}


def summarise(template, instance="2"):
    """The tables that two pages of one exporter make, 10 s apart."""
    reader, batches = ExpositionReader(), []
    for at_ms, (requests, sent, records) in zip((20_000, 30_000), SCRAPES, strict=True):
        text = template.replace("REQUESTS", str(requests)).replace("BYTES", str(sent)).replace("RECORDS", str(records))
        text = text.replace("TIME", str(requests * 2)).replace("SECONDS", str(requests * 0.002))
        text = text.replace("IDLE_NS", str(int(at_ms * 0.75e6)))
        page = MetricPage(source="pages", instance=instance, observed_at_ms=at_ms, path="p", kind=ProducerMetrics)
        batches += parse_exposition_page(page, text, reader)
    return summarise_samples(pa.Table.from_batches(batches), SETTINGS)


def nodes_of(template):
    found = summarise(template, "app-1")["silver.producer_nodes"]
    return finish_nodes(found, precedence=("pages",), client_configs={}).to_pylist()


@pytest.mark.parametrize("exporter", CLIENT_PAGES)
def test_a_producer_under_every_name(exporter):
    (row,) = nodes_of(CLIENT_PAGES[exporter])
    assert (row["client_id"], row["broker_id"]) == ("orders", 2)
    assert (row["request_count"], row["outgoing_bytes"], row["covered_ms"]) == (40, 6000, 10_000)
    assert (row["request_latency_avg_ms"], row["queue_time_avg_ms"], row["record_rate_per_s"]) == (2.5, 4, 50)
    versions = {"Micrometer": "3.9.1", "client telemetry, OpenTelemetry": "4.2.1"}
    assert row["client_version"] == versions.get(exporter)
    assert row["instance"] == ("Fk9" if "telemetry," in exporter else "app-1")
    if exporter == "client telemetry, OpenTelemetry":
        assert (row["client_software_name"], row["client_rack"]) == ("apache-kafka-java", "a")


@pytest.mark.parametrize(
    ("app_info", "version"),
    [
        ('kafka_producer_app_info{client_type="producer",client_id="orders",version="3.9.1",}', "3.9.1"),
        (
            'kafka_producer_app{client_type="producer",client_id="orders",version="3.9.1"}',
            "3.9.1",
        ),  # the exporter's 1.x
        ('kafka_producer_app_info{client_type="producer",client_id="orders",version="<cache>",}', None),
    ],
)
def test_confluent_s_reduced_client_rules(app_info, version):
    """Rates alone, and the connection in the client's label."""
    (row,) = nodes_of(f"""\
{app_info} 1
kafka_producer_producer_metrics_outgoing_byte_rate{{client_type="producer",client_id="orders"}} 900
kafka_producer_producer_node_metrics_outgoing_byte_rate{{client_type="producer",client_id="orders, node-id=node-2"}} 600
kafka_producer_producer_node_metrics_outgoing_byte_rate{{client_type="producer",client_id="orders, node-id=node--1"}} 1
kafka_producer_producer_metrics_record_queue_time_avg{{client_type="producer",client_id="orders"}} 4
kafka_producer_producer_topic_metrics_record_send_total{{client_type="producer",client_id="orders, topic=t"}} 5
""")
    assert (row["client_id"], row["broker_id"], row["client_version"]) == ("orders", 2, version)
    assert (row["outgoing_rate_bytes_per_s"], row["outgoing_bytes"], row["queue_time_avg_ms"]) == (600, None, 4)


@pytest.mark.parametrize("exporter", BROKER_PAGES)
def test_a_broker_under_every_name(exporter):
    found = summarise(BROKER_PAGES[exporter])
    (broker,), topics = (found[f"silver.broker_{name}"].to_pylist() for name in ("metrics", "topics"))
    assert (broker["broker_id"], broker["bytes_in"], broker["message_in_count"]) == (2, 6000, 500)
    has_gauges = exporter not in {"OpenTelemetry's JMX rules", "Redpanda"}
    assert broker["produce_request_count"] == (None if exporter == "Redpanda" else 40)
    assert broker["leader_count"] == (3 if has_gauges else None)
    assert broker["request_handler_idle_ratio"] == (pytest.approx(0.75) if has_gauges else None)
    assert broker["under_replicated_count"] == (1 if exporter == "Redpanda" else None)
    by_topic = {topic["topic"]: topic["bytes_in"] for topic in topics if topic["bytes_in"] is not None}
    assert by_topic == ({} if exporter == "OpenTelemetry's JMX rules" else {"t": 6000})
    (total,) = found["silver.broker_request_times"].to_pylist()
    has_mean = "Confluent" not in exporter and "OpenTelemetry" not in exporter
    assert (total["stage"], total["time_mean_ms"]) == ("total", pytest.approx(2) if has_mean else None)
    assert total["request_count"] == (None if exporter == "OpenTelemetry's JMX rules" else 40)
    assert total["time_p99_ms"] == (None if exporter == "Redpanda" else 9)


def test_what_is_scraped_of_a_client_counts_before_what_it_pushes():
    (row,) = nodes_of(CLIENT_PAGES["Micrometer"] + CLIENT_PAGES["client telemetry, Strimzi"])
    assert row["instance"] == "app-1"


def test_two_clients_of_one_name_that_push_are_two():
    page = CLIENT_PAGES["client telemetry, Strimzi"]
    rows = nodes_of(page + page.replace("Fk9", "Zx1"))
    assert [(row["instance"], row["outgoing_bytes"]) for row in rows] == [("Fk9", 6000), ("Zx1", 6000)]


@pytest.mark.parametrize("value", ["+Inf", "-Inf", "1e300", "9.3e18", "-5"])
def test_no_value_or_node_of_a_page_ends_the_run(value):
    """A column that cannot be cast stops the ingest, and a negative count or latency the gate after it."""
    page = f"""\
kafka_server_replicamanager_leadercount {value}
kafka_server_replicamanager_underreplicatedpartitions {value}
kafka_log_log_size{{topic="t",partition="0"}} {value}
kafka_log_log_size{{topic="t",partition="1"}} 4e18
kafka_log_log_size{{topic="t",partition="2"}} 7
kafka_producer_app_info_start_time_ms{{client_id="c"}} {value}
kafka_producer_producer_node_metrics_request_total{{client_id="c",node_id="node-1"}} {value}
kafka_producer_producer_node_metrics_request_latency_avg{{client_id="c",node_id="node-1"}} {value}
kafka_producer_producer_node_metrics_request_total{{client_id="c",node_id="node-99999999999999999999"}} 1
kafka_producer_producer_node_metrics_request_total{{client_id="c",node_id="node-\u0663"}} 1
"""
    assert [(row["broker_id"], row["request_latency_avg_ms"]) for row in nodes_of(page)] == [(1, None)]
    (broker,) = summarise(page)["silver.broker_metrics"].to_pylist()
    assert (broker["leader_count"], broker["under_replicated_count"], broker["log_size_bytes"]) == (None, None, 7)
