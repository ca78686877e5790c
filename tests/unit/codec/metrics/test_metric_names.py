"""One name per metric. Oracle: the same bean as each generation of exporter names it, written down by hand."""

import pytest

from pipeline.codec.metrics.metric_names import name_series

SAME = {
    ("kafka_producer_producer_node_metrics_outgoing_byte_total", (("client_id", "c"), ("node_id", "node-1"))): [
        ("kafka_producer_producer_node_metrics_outgoing_byte_total", {"client_id": "c", "node_id": "node-1"}),
        ("kafka_producer_producer_node_metrics_outgoing_byte", {"client_id": "c", "node_id": "node-1"}),
        ("kafka_producer_producer_node_metrics_outgoing_byte", {"clientId": "c", "nodeId": "node-1"}),
    ],
    ("kafka_producer_producer_metrics_request_rate", (("client_id", "c"),)): [
        ("kafka_producer_producer_metrics_request_rate", {"client-id": "c"}),
    ],
    ("kafka_server_brokertopicmetrics_bytesin_total", (("topic", "t"),)): [
        ("kafka_server_brokertopicmetrics_bytesin_total", {"topic": "t"}),
        ("kafka_server_BrokerTopicMetrics_Count", {"name": "BytesInPerSec", "topic": "t"}),
        ("kafka_server_brokertopicmetrics_count", {"name": "BytesInPerSec", "topic": "t"}),
        ("kafka_server_brokertopicmetrics_bytesinpersec_count", {"topic": "t"}),
        ("kafka_server_brokertopicmetrics_bytesinpersec_total", {"topic": "t"}),
    ],
    ("kafka_network_requestmetrics_totaltimems", (("quantile", "0.99"), ("request", "Produce"))): [
        ("kafka_network_requestmetrics_totaltimems", {"request": "Produce", "quantile": "0.99"}),
        ("kafka_network_RequestMetrics_99thPercentile", {"name": "TotalTimeMs", "request": "Produce"}),
    ],
    ("kafka_network_requestmetrics_totaltimems_count", (("request", "Produce"),)): [
        ("kafka_network_requestmetrics_totaltimems_count", {"request": "Produce"}),
        ("kafka_network_requestmetrics_totaltimems_count_total", {"request": "Produce"}),
        ("kafka_network_RequestMetrics_Count", {"name": "TotalTimeMs", "request": "Produce"}),
    ],
    ("kafka_log_log_size", (("partition", "3"), ("topic", "t"))): [
        ("kafka_log_log_size", {"topic": "t", "partition": "3"}),
        ("kafka_log_Log_Value", {"name": "Size", "topic": "t", "partition": "3"}),
    ],
    ("kafka_network_socketserver_networkprocessoravgidle_percent", ()): [
        ("kafka_network_socketserver_networkprocessoravgidle_percent", {}),
        ("kafka_network_SocketServer_Value", {"name": "NetworkProcessorAvgIdlePercent"}),
    ],
    ("kafka_server_replicamanager_leadercount", ()): [
        ("kafka_server_replicamanager_leadercount", {}),
        ("kafka_server_ReplicaManager_Value", {"name": "LeaderCount"}),
    ],
}


@pytest.mark.parametrize(("canonical", "exposed"), [(c, e) for c, known in SAME.items() for e in known])
def test_every_generation_gives_the_same_series(canonical, exposed):
    name, labels = exposed
    assert name_series(name, labels) == (*canonical, name)


def test_what_is_not_wanted():
    assert name_series("jvm_threads", {}) is None
    assert name_series("kafka_network_requestmetrics_totaltimems", {"request": "Fetch"}) is None
    assert name_series("kafka_network_RequestMetrics_Count", {"request": "Fetch", "name": "TotalTimeMs"}) is None
