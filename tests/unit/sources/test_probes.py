"""`doctor` on sources that are not there; sources that are, are tried in the integration lane."""

from __future__ import annotations

import socket

import pytest

from pipeline.cli.doctor import examine_source
from pipeline.sources.capabilities import CAPABILITIES, COLUMNS, given_by
from pipeline.sources.kinds.dump_log import DumpLog
from pipeline.sources.kinds.get_offsets import GetOffsets
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.tables import TABLES
from tests.lab.process import free_ports


@pytest.fixture
def closed_port():
    (port,) = free_ports(1)
    return port


def live(*addresses, **settings):
    return LiveCluster(kind="live_cluster", bootstrap_servers=addresses, **settings)


def test_a_closed_port_is_named_as_such(closed_port):
    (finding,) = examine_source("prod", live(f"127.0.0.1:{closed_port}"))
    assert not finding.is_ok
    assert finding.name == "prod: live_cluster"
    assert f"port {closed_port} of 127.0.0.1 refuses connections" in finding.found
    assert finding.advice


def test_addresses_that_fail_for_different_reasons_are_told_apart(closed_port):
    (finding,) = examine_source("prod", live(f"127.0.0.1:{closed_port}", "no-such-host.invalid:9092"))
    assert "refuses connections" in finding.found
    assert "does not resolve" in finding.found


def test_a_port_that_takes_connections_and_says_nothing_is_asked_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (finding,) = examine_source("prod", live(f"127.0.0.1:{port}", connect_timeout="PT1S"))
        silent.setblocking(False)
        with silent.accept()[0], pytest.raises(BlockingIOError):
            silent.accept()
    assert "does not answer" in finding.found


def test_a_secret_that_is_not_set_is_named_and_nobody_is_asked(monkeypatch):
    monkeypatch.delenv("NO_SUCH_PASSWORD", raising=False)
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password_variable": "NO_SUCH_PASSWORD",
    }
    (finding,) = examine_source("prod", live("no-such-host.invalid:1", client=client))
    assert "NO_SUCH_PASSWORD" in finding.found
    assert not finding.is_ok


def test_paths_are_looked_at(tmp_path):
    found = list(examine_source("c", LogDirectories(kind="log_directories", paths=(tmp_path, tmp_path / "gone"))))
    assert [finding.is_ok for finding in found] == [True, False]
    (tmp_path / "a.txt").touch()
    dumps = DumpLog(kind="dump_log", paths=(tmp_path, tmp_path / "*.txt"))
    *found, gives, lacks = examine_source("c", dumps)
    assert [finding.is_ok for finding in found] == [True, True]
    assert "gold.broker_share: record_count (exact)" in gives.found
    assert [gives.name, lacks.name] == ["c: dump_log, gives", "c: dump_log, does not give"]
    assert "gold.latency" in lacks.found
    assert "gold.latency" not in gives.found
    texts = GetOffsets(kind="get_offsets", path=tmp_path / "a.txt")
    assert [finding.name for finding in examine_source("c", texts)] == ["c: get_offsets"]  # adds to others only


def test_every_number_has_a_source_and_a_word_for_each():
    for capability in CAPABILITIES:
        assert len(capability.how) == len(COLUMNS)
        assert set(capability.how) != {"-"}
    told = " ".join(capability.numbers for capability in CAPABILITIES)
    assert [table.name for table in TABLES if table.name.startswith("gold.") and table.name not in told] == []
    gives, lacks = given_by("live_cluster, read: offsets")
    assert len(gives) + len(lacks) == len(CAPABILITIES)
    assert any("record_count (upper bound)" in text for text in gives)
    assert any("gold.latency" in text for text in lacks)
