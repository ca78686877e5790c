"""A stranger's Prometheus: exporters by rule files that others publish, our brokers, and not a line about names of metrics.

The files are third party's and not copied: the test takes them from the folder that `PARTITION_HEALTH_RULE_FILES` names, where
each pair is `NAME/broker.yml` and `NAME/client.yml`. Oracle: batch headers in the brokers' logs.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from pipeline.config.http_access import PrometheusServer
from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow
from pipeline.runs import plan_runs
from pipeline.sources.metrics.prometheus import probe_prometheus
from tests.config_files import write_configuration
from tests.lab.facts import read_partition
from tests.lab.measured_clients import (
    BROKER_SCRAPE_S,
    PERF_CLIENTS,
    RDKAFKA_TOPIC,
    SCRAPE_S,
    WINDOW_MS,
    watch_producers,
)
from tests.lab.prometheus import find_prometheus
from tests.spark.capture_runs import stored
from tests.table_rows import take_all

VARIABLE = "PARTITION_HEALTH_RULE_FILES"
FOLDER = Path(os.environ.get(VARIABLE, "nowhere"))
RULES = sorted(file.parent.name for file in FOLDER.glob("*/broker.yml"))
JUDGED = {"broker_share", "disk_hours_to_full", "produce_errors", "broker_slow"}

pytestmark = pytest.mark.skipif(
    not RULES, reason=f"{VARIABLE} names no folder with NAME/broker.yml and NAME/client.yml"
)


@pytest.fixture(scope="module", params=RULES)
def watched(request, tmp_path_factory):
    if find_prometheus() is None:
        pytest.skip("no prometheus on this machine: install the package prometheus")
    rules = FOLDER / request.param
    folder = tmp_path_factory.mktemp("stranger")
    with watch_producers(folder, rules=(rules / "broker.yml", rules / "client.yml")) as found:
        yield found


@pytest.fixture(scope="module")
def tables(watched, tmp_path_factory):
    """All steps of a run over the window; rows of a table."""
    access = {"kind": "prometheus", "url": watched.prometheus.url}
    brokers = {f"127.0.0.1:{broker.exporter_port}": broker.node_id for broker in watched.cluster.brokers}
    sources = [
        {"kind": "log_directories", "paths": [str(broker.log_directory) for broker in watched.cluster.brokers]},
        {**access, "selector": 'job="producers"', "step": f"PT{SCRAPE_S}S"},
        # all addresses are this machine's, so that nothing but the port says which broker it is
        {**access, "selector": 'job="brokers"', "step": f"PT{BROKER_SCRAPE_S}S", "brokers": brokers},
    ]
    topics = [*PERF_CLIENTS, RDKAFKA_TOPIC]
    cluster = {"sources": sources, "topics": topics}
    path = write_configuration(tmp_path_factory.mktemp("run"), {"stranger": cluster}, window=f"PT{WINDOW_MS // 1000}S")
    span = TimeWindow(watched.start_ms, watched.end_ms)
    runs = plan_runs(load_config(path), span, run_id="stranger", now_ms=watched.end_ms + 10_000)

    take_all(runs)
    return lambda name: stored(path.parent / "warehouse", name)


def test_bytes_of_brokers_are_the_logs(watched, tables):
    written = defaultdict(int)
    for broker in watched.cluster.brokers:
        for topic in (*PERF_CLIENTS, RDKAFKA_TOPIC):
            facts = read_partition(broker.log_directory / f"{topic}-{broker.node_id}", watched.start_ms)
            written[broker.node_id] += facts.bytes_since_start
    told = {row["broker_id"]: row["bytes_in"] for row in tables("silver.broker_metrics")}
    assert told == pytest.approx(written, rel=0.02)


def test_producers_are_known_by_broker(watched, tables):
    found = {(row["client_id"], row["broker_id"]): row for row in tables("silver.producer_nodes")}
    wanted = {(f"{topic}-producer", broker.node_id) for topic in PERF_CLIENTS for broker in watched.cluster.brokers}
    assert wanted <= found.keys()
    for pair in wanted:
        assert found[pair]["outgoing_bytes"] or found[pair]["outgoing_rate_bytes_per_s"]


def test_there_is_a_verdict_of_each_broker_and_nothing_needed_is_missing(watched, tables):
    verdicts = {(row["rule"], row["subject"]): row["verdict"] for row in tables("gold.verdicts")}
    for broker in watched.cluster.brokers:
        assert verdicts["broker_share", f"broker {broker.node_id}"] in {"ok", "warn", "fail", "not_enough_traffic"}
    assert {row["broker_id"] for row in tables("gold.latency")} >= {
        broker.node_id for broker in watched.cluster.brokers
    }
    answered, *_ = probe_prometheus(PrometheusServer(url=watched.prometheus.url, step="PT5S"), pause=lambda _: None)
    assert answered.is_ok
