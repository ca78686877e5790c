"""A real broker throttles a real producer by its quota until records expire: tables, verdict and mail name the cause.

Oracle: the producer's own counters as it prints them at its end, and what the broker holds.
"""

import re
import time

import pytest

from tests.integration.command_line import read_mails, run_command
from tests.lab.artifacts import class_path, client_artifacts
from tests.lab.clients import PERF_TOOL, PRODUCERS, QUIET, exporter_agent
from tests.lab.cluster import start_cluster
from tests.lab.process import PATIENCE_S, free_ports, start_java, wait_until_ready
from tests.lab.scraper import Target, scraping
from tests.spark.capture_runs import stored

WINDOW_S, SCRAPE_S, RATE_PER_S, SECONDS = 40, 2, 400, 10
QUOTA = 15_000
"""Bytes a second, an eighth of what is sent."""
CLIENTS = {"limited": ("request.timeout.ms=2000", "delivery.timeout.ms=3000"), "free": ()}
"""And how long their records wait: three seconds at most, and as long as a busy broker takes."""
LEAD_MS = 4_000
EXPORTED = (
    "kafka.server:type=BrokerTopicMetrics,*",
    "kafka.server:type=app-info,*",
    "kafka.network:type=RequestMetrics,request=Produce,*",
)


def start_producer(cluster, client_id, port, folder):
    """Reads from its input when to begin."""
    settings = (f"bootstrap.servers={cluster.bootstrap}", f"client.id={client_id}", "linger.ms=0", *CLIENTS[client_id])
    arguments = [
        *(exporter_agent(port), QUIET, "-cp", class_path(client_artifacts("3.9.1"))),
        *(str(PRODUCERS / "StartAt.java"), "-", PERF_TOOL, "--topic", client_id, "--print-metrics"),
        *("--num-records", str(RATE_PER_S * SECONDS), "--record-size", "300", "--throughput", str(RATE_PER_S)),
        *("--producer-props", *settings),
    ]
    return start_java(client_id, arguments, folder / f"{client_id}.out", heap_mb=128, with_input=True)


def last_value(printed, name):
    """A counter as the tool prints it at its end."""
    return float(re.findall(rf"^producer-metrics:{name}:\S+\s+: ([\d.]+)", printed, re.MULTILINE)[-1])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What a run over the window printed, its folder, and what each producer printed at its end."""
    folder = tmp_path_factory.mktemp("quota")
    with start_cluster(folder / "kafka", 2, with_exporter=True, exported=EXPORTED, is_brief=True) as cluster:
        for client_id in CLIENTS:
            cluster.create_topic(client_id, "0,1")
        entity = ("--entity-type", "clients", "--entity-name", "limited")
        cluster.run_tool("kafka-configs", "--alter", "--add-config", f"producer_byte_rate={QUOTA}", *entity)
        ports = dict(zip(CLIENTS, free_ports(len(CLIENTS)), strict=True))
        targets = [Target(port, folder / "producers" / name, SCRAPE_S) for name, port in ports.items()]
        targets += [Target(b.exporter_port, folder / "brokers" / str(b.node_id), SCRAPE_S) for b in cluster.brokers]
        processes = [start_producer(cluster, name, port, folder / "output") for name, port in ports.items()]
        try:
            for process in processes:
                wait_until_ready(process)
            ready_ms = time.time_ns() // 1_000_000 + LEAD_MS
            start_ms = ready_ms + -ready_ms % (1000 * WINDOW_S)
            end_ms = start_ms + 1000 * WINDOW_S
            for process in processes:
                process.send_line(str(start_ms + LEAD_MS))
            with scraping(targets, start_ms, end_ms):
                for process in processes:
                    process.wait(PATIENCE_S)
            time.sleep(max(0.0, end_ms / 1000 + 1 - time.time()))
        finally:
            for process in processes:
                process.stop()
        document = {
            "warehouse": "warehouse",
            "outbox": "outbox",
            "window": f"PT{WINDOW_S}S",
            "keys": {"mode": "off"},
            "replay": {"arrivals": False},
            "clusters": {
                "lab": {
                    "rules": {"throttled": {"severity": "critical"}},
                    "sources": [
                        {"kind": "live_cluster", "bootstrap_servers": cluster.internal_bootstrap},
                        {"kind": "producer_metrics", "path": str(folder / "producers"), "interval": f"PT{SCRAPE_S}S"},
                        {"kind": "broker_metrics", "path": str(folder / "brokers"), "interval": f"PT{SCRAPE_S}S"},
                    ],
                }
            },
        }
        printed = run_command(folder, document, start_ms, f"PT{WINDOW_S}S", {})
    return printed, folder, {name: (folder / "output" / f"{name}.out").read_text() for name in CLIENTS}


def test_throttle_time_and_failed_sends_are_measured(run):
    _, folder, outputs = run
    failed = {name: last_value(text, "record-error-total") for name, text in outputs.items()}
    assert failed["limited"] > 0 == failed["free"]
    nodes = {row["client_id"]: row for row in stored(folder / "warehouse", "silver.producer_nodes")}
    limited, free = nodes["limited"], nodes["free"]
    # Of a minute: it only rises meanwhile, also after the tool has printed it, while the last answers are waited for.
    pages = "".join(page.read_text() for page in (folder / "producers/limited").glob("*.prom"))
    longest_ms = max(map(float, re.findall(r"^\S+_produce_throttle_time_max\S* ([\d.]+)$", pages, re.MULTILINE)))
    assert last_value(outputs["limited"], "produce-throttle-time-max") > 0
    assert 0 < limited["throttle_time_avg_ms"] <= limited["throttle_time_max_ms"] == longest_ms
    assert not free["throttle_time_max_ms"]
    counted = limited["error_rate_per_s"] * limited["covered_ms"] / 1000
    assert 0 < counted <= 1.5 * failed["limited"]  # scrapes miss the end
    assert free["error_rate_per_s"] == 0
    throttled = {
        row["broker_id"]: row["time_mean_ms"]
        for row in stored(folder / "warehouse", "silver.broker_request_times")
        if row["stage"] == "throttle" and row["request_count"]
    }
    assert throttled[0] is None or throttled[0] > 0


def test_the_cause_is_named_in_tables_and_verdict(run):
    printed, folder, _ = run
    verdicts = {
        (row["rule"], row["subject"]): row
        for row in stored(folder / "warehouse", "gold.verdicts")
        if row["rule"] in {"throttled", "failed_sends"}
    }
    for rule in ("throttled", "failed_sends"):
        assert verdicts[rule, "client limited"]["is_above"]
        assert not verdicts.get((rule, "client free"), {"is_above": False})["is_above"]
    said = ("client limited: quotas delay its produce requests by", "records were not delivered")
    for text in said:
        assert text in printed


def test_a_mail_of_the_run_names_both(run):
    """It is about the throttled client; records given up are among what happened in its window."""
    _, folder, _ = run
    mails = [" ".join(" ".join(parts).split()) for parts in read_mails(folder / "outbox").values()]
    (text,) = [mail for mail in mails if "client limited" in mail.partition("Content-Type")[0]]
    assert "quotas delay its produce requests by" in text
    assert "records were not delivered" in text
