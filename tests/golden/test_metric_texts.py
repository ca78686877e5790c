"""Every file with metrics in the samples, the capture and the shared data: nothing in it stays unexplained.

Oracles: `prometheus_client.parser` for pages, `json` for statistics.
"""

import json
import math
from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.metrics.metric_names import Series
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
