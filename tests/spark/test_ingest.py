"""The ingested capture. Oracle: `tests/lab/facts.py`, a reader of batch headers of its own, and the capture's manifest."""

from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from prometheus_client.parser import text_string_to_metric_families

from expectations.suite_files import SUITES
from pipeline.model.window import milliseconds_of
from tests.lab.facts import measure_share_ratios
from tests.spark.capture_runs import MINUTE_MS, stored


@pytest.fixture(scope="module")
def traffic(ingested):
    return stored(ingested.warehouse, "silver.partition_traffic")


def test_every_record_and_every_byte_of_every_minute_is_counted_once(traffic, facts, capture, manifest):
    records, control, batches, sizes = Counter(), Counter(), Counter(), Counter()
    for row in traffic:
        key = (row["topic"], row["partition"], row["leader_id"])
        records[key] += row["record_count"]
        control[key] += row["control_record_count"]
        batches[key] += row["batch_count"]
        sizes[key, capture.minute_of(milliseconds_of(row["window_start"]))] += row["size_bytes"]
    assert records == Counter({key: fact.record_count for key, fact in facts.items()})
    assert +control == +Counter({key: fact.control_record_count for key, fact in facts.items()})
    assert sizes == Counter({(key, m): size for key, fact in facts.items() for m, size in fact.bytes_by_minute.items()})
    assert sum(batches.values()) == sum(fact.batch_count for fact in facts.values()) - sum(
        fact.control_record_count
        for fact in facts.values()  # a marker is a batch of one record
    )


def test_topics_hold_what_the_producers_saw_acknowledged(traffic, manifest):
    read = Counter()
    for row in traffic:
        read[row["topic"]] += row["record_count"]
    acked = Counter({str(producer["topic"]): producer["acked_count"] for producer in manifest["producers"]})
    assert read == acked


def test_nothing_is_quarantined_and_every_source_says_it_arrived(ingested, manifest, capture):
    assert stored(ingested.warehouse, "bronze.quarantine") == []
    rows = stored(ingested.warehouse, "bronze.window_status")
    windows = {row["source"]: [] for row in rows}
    for row in rows:
        windows[row["source"]].append(capture.minute_of(milliseconds_of(row["window_start"])))
        assert not row["source_expired"]
    minutes = list(range((capture.end_ms - capture.start_ms) // MINUTE_MS))
    assert windows == dict.fromkeys(
        ("broker_metrics", "consumer_groups", "log_directories", "producer_metrics"), minutes
    )
    disks = [row for row in rows if row["source"] == "log_directories"]
    assert {(row["expected_count"], row["arrived_count"]) for row in disks} == {(3, 3)}
    missed = sum(manifest["missed_scrapes"].values())
    late = sum(max(0, row["expected_count"] - row["arrived_count"]) for row in rows if row["expected_count"])
    assert late <= missed + len(minutes)  # a scrape may fall behind the edge of its minute


def test_status_counts_are_the_rows_stored(ingested):
    found = Counter()
    for name, source in (
        ("silver.record_batches", "log_directories"),
        ("bronze.metric_samples", "source"),
        ("bronze.consumer_groups", "consumer_groups"),
    ):
        query = QueryBuilder().register("stored", DeltaTable(ingested.warehouse / name.replace(".", "/")))
        named = source if source == "source" else f"'{source}' AS source"
        counts = query.execute(f"SELECT {named}, window_start, count(*) FROM stored GROUP BY 1, 2").read_all()
        found.update(
            {
                (source, start): count
                for source, start, count in zip(*pa.table(counts).to_pydict().values(), strict=True)
            }
        )
    status = stored(ingested.warehouse, "bronze.window_status", "source", "window_start", "row_count")
    told = Counter({(row["source"], row["window_start"]): row["row_count"] for row in status})
    assert +told == found


def test_every_data_gate_passes(ingested):
    replayed = {"replay_results_gate", "replay_brokers_gate", "scenario_comparison_gate", "hash_verdicts_gate"}
    replayed |= {
        "replay_contents_gate",
        "back_tests_gate",
        "producer_sessions_gate",
        "session_counts_gate",
        "service_models_gate",
    }
    every = {path.stem for path in SUITES.glob("*.json")}
    assert {report.suite for report in ingested.gate_reports} == every - replayed - {"health_gate"}
    assert [check.describe() for report in ingested.gate_reports for check in report.checks if not check.success] == []


def test_shares_are_those_of_an_independent_count(ingested, facts, capture, manifest):
    told = defaultdict(dict)
    for row in stored(ingested.warehouse, "gold.broker_share"):
        told[capture.minute_of(milliseconds_of(row["window_start"]))][row["broker_id"]] = row["share_ratio"]
    expected = measure_share_ratios(facts)
    assert told.keys() == expected.keys()
    for minute, ratios in expected.items():
        assert told[minute] == pytest.approx(ratios, abs=1e-9), minute
    slow = manifest["slow"]
    above = [minute for minute, ratios in sorted(told.items()) if ratios[slow["broker_id"]] >= 1.2]
    assert above == list(range(capture.minute_of(slow["from_ms"]), capture.minute_of(slow["to_ms"])))


def test_producers_nodes_and_latency_show_the_slow_broker(ingested, capture, manifest):
    slow = manifest["slow"]
    rows = [row for row in stored(ingested.warehouse, "silver.producer_nodes") if row["client_id"] == "orders-producer"]
    by_minute = defaultdict(dict)
    for row in rows:
        by_minute[capture.minute_of(milliseconds_of(row["window_start"]))][row["broker_id"]] = row
    in_the_middle = by_minute[capture.minute_of(slow["from_ms"]) + 2]
    latency = {broker: row["request_latency_avg_ms"] for broker, row in in_the_middle.items()}
    others = [value for broker, value in latency.items() if broker != slow["broker_id"]]
    assert latency[slow["broker_id"]] > slow["produce_delay_ms"] > max(others)


def test_brokers_counters_add_up_to_the_last_page_less_the_first(ingested, capture_folder, capture):
    """Oracle: the first and the last page of the broker within the windows, read by `prometheus_client`."""
    pages = sorted((capture_folder / "scrapes/brokers/1").glob("*.prom"), key=lambda path: int(path.stem))
    held = [path for path in pages if int(path.stem) < capture.end_ms]
    before = [path for path in held if int(path.stem) < capture.start_ms]
    first, last = (before or held)[-1 if before else 0], held[-1]
    name = "kafka_server_brokertopicmetrics_bytesin"
    values = []
    for path in (first, last):
        families = text_string_to_metric_families(path.read_text())
        samples = [s for family in families if family.name == name for s in family.samples]
        values.append({s.labels.get("topic"): s.value for s in samples})
    grown = {topic: value - values[0].get(topic, 0) for topic, value in values[1].items()}
    told = Counter()
    for row in stored(ingested.warehouse, "silver.broker_topics"):
        assert (row["instance"], row["broker_id"], row["source"]) == ("1", 1, "broker_metrics")
        told[row["topic"]] += row["bytes_in"] or 0
    assert {topic: told[topic] for topic in grown if topic} == {topic: n for topic, n in grown.items() if topic}
    whole = stored(ingested.warehouse, "silver.broker_metrics")
    assert sum(row["bytes_in"] or 0 for row in whole) == grown[None]
    assert {row["broker_id"] for row in whole} == {1}
    assert all(0 < row["request_handler_idle_ratio"] < 1.02 for row in whole)
