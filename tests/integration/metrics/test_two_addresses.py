"""The whole command over a bootstrap address and a Prometheus server. Oracle: the same over the brokers' disks."""

import pytest

from tests.integration.command_line import places_of, read_mails, run_command
from tests.integration.metrics.sources import SECRET, VARIABLE
from tests.lab.measured_clients import BROKER_SCRAPE_S, WINDOW_MS
from tests.spark.capture_runs import stored


@pytest.fixture(scope="module")
def by_command(watched, tmp_path_factory):
    """`partition-health run` over two addresses, over the same brokers' disks, and over two with a wrong password."""
    folder = tmp_path_factory.mktemp("command")
    live = {"kind": "live_cluster", "bootstrap_servers": watched.cluster.bootstrap}
    disks = {"kind": "log_directories", "paths": [str(broker.log_directory) for broker in watched.cluster.brokers]}
    server = {"kind": "prometheus", "url": watched.prometheus.url, "step": f"PT{BROKER_SCRAPE_S}S"}
    access = {"basic_auth": {"username": "pipeline", "password_variable": VARIABLE}, "attempts": 1}
    wrong = {"basic_auth": {"username": "pipeline", "password_variable": "TEST_WRONG_PASSWORD"}, "attempts": 1}
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "window": f"PT{WINDOW_MS // 1000}S",
        "keys": {"secret": "secret"},
        "clusters": {
            "two-addresses": {"sources": [live, {**server, "access": access}]},
            "disks": {"sources": [disks]},
            "half-blind": {"sources": [live, {**server, "access": wrong}]},
        },
    }
    variables = {VARIABLE: SECRET, "TEST_WRONG_PASSWORD": f"not-{SECRET}"}
    printed = run_command(folder, document, watched.start_ms, document["window"], variables)
    return folder, printed


def test_two_addresses_fill_bronze_to_gold(by_command):
    folder, _ = by_command
    tables = (
        *("bronze.brokers", "bronze.cluster_state", "bronze.metric_samples", "bronze.window_status"),
        *("silver.record_batches", "silver.partition_traffic", "silver.producer_nodes"),
        *("silver.broker_metrics", "silver.broker_topics", "silver.broker_request_times"),
        *("gold.broker_share", "gold.partition_health", "gold.verdicts"),
    )
    held = {name: [r for r in stored(folder / "warehouse", name) if r["cluster"] == "two-addresses"] for name in tables}
    assert [name for name, rows in held.items() if not rows] == []
    # nobody said which address is which broker: their own metrics did
    assert {row["broker_id"] for row in held["silver.broker_metrics"]} == {0, 1, 2}
    assert {row["missing"] for row in held["bronze.window_status"]} == {None}
    assert {row["verdict"] for row in held["gold.verdicts"]} <= {"ok", "warn", "fail", "not_enough_traffic"}


def test_shares_by_two_addresses_are_shares_by_the_disks(by_command):
    folder, _ = by_command
    shares = {}
    for row in stored(folder / "warehouse", "gold.broker_share"):
        shares.setdefault(row["cluster"], {})[row["broker_id"]] = row
    live, disks = shares["two-addresses"], shares["disks"]
    assert live.keys() == disks.keys() == {0, 1, 2}
    for broker_id, row in disks.items():
        assert live[broker_id]["record_count"] == row["record_count"] > 0
        assert live[broker_id]["size_bytes"] == pytest.approx(row["size_bytes"], rel=0.01)
        assert live[broker_id]["share"] == pytest.approx(row["share"], rel=0.01)


def test_no_report_and_no_mail_holds_the_planted_secret(by_command):
    folder, printed = by_command
    mails = read_mails(folder / "outbox")
    assert any("[DATA MISSING] cluster half-blind" in part for parts in mails.values() for part in parts)
    assert "half-blind" in printed
    assert SECRET not in printed
    assert places_of(SECRET, folder, folder / "warehouse") == []
