"""Scrape pages: names chosen before parsing, names kept as scraped, torn pages; `prometheus_client` is the oracle."""

from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families

from pipeline.codec.exposition import parse_exposition

PAGE = """\
# HELP kafka_server_bytes_total Bytes
# TYPE kafka_server_bytes_total counter
kafka_server_bytes_total{topic="a b",note="quote \\" slash \\\\ brace }"} 1.5E3
# TYPE kafka_server_rate gauge
kafka_server_rate{topic="",} NaN
kafka_server_rate +Inf 1700000000123
# TYPE jvm_threads counter
jvm_threads 7
"""


def test_all_samples():
    samples = parse_exposition(PAGE).samples
    assert [(s.name, dict(s.labels), s.timestamp_ms) for s in samples] == [
        ("kafka_server_bytes_total", {"topic": "a b", "note": 'quote " slash \\ brace }'}, None),
        ("kafka_server_rate", {"topic": ""}, None),
        ("kafka_server_rate", {}, 1700000000123),
        ("jvm_threads", {}, None),  # the library alone would call this counter jvm_threads_total
    ]
    assert (samples[0].value, samples[2].value) == (1500.0, math.inf)
    assert math.isnan(samples[1].value)


def test_chosen_by_prefix():
    assert {s.name for s in parse_exposition(PAGE, name_prefixes=["kafka_server_rate"]).samples} == {
        "kafka_server_rate"
    }
    assert len(parse_exposition(PAGE, name_prefixes=["kafka_", "jvm"]).samples) == 4
    assert parse_exposition(PAGE, name_prefixes=["server", "."]).samples == ()


def test_a_torn_page_keeps_its_whole_lines():
    page = PAGE + 'kafka_server_rate{topic="x'
    samples, bad_lines = parse_exposition(page, name_prefixes=["kafka_"])
    assert len(samples) == 3
    assert bad_lines == ((9, 'kafka_server_rate{topic="x'),)
    assert parse_exposition(page, name_prefixes=["jvm"]).bad_lines == ()  # not asked for


def test_a_real_page(capture_folder):
    page = next(iter(sorted(capture_folder.glob("scrapes/brokers/0/*.prom")))).read_text()
    gauges = "\n".join(line for line in page.splitlines() if not line.startswith("#")) + "\n"
    oracle = [s for family in text_string_to_metric_families(gauges) for s in family.samples]
    samples, bad_lines = parse_exposition(page)
    assert bad_lines == ()
    assert [(s.name, s.labels) for s in samples] == [(s.name, s.labels) for s in oracle]
    assert len(samples) > 3000
