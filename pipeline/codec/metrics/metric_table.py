"""The metrics that tables are made of, and how each exporter names them: pages, queries, `doctor` and METRICS.md rest on it.

A canonical name is the one of the JMX exporter: of its default format 0.x for clients, of its example rules for brokers.
References: jmx_exporter (`JmxCollector.java`, `PrometheusNaming`, `examples/kafka-2_0_0.yml`); Strimzi `kafka-metrics.yaml`,
`metrics-reporter`; Confluent `jmx-monitoring-stacks`; Micrometer `KafkaMetrics`; OpenTelemetry `kafka-clients`, `jmx-metrics`,
`kafkametricsreceiver`; KIP-714 (`TelemetryMetricNamingConvention`); kafka_exporter; kminion; Redpanda; Confluent Cloud.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

TELEMETRY = "client telemetry (KIP-714)"
JMX_RULES, JMX_DEFAULT = "JMX exporter: example rules, Strimzi", "JMX exporter: default format, MSK"
JMX_FLAT = "JMX rules with attribute: Confluent, Aiven, reporters"
OTEL_JMX, OTEL_RECEIVER = "OpenTelemetry JMX rules", "OpenTelemetry Kafka receiver"
KAFKA_EXPORTER, KMINION, REDPANDA, CONFLUENT_CLOUD = "kafka_exporter", "kminion", "Redpanda", "Confluent Cloud"


class Metric(NamedTuple):
    """A metric that is needed: `<family>_<attribute>` is its canonical name."""

    family: str
    attribute: str
    meaning: str  # Kafka's or else the exporter's name of it; metrics that stand for each other share it
    kind: str  # counter, gauge, or text (a label holds it)
    unit: str
    is_coarse: bool = False  # one value a window suffices

    @property
    def name(self) -> str:
        return f"{self.family}_{self.attribute}" if self.attribute else self.family


class Form(NamedTuple):
    """How an exporter names a metric: in lower case, `_` for `.` and `-`."""

    exporter: str
    metric: Metric
    prefix: str
    suffix: str
    where: Mapping[str, tuple[str, ...] | None] = {}  # labels and the values they may have, "" for none; None: any
    adds: tuple[tuple[str, str], ...] = ()  # labels that the name stands for
    factor: float = 1.0  # from the exporter's unit to the metric's

    @property
    def name(self) -> str:
        return f"{self.prefix}_{self.suffix}" if self.suffix else self.prefix

    def fits(self, labels: Mapping[str, str]) -> bool:
        return all(
            label in labels if values is None else labels.get(label, "").lower() in values
            for label, values in self.where.items()
        )


# Attributes of producers' MBeans and their units; what ends in -total is a counter.
_CLIENT: dict[str, dict[str, str]] = {
    "producer-node-metrics": {
        "request-total": "requests", "request-rate": "requests/s", "outgoing-byte-total": "bytes",
        "outgoing-byte-rate": "bytes/s", "request-latency-avg": "ms", "request-latency-max": "ms",
    },
    "producer-metrics": {
        "batch-size-avg": "bytes", "records-per-request-avg": "records", "record-queue-time-avg": "ms",
        "record-queue-time-max": "ms", "produce-throttle-time-avg": "ms", "produce-throttle-time-max": "ms",
        "requests-in-flight": "requests", "buffer-available-bytes": "bytes", "buffer-total-bytes": "bytes",
        "bufferpool-wait-time-ns-total": "ns", "record-send-total": "records", "record-error-total": "records",
        "record-retry-total": "records",
    },
    "app-info": {"start-time-ms": "ms", "version": ""},
}  # fmt: skip  # a table: short fields share a line
# {group} is the MBean's type, {short} the same without -metrics.
CLIENT_EXPORTERS = {
    "JMX exporter, Strimzi's client reporter": "kafka_producer_{group}",
    "Micrometer, Spring Boot, Strimzi's Connect rules": "kafka_{short}",
    "OpenTelemetry Java agent": "kafka_producer",
    f"{TELEMETRY}: OpenTelemetry": "org_apache_kafka_{short}",
    f"{TELEMETRY}: Strimzi": "clients_org_apache_kafka_{short}",
}


def _client_forms() -> Iterator[Form]:
    for bean, attributes in _CLIENT.items():
        group = bean.replace("-", "_")
        for attribute, unit in attributes.items():
            kind = "counter" if attribute.endswith("-total") else "text" if attribute == "version" else "gauge"
            name = attribute.replace("-", "_")
            metric = Metric(f"kafka_producer_{group}", name, f"{bean} {attribute}", kind, unit)
            for exporter, prefix in CLIENT_EXPORTERS.items():
                # a connection's metrics have the same names as the client's
                is_agent = exporter.startswith("OpenTelemetry")
                if is_agent and group == "app_info":
                    continue
                prefix = prefix.format(group=group, short=group.removesuffix("_metrics"))  # noqa: PLW2901
                where = {"node_id": None} if is_agent and "node" in group else {}
                for suffix in (name, name.removesuffix("_total")) if kind == "counter" else (name,):
                    yield Form(exporter, metric, prefix, suffix, where)
            if kind == "text":  # Confluent's rules, which put the attribute's value into a label; 1.x cuts _info off
                for prefix in (metric.family, metric.family.removesuffix("_info")):
                    yield Form(next(iter(CLIENT_EXPORTERS)), metric, prefix, "", {name: None})


_TOPICS, _REQUESTS = "kafka_server_brokertopicmetrics", "kafka_network_requestmetrics"
_POOL, _SOCKETS = "kafka_server_kafkarequesthandlerpool", "kafka_network_socketserver"
_REPLICAS = "kafka_server_replicamanager"
STAGES = ("requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total")
_METERS = {
    "BytesIn": "bytes", "BytesOut": "bytes", "MessagesIn": "records", "ReplicationBytesIn": "bytes",
    "ReplicationBytesOut": "bytes", "BytesRejected": "bytes", "FailedProduceRequests": "requests",
    "TotalProduceRequests": "requests",
}  # fmt: skip  # a table: short fields share a line
_PRODUCE = {"request": ("produce",)}
_QUANTILES = (("50", ("0.5", "0.50")), ("99", ("0.99",)))


def _bean_forms(
    metric: Metric, name: str, attribute: str, *rules: str, where: Mapping[str, tuple[str, ...]] | None = None
) -> Iterator[Form]:
    """Forms of one attribute of a broker's MBean: as rules name it, and with the attribute in the name or `name` a label."""
    where = where or {}
    for rule in rules:
        yield Form(JMX_RULES, metric, metric.family, rule, where)
    yield Form(JMX_DEFAULT, metric, metric.family, attribute, {**where, "name": (name,)})
    for suffix in (f"{name}_{attribute}", *([f"{name}_count_total"] if attribute == "count" else [])):
        yield Form(JMX_FLAT, metric, metric.family, suffix, where)


def _meter_forms() -> Iterator[Form]:
    for meter, unit in _METERS.items():
        short = meter.lower()
        metric = Metric(_TOPICS, f"{short}_total", f"BrokerTopicMetrics {meter}PerSec", "counter", unit)
        yield from _bean_forms(metric, f"{short}persec", "count", f"{short}_total")
        for suffix in ("", "_total", "_count_alltopics"):  # the first: untyped, of Confluent's rules
            yield Form(JMX_FLAT, metric, _TOPICS, f"{short}persec{suffix}")
        for exporter, prefix, suffixes, where in _METERS_ELSEWHERE.get(meter, ()):
            for suffix in suffixes:
                yield Form(exporter, metric, prefix, suffix, where)


_IO = ("io_total", "io_bytes_total", "io_by_total")
_OF_KAFKA: dict[str, tuple[str, ...]] = {"redpanda_namespace": ("kafka",)}
_METERS_ELSEWHERE: dict[str, tuple[tuple[str, str, tuple[str, ...], dict[str, tuple[str, ...]]], ...]] = {
    "BytesIn": (
        (OTEL_JMX, "kafka_network", _IO, {"state": ("in",)}),
        (OTEL_JMX, "kafka_network", _IO, {"direction": ("in",)}),
        (REDPANDA, "redpanda_kafka", ("request_bytes_total",), {"redpanda_request": ("produce",), **_OF_KAFKA}),
    ),
    "BytesOut": (
        (OTEL_JMX, "kafka_network", _IO, {"state": ("out",)}),
        (OTEL_JMX, "kafka_network", _IO, {"direction": ("out",)}),
        (REDPANDA, "redpanda_kafka", ("request_bytes_total",), {"redpanda_request": ("consume", "fetch"), **_OF_KAFKA}),
    ),
    "MessagesIn": (
        (OTEL_JMX, "kafka_message", ("count_total",), {}),
        (REDPANDA, "redpanda_kafka", ("records_produced_total",), _OF_KAFKA),
    ),
    "FailedProduceRequests": ((OTEL_JMX, "kafka_request", ("failed_total",), {"type": ("produce",)}),),
    "TotalProduceRequests": ((OTEL_JMX, "kafka_request", ("count_total",), {"type": ("produce",)}),),
}


def _time_forms() -> Iterator[Form]:
    for stage in STAGES:
        name, meaning = f"{stage}timems", f"RequestMetrics {stage} time of Produce"
        count = Metric(_REQUESTS, f"{name}_count", meaning, "counter", "requests")
        mean, quantile = (Metric(_REQUESTS, name + part, meaning, "gauge", "ms") for part in ("_mean", ""))
        total = Metric(_REQUESTS, f"{name}_sum", meaning, "counter", "ms")
        yield from _bean_forms(count, name, "count", where=_PRODUCE)
        yield Form(JMX_FLAT, count, _REQUESTS, name, {**_PRODUCE, "quantile": ("",)})  # untyped, of Confluent's rules
        yield from _bean_forms(mean, name, "mean", where=_PRODUCE)
        yield Form(JMX_FLAT, total, _REQUESTS, f"{name}_sum", _PRODUCE)
        for percent, values in _QUANTILES:
            yield Form(JMX_RULES, quantile, _REQUESTS, name, {**_PRODUCE, "quantile": values})
            for form in _bean_forms(quantile, name, f"{percent}thpercentile", where=_PRODUCE):
                yield form._replace(adds=(("quantile", f"0.{percent}"),))
    # of the last stage, `total`
    for percent, _ in _QUANTILES:
        for unit_suffix, factor in (("", 1.0), ("_milliseconds", 1.0), ("_seconds", 1000.0)):
            where, adds = {"type": ("produce",)}, (("quantile", f"0.{percent}"),)
            yield Form(OTEL_JMX, quantile, "kafka_request", f"time_{percent}p{unit_suffix}", where, adds, factor)
    for latency, label in (("handler_latency", "handler"), ("request_latency", "redpanda_request")):
        for metric, part, factor in ((count, "count", 1.0), (total, "sum", 1000.0)):
            suffix = f"{latency}_seconds_{part}"
            yield Form(REDPANDA, metric, "redpanda_kafka", suffix, {label: ("produce",)}, (), factor)


def _gauge_forms() -> Iterator[Form]:
    idle = "requesthandleravgidle"
    for attribute, kind, bean_attribute, rules in (
        (f"{idle}_percent", "gauge", "meanrate", (f"{idle}_percent",)),
        (f"{idle}percent_oneminuterate", "gauge", "oneminuterate", ()),
        (f"{idle}percent_count", "counter", "count", (f"{idle}percent",)),
    ):
        unit = "ns" if kind == "counter" else ""
        metric = Metric(_POOL, attribute, "KafkaRequestHandlerPool RequestHandlerAvgIdlePercent", kind, unit)
        yield from _bean_forms(metric, f"{idle}percent", bean_attribute, *rules)
    # Strimzi's reporter: the count; Confluent's rules with the exporter's 0.x: the rate of a minute. The value tells.
    yield Form(JMX_FLAT, metric._replace(attribute=f"{idle}percent_total"), _POOL, f"{idle}percent_total")
    idle = "networkprocessoravgidle"
    metric = Metric(_SOCKETS, f"{idle}_percent", "SocketServer NetworkProcessorAvgIdlePercent", "gauge", "")
    yield from _bean_forms(metric, f"{idle}percent", "value", f"{idle}_percent", f"{idle}percent")
    for gauge, unit in (
        *(("LeaderCount", "partitions"), ("PartitionCount", "partitions")),
        *(("UnderReplicatedPartitions", "partitions"), ("OfflineReplicaCount", "replicas")),
    ):
        metric = Metric(_REPLICAS, gauge.lower(), f"ReplicaManager {gauge}", "gauge", unit)
        yield from _bean_forms(metric, gauge.lower(), "value", gauge.lower())
        elsewhere = {"PartitionCount": ["count"], "UnderReplicatedPartitions": ["underreplicated", "under_replicated"]}
        for suffix in elsewhere.get(gauge, ()):
            yield Form(OTEL_JMX, metric, "kafka_partition", suffix)


def _coarse_forms() -> Iterator[Form]:
    """What changes slowly, or is of the whole cluster, which no table by broker is made of."""
    coarse = partial(Metric, kind="gauge", is_coarse=True)
    metric = coarse("kafka_server_app_info", "starttimems", "app-info start-time-ms", unit="ms")
    for suffix in ("starttimems", "start_time_ms"):
        yield Form(JMX_RULES, metric, metric.family, suffix)
    size = coarse("kafka_log_log", "size", "Log Size", unit="bytes")
    yield from _bean_forms(size, "size", "value", "size")
    yield Form(REDPANDA, size, "vectorized_storage_log", "partition_size", {"namespace": ("kafka",)})
    behind = coarse("kafka_cluster_partition", "underreplicated", "Partition UnderReplicated", unit="")
    yield Form(REDPANDA, behind, "redpanda_kafka", "under_replicated_replicas", _OF_KAFKA)
    end = coarse("kafka_topic_partition", "current_offset", "end of a partition's log", unit="records")
    yield Form(KAFKA_EXPORTER, end, "kafka_topic_partition", "current_offset")
    yield Form(OTEL_RECEIVER, end, "kafka_partition", "current_offset")
    yield Form(KMINION, end, "kminion_kafka", "topic_partition_high_water_mark")
    yield Form(REDPANDA, end, "redpanda_kafka", "max_offset", _OF_KAFKA)
    brokers = coarse("kafka_brokers", "", "brokers of the cluster", unit="brokers")
    yield Form(KAFKA_EXPORTER, brokers, "kafka_brokers", "")
    yield Form(OTEL_RECEIVER, brokers, "kafka_brokers", "")
    yield Form(REDPANDA, brokers, "redpanda_cluster", "brokers")
    for name in ("broker_log_dir_size_total_bytes", "topic_log_dir_size_total_bytes"):
        size = coarse("kminion_kafka", name, "size of replicas, by broker or topic", unit="bytes")
        yield Form(KMINION, size, size.family, name)


def _cloud_forms() -> Iterator[Form]:
    for name in ("received_bytes", "sent_bytes", "received_records", "retained_bytes"):
        meaning = "size of a topic" if name.startswith("retained") else f"{name} of a topic in a minute"
        unit = name.partition("_")[2]
        metric = Metric("confluent_kafka_server", name, meaning.replace("_", " "), "gauge", unit)
        yield Form(CONFLUENT_CLOUD, metric, metric.family, name)


FORMS = (*(*_client_forms(), *_meter_forms(), *_time_forms(), *_gauge_forms(), *_coarse_forms(), *_cloud_forms()),)
FORMS_BY_NAME: dict[str, tuple[Form, ...]] = {}
for _form in FORMS:
    FORMS_BY_NAME[_form.name] = (*FORMS_BY_NAME.get(_form.name, ()), _form)
