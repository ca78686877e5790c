"""Metrics that real clients push to a real broker (KIP-714), in both forms that reporters give them, to `silver.producer_nodes`.

Oracle: what kafka-producer-perf-test prints of the same producer at its end.
"""

import re
import subprocess

import pyarrow as pa
import pytest
from confluent_kafka import Producer, version

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.model.window import TimeWindow
from pipeline.sources.kinds.metrics import ProducerMetrics
from pipeline.sources.metrics.metric_pages import MetricPage, parse_exposition_page
from pipeline.transforms.counters import SampleSettings
from pipeline.transforms.producer_nodes import finish_nodes
from pipeline.transforms.samples import summarise_samples
from tests.lab.artifacts import BROKER_VERSION, class_path, client_artifacts, java_program
from tests.lab.clients import PERF_TOOL
from tests.lab.cluster import start_cluster
from tests.lab.process import PATIENCE_S
from tests.lab.telemetry.pushed import compile_reporter, format_pages, read_pushes

WHOLE_MS = 10**13  # one window that holds every instant
RECORD_COUNT, RATE_PER_S = 8000, 400
"""For 20 s: a client pushes first some seconds after it has connected, on a busy machine ten."""
SUBSCRIPTION = "interval.ms=1000,metrics=org.apache.kafka.producer."


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """All pushes, and the text of the perf tool."""
    root = tmp_path_factory.mktemp("telemetry")
    (folder := root / "pushed").mkdir()
    classes = compile_reporter(root / "classes")
    settings = {"metric.reporters": "ClientMetrics", "lab.telemetry.folder": str(folder)}
    with start_cluster(root / "cluster", settings=settings, classes=classes, is_brief=True) as cluster:
        cluster.create_topic("t", partitions=3)
        subscribe = ("--alter", "--entity-type", "client-metrics", "--entity-name", "lab")
        cluster.run_tool("kafka-configs", *subscribe, "--add-config", SUBSCRIPTION)
        command = [
            str(java_program()), "-Xmx128m", "-cp", class_path(client_artifacts(BROKER_VERSION)), PERF_TOOL,
            "--topic", "t", "--num-records", str(RECORD_COUNT), "--record-size", "200", "--throughput", str(RATE_PER_S),
            "--print-metrics", "--producer-props", f"bootstrap.servers={cluster.bootstrap}", "client.id=orders", "client.rack=a",
        ]  # fmt: skip
        librdkafka = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "jobs"})
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as perf_tool:
            while perf_tool.poll() is None:
                librdkafka.produce("t", b"x" * 100)
                librdkafka.poll(0.05)
            text = perf_tool.communicate(timeout=PATIENCE_S)[0]
        librdkafka.flush()
    return read_pushes(folder), text


def nodes_of(pushes, *, as_strimzi):
    """Rows by client, as the pages after each push make them."""
    reader, batches = ExpositionReader(), []
    for at_ms, text in format_pages(pushes, as_strimzi=as_strimzi):
        page = MetricPage(source="pages", instance="collector", observed_at_ms=at_ms, path="p", kind=ProducerMetrics)
        batches += parse_exposition_page(page, text, reader)
    settings = SampleSettings(span=TimeWindow(0, WHOLE_MS), window_ms=WHOLE_MS, interval_ms={})
    nodes = summarise_samples(pa.Table.from_batches(batches), settings)["silver.producer_nodes"]
    rows = finish_nodes(nodes, precedence=("pages",), client_configs={}).to_pylist()
    assert len(rows) == 2
    return {row["client_id"]: row for row in rows}


@pytest.mark.parametrize("as_strimzi", [True, False], ids=["Strimzi", "OpenTelemetry collector"])
def test_clients_that_push_are_known_by_broker(pushed, as_strimzi):
    pushes, text = pushed
    found = nodes_of(pushes, as_strimzi=as_strimzi)
    java, librdkafka = found["orders"], found["jobs"]
    printed = {
        name: float(value)
        for name, value in re.findall(
            r"^producer-node-metrics:(\S+):\{.*node-id=node-0\}\s*: (\S+)$", text, re.MULTILINE
        )
    }
    assert java["broker_id"] == librdkafka["broker_id"] == 0
    # What was sent before the first push, and after the last, is in no increase.
    assert 0.3 * printed["request-total"] < java["request_count"] <= printed["request-total"]
    assert 0.3 * printed["outgoing-byte-total"] < java["outgoing_bytes"] <= printed["outgoing-byte-total"]
    assert 0 < java["request_latency_max_ms"] <= printed["request-latency-max"]
    # The tool catches up with what it was late with, so that its rate between two pushes may be higher than asked for.
    assert 0.3 * RECORD_COUNT < java["record_rate_per_s"] * java["covered_ms"] / 1000 < 1.01 * RECORD_COUNT
    assert librdkafka["request_latency_avg_ms"] > 0
    assert librdkafka["request_count"] is None  # it does not push it
    instances = {push.client_id: push.instance_id for push in pushes}
    assert {client: row["instance"] for client, row in found.items()} == instances
    told = [(row["client_version"], row["client_software_name"], row["client_rack"]) for row in (java, librdkafka)]
    if as_strimzi:  # which passes on neither
        assert told == [(None, None, None)] * 2
    else:
        assert told[0] == (BROKER_VERSION, "apache-kafka-java", "a")
        assert told[1][0].startswith(version())
