"""One name per metric. Oracle: the same bean as each generation of exporter names it, written down by hand."""

import re

import pytest

from pipeline.codec.metrics.metric_names import list_unknown, name_series
from pipeline.codec.metrics.metric_table import FORMS
from pipeline.config.http_access import PrometheusServer
from pipeline.sources.metrics.prometheus import iter_queries

SAME = {
    ("kafka_producer_producer_node_metrics_outgoing_byte_total", (("client_id", "c"), ("node_id", "node-1"))): [
        ("kafka_producer_producer_node_metrics_outgoing_byte_total", {"client_id": "c", "node_id": "node-1"}),
        ("kafka_producer_producer_node_metrics_outgoing_byte", {"client_id": "c", "node_id": "node-1"}),
        ("kafka_producer_producer_node_metrics_outgoing_byte", {"clientId": "c", "nodeId": "node-1"}),
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
    assert name_series(name, labels) == (*canonical, name, 1.0)


@pytest.mark.parametrize(
    ("exposed", "labels"),
    [
        ("kafka_producer_producer_metrics_select_rate", {"client_id": "c"}),
        ("kafka_producer_request_total", {"client_id": "c"}),  # of all connections
        ("kafka_server_brokertopicmetrics_count", {"name": "FetchMessageConversionsPerSec"}),
    ],
)
def test_what_no_table_needs_keeps_its_name(exposed, labels):
    assert name_series(exposed, labels) == (exposed, tuple(labels.items()), exposed, 1.0)


def test_what_is_not_wanted():
    assert name_series("jvm_threads", {}) is None
    assert name_series("redpanda_kafka_request_bytes_total", {"redpanda_request": "follower_consume"}) is None
    assert name_series("kafka_network_requestmetrics_totaltimems", {"request": "Fetch"}) is None
    assert name_series("kafka_network_RequestMetrics_Count", {"request": "Fetch", "name": "TotalTimeMs"}) is None


def labels_of(form):
    """Labels of a series in this form; those that it must not have are absent."""
    told = {label: "any" if values is None else values[0] for label, values in form.where.items()}
    return {label: value for label, value in told.items() if value}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.name} {dict(form.where)}")
def test_every_form_is_recognised_and_asked_of_prometheus(form):
    """The server matches as `re` does here: whole values, absent labels as empty ones."""
    labels = labels_of(form)
    assert name_series(form.name, labels)[0] == form.metric.name
    answering = []
    for query in iter_queries(PrometheusServer(url="http://p")):
        matchers = re.findall(r'(\w+)=~"([^"]*)"', query.promql)
        series = {**labels, "__name__": form.name}
        if all(re.fullmatch(pattern, series.get(label, "")) for label, pattern in matchers):
            answering.append((query.subject, query.is_coarse))
    assert (form.metric.family, form.metric.is_coarse) in answering


def test_names_as_exporters_write_them_are_asked_for():
    """Capitals as the default format has them."""
    wanted = {
        "kafka_server_BrokerTopicMetrics_Count",
        "kafka_log_Log_Value",
        "kafka_server_ReplicaManager_LeaderCount_Value",
    }
    patterns = [re.search(r'__name__=~"([^"]*)"', q.promql)[1] for q in iter_queries(PrometheusServer(url="http://p"))]
    assert {name for name in wanted if any(re.fullmatch(pattern, name) for pattern in patterns)} == wanted
    assert not any(re.fullmatch(pattern, "kafka_server_BrokerTopicMetrics_OneMinuteRate") for pattern in patterns)


def test_labels_that_tell_which_client_and_broker():
    name = "kafka_producer_producer-node-metrics_outgoing_byte_rate"
    told = dict(name_series(name, {"client_type": "producer", "client_id": "x, node-id=node-0"}).labels)
    assert (told["client_id"], told["node_id"]) == ("x", "node-0")
    pushed = {"node.id": "3", "client_instance_id": "Fk9"}
    told = dict(name_series("org_apache_kafka_producer_node_request_latency_avg", pushed).labels)
    assert (told["client_id"], told["node_id"]) == ("Fk9", "node-3")
    told = dict(
        name_series(
            "org_apache_kafka_producer_batch_size_avg", {"clientId": "x", "clientSoftwareVersion": "4.2.1"}
        ).labels
    )
    assert told == {"client_id": "x", "client_software_version": "4.2.1"}


@pytest.mark.parametrize(
    ("attribute", "canonical"), [("Count", "idlepercent_count"), ("OneMinuteRate", "idlepercent_oneminuterate")]
)
def test_the_object_name_tells_equal_names_apart(attribute, canonical):
    pool = "kafka_server_kafkarequesthandlerpool_requesthandleravg"
    bean = f"kafka.server<type=KafkaRequestHandlerPool, name=RequestHandlerAvgIdlePercent><>{attribute}"
    series = name_series(f"{pool}idlepercent", {"_objectname": bean})
    assert (series.name, series.labels) == (pool + canonical, ())


def test_unknown_names_are_those_like_a_metric_that_is_missing():
    known = "kafka_server_replicamanager_leadercount"
    names = [known, f"{known}_max", "our_kafka_server_replicamanager_partitioncount", "process_cpu_seconds_total"]
    names.append("kafka_producer_producer_metrics_record_error_rate")  # like a count, and none
    assert list_unknown(names) == [(names[2], canonical := "kafka_server_replicamanager_partitioncount", canonical)]
