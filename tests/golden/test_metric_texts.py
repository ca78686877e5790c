"""Every file with metrics in the samples, the capture and the shared data: nothing in it stays unexplained.

Oracles: `prometheus_client.parser` for pages, `json` for statistics, a line count of its own for the tool's output.
"""

import json
import math
import re
from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.metrics.metric_names import CLIENT_VERSION, Series
from pipeline.codec.metrics.perf_test_output import parse_perf_test_output
from tests.golden.runs import RUNS


def keep(name, labels):
    return Series(name, tuple(labels.items()), name)


def check_page(reader, text):
    page = reader.read(text if text.endswith("\n") else f"{text}\n")
    assert page.bad_lines == ()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert page.sample_count == len(page.series) == len(lines)
    return page


def test_pages_of_exporters(shared_data):
    pages = sorted((shared_data / "cli").glob("*exporter*/*.prom"))
    assert pages
    for path in pages:
        check_page(ExpositionReader(keep), path.read_text())
    known = ExpositionReader()
    known.read((shared_data / "cli/kafka_exporter/nexclipper_kafka_exporter_1.3.1.prom").read_text())
    assert {"kafka_brokers", "kafka_topic_partition_current_offset"} <= {series.name for series in known.series}
    (excerpt,) = (shared_data / "cli/jmx_exporter").glob("*.prom")
    named = ExpositionReader()
    sizes = named.read(excerpt.read_text())
    assert {named.series[place].name for place in sizes.series} <= {"kafka_log_log_size"}
    assert len(sizes.series) == excerpt.read_text().count('name="Size"')


def test_statistics_of_librdkafka(shared_data):
    for path in (shared_data / "cli/librdkafka").glob("*.json"):
        text = path.read_text()
        found = parse_librdkafka_statistics(text)
        document = json.loads(text)
        assert found.bad_lines == ()
        told = {
            dict(sample.series.labels)["node_id"]: sample.value
            for sample in found.samples
            if sample.series.name == "librdkafka_broker_tx_total"
        }
        assert told == {f"node-{b['nodeid']}": b["tx"] for b in document["brokers"].values()}


@pytest.mark.parametrize("name", RUNS)
def test_scrapes_of_runs(run_folder, name):
    readers = defaultdict(lambda: ExpositionReader(keep))
    paths = sorted(run_folder.glob("*.prom"))
    assert len(paths) >= 6
    for path in paths:
        instance = path.name.partition("-")[0]
        is_first = instance not in readers
        reader, text = readers[instance], path.read_text()
        page = check_page(reader, text)
        if not is_first or "broker" in instance:  # the oracle takes a second for a broker's page
            continue
        gauges = "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"
        oracle = [s for family in text_string_to_metric_families(gauges) for s in family.samples]
        ours = {reader.series[p][:2]: v for p, v in zip(page.series.tolist(), page.values.tolist(), strict=True)}
        assert len(ours) == len(oracle)
        for sample in oracle:
            value = ours[sample.name, tuple(sample.labels.items())]
            assert value == sample.value or (math.isnan(value) and math.isnan(sample.value)), sample


@pytest.mark.parametrize("name", RUNS)
def test_output_of_the_perf_tool(run_folder, name):
    text = (run_folder / "producer0.out").read_text()
    run = json.loads((run_folder / "run.json").read_text())
    found = parse_perf_test_output(text, ended_at_ms=0)
    assert found.bad_lines == ()
    values = {(s.series.name, dict(s.series.labels).get("node_id")): (s.observed_at_ms, s.value) for s in found.samples}
    ended_ms, count = values["kafka_perf_test_record_count", None]
    assert count == run["producers"][0]["num"]
    assert run["start_ms"] - 2000 <= ended_ms <= run["end_ms"] + 2000
    windows = [s for s in found.samples if s.series.name == "kafka_perf_test_window_record_count"]
    assert len(windows) == len(re.findall(r"^\d+ records sent.*max latency\.$", text, re.MULTILINE))
    assert sum(s.value for s in windows) <= count
    assert [s.observed_at_ms for s in windows] == sorted(s.observed_at_ms for s in windows)
    nodes = {
        node: values["kafka_producer_producer_node_metrics_outgoing_byte_total", node][1]
        for name, node in values
        if node and name.endswith("node_metrics_request_total")
    }
    for broker, held in run["by_broker"].items():
        assert held["log_bytes"] < nodes[f"node-{broker}"] < held["log_bytes"] * 1.15
    assert any(node.startswith("node--") for node in nodes)  # bootstrap connections
    versions = {dict(s.series.labels).get("version") for s in found.samples if s.series.name == CLIENT_VERSION}
    assert versions == {run["producers"][0]["client_version"]}


@pytest.mark.parametrize("folder", ["brokers", "producers"])
def test_scrapes_of_the_committed_capture(capture_folder, folder):
    for instance in sorted((capture_folder / "scrapes" / folder).iterdir()):
        reader = ExpositionReader()
        for path in sorted(instance.glob("*.prom")):
            page = reader.read(path.read_text())
            assert page.bad_lines == ()
            assert len(page.series) > 0


def test_statistics_of_the_committed_capture(capture_folder):
    paths = sorted(capture_folder.glob("scrapes/librdkafka/*/*.json"))
    for path in paths:
        found = parse_librdkafka_statistics(path.read_text(), observed_at_ms=int(path.stem))
        assert found.bad_lines == ()
        assert {sample.observed_at_ms for sample in found.samples} == {int(path.stem)}
