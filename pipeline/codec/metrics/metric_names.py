"""One name per metric, whichever exporter and version exposed it.

Four generations are in use: jmx_exporter's default format 0.x (`…_request_total`), 1.x (`…_request`: untyped metrics
lose `_total`), the exporter's own example rules for brokers (`kafka_server_brokertopicmetrics_bytesin_total`), and
its default format for them (`kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"}`), and kafka_exporter. The
canonical name is the one of the example rules for brokers, and the default format of 0.x for clients.

References:
    jmx_exporter `JmxCollector.java#defaultExport`, `PrometheusNaming.sanitizeMetricName`, `examples/kafka-2_0_0.yml`;
    kafka_exporter `kafka_exporter.go`; Kafka `SenderMetricsRegistry`, `Selector`, `RequestMetrics`.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

CLIENT_PREFIX = "kafka_producer_producer_metrics_"
NODE_PREFIX = "kafka_producer_producer_node_metrics_"
APP_INFO_PREFIX = "kafka_producer_app_info_"
CLIENT_VERSION = f"{APP_INFO_PREFIX}version"  # a sample whose label `version` is the value
BROKER_TOPIC_PREFIX = "kafka_server_brokertopicmetrics_"
REQUEST_PREFIX = "kafka_network_requestmetrics_"
LOG_SIZE = "kafka_log_log_size"
LIBRDKAFKA_PREFIX = "librdkafka_"
PERF_TEST_PREFIX = "kafka_perf_test_"

KNOWN_PREFIXES = (
    "kafka_producer_producer_",
    APP_INFO_PREFIX,
    BROKER_TOPIC_PREFIX,
    "kafka_server_replicamanager_",
    "kafka_server_kafkarequesthandlerpool_",
    "kafka_server_app_info_",
    REQUEST_PREFIX,
    "kafka_network_socketserver_",
    "kafka_controller_kafkacontroller_",
    LOG_SIZE,
    "kafka_brokers",
    "kafka_topic_",
    "kafka_consumergroup_",
)

EXPOSED_PREFIXES = (*KNOWN_PREFIXES, "kafka_producer_", "kafka_server_app-info_", "kafka_log_log_value")
"""What exposed names, in lower case, begin with that may get a canonical name of `KNOWN_PREFIXES`."""

# What the exporters of 1.x shorten: attributes of the Java producer that end in -total.
_CLIENT_COUNTERS = frozenset(
    [
        "batch_split",
        "buffer_exhausted",
        "bufferpool_wait_time",
        "bufferpool_wait_time_ns",
        "byte",
        "connection_close",
        "connection_creation",
        "failed_authentication",
        "failed_reauthentication",
        "flush_time_ns",
        "incoming_byte",
        "io_time_ns",
        "io_wait_time_ns",
        "io_waittime",
        "iotime",
        "metadata_wait_time_ns",
        "network_io",
        "outgoing_byte",
        "record_error",
        "record_retry",
        "record_send",
        "request",
        "response",
        "select",
        "successful_authentication",
        "successful_authentication_no_reauth",
        "successful_reauthentication",
        "txn_abort_time_ns",
        "txn_begin_time_ns",
        "txn_commit_time_ns",
        "txn_init_time_ns",
        "txn_prepare_time_ns",
        "txn_send_offsets_time_ns",
    ]
)
_CLIENT_METRIC = re.compile(r"kafka_producer_(?:producer|producer_node|producer_topic)_metrics_(?P<attribute>\w+)")
_YAMMER_DEFAULT = re.compile(
    r"(?P<bean>kafka_[a-z]+_[A-Za-z]+)_"
    r"(?P<attribute>Value|Count|Mean|Max|Min|StdDev|MeanRate|\w+MinuteRate|\d+thPercentile)",
    re.IGNORECASE,
)
_PERCENTILE = re.compile(r"(\d+)thpercentile")
_LABEL_WORDS = {"clientid": "client_id", "nodeid": "node_id"}


class Series(NamedTuple):
    """Identity of a series: canonical name, label pairs sorted by name; and its name as scraped."""

    name: str
    labels: tuple[tuple[str, str], ...]
    exposed_name: str


class BadLine(NamedTuple):
    """A line that was not used, or was used although something is odd (number from 1); its text is not repeated."""

    number: int
    reason: str
    severity: str = "refused"


class TimedSample(NamedTuple):
    """One value at one instant; NaN where the client had nothing recorded."""

    observed_at_ms: int
    series: Series
    value: float


class MetricText(NamedTuple):
    """A text's samples, in its order, and the lines that were not understood."""

    samples: tuple[TimedSample, ...]
    bad_lines: tuple[BadLine, ...]


def name_series(exposed_name: str, labels: Mapping[str, str]) -> Series | None:
    """Gives a scraped series its canonical name.

    None where the pipeline has no use for the metric: not of `KNOWN_PREFIXES`, or of a request that is not a Produce.

    >>> name_series("kafka_server_BrokerTopicMetrics_Count", {"name": "BytesInPerSec", "topic": "t"}).name
    'kafka_server_brokertopicmetrics_bytesin_total'
    >>> name_series("kafka_producer_producer_node_metrics_request", {"client_id": "c"}).name
    'kafka_producer_producer_node_metrics_request_total'
    """
    plain = {_name_label(label): value for label, value in labels.items()}
    name = _name_metric(exposed_name, plain)
    if not name.startswith(KNOWN_PREFIXES):
        return None
    if name.startswith(REQUEST_PREFIX) and plain.get("request", "Produce") != "Produce":
        return None
    return Series(name, tuple(sorted(plain.items())), exposed_name)


@lru_cache(maxsize=4096)
def _name_label(label: str) -> str:
    word = label.replace("-", "_").replace(".", "_").lower()
    return _LABEL_WORDS.get(word, word)


def _name_metric(exposed_name: str, labels: dict[str, str]) -> str:
    """The canonical name; takes `name` out of the labels, and puts `quantile` in, where the default format has them."""
    if "name" in labels and not _CLIENT_METRIC.fullmatch(exposed_name):
        default = _YAMMER_DEFAULT.fullmatch(exposed_name)
        if default:
            return _name_yammer(default["bean"].lower(), labels.pop("name"), default["attribute"].lower(), labels)
    return _name_by_rules(exposed_name)


@lru_cache(maxsize=4096)
def _name_by_rules(exposed_name: str) -> str:
    """The canonical name where no label is part of it."""
    client = _CLIENT_METRIC.fullmatch(exposed_name)
    if client:
        return exposed_name + ("_total" if client["attribute"] in _CLIENT_COUNTERS else "")
    name = exposed_name.replace(".", "_").replace("-", "_").lower()
    name = re.sub(r"_count_total$", "_count", name)  # 1.x gives a counter its suffix, whatever the rule says
    return re.sub(r"persec(?:_count)?(?:_total)?$", "_total", name)


def _name_yammer(bean: str, metric: str, attribute: str, labels: dict[str, str]) -> str:
    base = f"{bean}_{metric.lower()}"
    percentile = _PERCENTILE.fullmatch(attribute)
    if percentile:
        labels["quantile"] = f"0.{percentile[1]}"
        return base
    if attribute == "count":
        return f"{base.removesuffix('persec')}_total" if base.endswith("persec") else f"{base}_count"
    if attribute in {"value", "meanrate"} and "percent" in base:
        return re.sub(r"percent.*$", "_percent", base)
    return base if attribute == "value" else f"{base}_{attribute}"
