"""Scraped series to canonical ones, by `metric_table`: names, labels, units."""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from pipeline.codec.metrics.metric_table import FORMS_BY_NAME, Metric

CLIENT_PREFIX = "kafka_producer_producer_metrics_"
NODE_PREFIX = "kafka_producer_producer_node_metrics_"
APP_INFO_PREFIX = "kafka_producer_app_info_"
CLIENT_VERSION = f"{APP_INFO_PREFIX}version"  # a sample whose label `version` is the value
BROKER_TOPIC_PREFIX = "kafka_server_brokertopicmetrics_"
REQUEST_PREFIX = "kafka_network_requestmetrics_"
LOG_SIZE = "kafka_log_log_size"
MOST_LOG_BYTES = 1 << 48  # of a replica: more than any disk holds, and the sum over a cluster's replicas fits an int64
LIBRDKAFKA_PREFIX = "librdkafka_"
_OF_PRODUCERS = "kafka_producer_"
KEPT_PREFIXES = (
    *(_OF_PRODUCERS, BROKER_TOPIC_PREFIX, "kafka_server_replicamanager_", "kafka_server_kafkarequesthandlerpool_"),
    *("kafka_server_app_info_", REQUEST_PREFIX, "kafka_network_socketserver_", "kafka_controller_kafkacontroller_"),
)
"""Metrics beside those of the table that `bronze.metric_samples` keeps, under their own names: of the same MBeans."""
MOST_BAD_LINES = 999  # of a text: a file of noise must not become a table of noise
_LABEL_WORDS = {
    "clientid": "client_id", "nodeid": "node_id", "clientinstanceid": "client_instance_id",
    "clientrack": "client_rack", "clientsoftwarename": "client_software_name",
    "clientsoftwareversion": "client_software_version", "kafka_version": "client_software_version",  # Micrometer
    "kafka_broker_id": "broker_id", "kafka_node_id": "broker_id",
    "topic_name": "topic", "partition_id": "partition",  # kminion
    "redpanda_topic": "topic", "redpanda_partition": "partition",
}  # fmt: skip  # a table: short fields share a line
# Confluent's rules take the rest of an MBean's name for the client: `x, node-id=node-0`.
_CLIENT_AND_NODE = re.compile(r"(?P<client>.*), ?node-id=(?P<node>[^,]*)")
_OBJECT_NAME = re.compile(r"(?P<domain>[\w.]+)<type=(?P<type>[^,>]+)(?P<keys>[^>]*)><>(?P<attribute>[\w-]+)")
_OBJECT_KEY = re.compile(r", ?([\w-]+)=([^,]*)")
_LEAST_LIKENESS = 0.6
_NO_COUNTS = ("_avg", "_mean", "_max", "_min", "rate")


class Series(NamedTuple):
    """Identity of a series: canonical name, label pairs sorted by name; its name as scraped; and what its values are multiplied by."""

    name: str
    labels: tuple[tuple[str, str], ...]
    exposed_name: str
    factor: float = 1.0


class BadLine(NamedTuple):
    """A line that was not used, or was used although something is odd (number from 1); its text is not repeated."""

    number: int
    reason: str
    severity: str = "refused"


class BadLines:
    def __init__(self) -> None:
        self._kept: list[BadLine] = []
        self._count = 0

    def append(self, line: BadLine) -> None:
        self._count += 1
        self._kept += [line] if self._count <= MOST_BAD_LINES else []

    def told(self) -> tuple[BadLine, ...]:
        """The lines; one more says how many others there are."""
        others = self._count - len(self._kept)
        note = [BadLine(self._kept[-1].number, f"{others} more problems in this file")] if others else []
        return (*self._kept, *note)


class TimedSample(NamedTuple):
    observed_at_ms: int
    series: Series
    value: float


class MetricText(NamedTuple):
    samples: tuple[TimedSample, ...]
    bad_lines: tuple[BadLine, ...]


def name_series(exposed_name: str, labels: Mapping[str, str]) -> Series | None:
    """Gives a scraped series its canonical name, or its own if it is one of `KEPT_PREFIXES`; None for any other."""
    name = plain_name(exposed_name)
    plain = {_name_label(label): value for label, value in labels.items()}
    bean = _OBJECT_NAME.match(plain.pop("_objectname", ""))  # the exporter tells equal names apart by it
    if bean is not None:
        name = plain_name("_".join(bean.group("domain", "type", "attribute")))
        plain |= {_name_label(label): value for label, value in _OBJECT_KEY.findall(bean["keys"])}
    client = _CLIENT_AND_NODE.fullmatch(plain.get("client_id", ""))
    if client is not None:
        plain |= {"client_id": client["client"], "node_id": client["node"]}
    # a client that pushes its metrics (KIP-714) chooses their names: it tells of no broker
    is_pushed = "client_instance_id" in plain
    for form in FORMS_BY_NAME.get(name, ()):
        if form.fits(plain) and (not is_pushed or form.metric.name.startswith(_OF_PRODUCERS)):
            if "name" in form.where:
                del plain["name"]
            if plain.get("node_id", "").isdecimal():  # librdkafka's telemetry
                plain["node_id"] = f"node-{plain['node_id']}"
            if is_pushed:
                plain.setdefault("client_id", plain["client_instance_id"])
            pairs = tuple(sorted({**plain, **dict(form.adds)}.items()))
            return Series(form.metric.name, pairs, exposed_name, form.factor)
    if not name.startswith(_OF_PRODUCERS if is_pushed else KEPT_PREFIXES) or (
        name.startswith(REQUEST_PREFIX) and plain.get("request") != "Produce"
    ):
        return None
    return Series(name, tuple(sorted(plain.items())), exposed_name)


@lru_cache(maxsize=4096)
def plain_name(exposed_name: str) -> str:
    return exposed_name.replace(".", "_").replace("-", "_").lower()


@lru_cache(maxsize=4096)
def _name_label(label: str) -> str:
    word = plain_name(label)
    return _LABEL_WORDS.get(word, word)


def list_unknown(exposed_names: Collection[str]) -> list[tuple[str, str, str]]:
    """Names that resemble one of a metric which none of the names gives: name, the nearest known, its canonical name; nearest first."""
    plain = {plain_name(name): name for name in exposed_names}
    seen = {form.metric.meaning for name in plain for form in FORMS_BY_NAME.get(name, ())}
    missing = {
        name: forms[0].metric for name, forms in FORMS_BY_NAME.items() if not {f.metric.meaning for f in forms} & seen
    }
    unknown = []
    for name in plain.keys() - FORMS_BY_NAME.keys():
        alike = ((_likeness(name, known, metric), known) for known, metric in missing.items())
        likeness, nearest = max(alike, default=(0.0, ""))
        if likeness >= _LEAST_LIKENESS:
            unknown.append((-likeness, plain[name], nearest, missing[nearest].name))
    return [(name, nearest, canonical) for _, name, nearest, canonical in sorted(unknown)]


def _likeness(name: str, known: str, metric: Metric) -> float:
    """The part of the words that both names have; 0 for a name plainly of another kind: a rate is no count, nor is an average."""
    is_count = metric.kind == "counter" and not name.endswith(_NO_COUNTS)
    if not (is_count or metric.kind == "gauge") or name.endswith("rate") != metric.unit.endswith("/s"):
        return 0.0
    words, others = {*name.split("_")}, {*known.split("_")}
    return len(words & others) / len(words | others)
