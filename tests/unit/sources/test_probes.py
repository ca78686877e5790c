"""`doctor` on sources that are not there; sources that are, are tried in the integration lane."""

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from pipeline.cli.doctor import try_source
from pipeline.errors import SourceUnreachableError
from pipeline.sources.kinds import CAPABILITIES, COLUMNS, KINDS, list_given
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.kinds.tool_texts import GetOffsets
from pipeline.sources.live.diagnosis import find_address, probe_broker
from pipeline.sources.live.settings import ClientSettings, Secrets
from pipeline.tables import TABLES
from tests.lab.process import free_ports
from tests.unit.sources.http_servers import answering


@pytest.fixture
def closed_port():
    (port,) = free_ports(1)
    return port


def live(*addresses, **settings):
    return LiveCluster(kind="live_cluster", bootstrap_servers=addresses, **settings)


def test_a_closed_port_is_named_as_such(closed_port):
    (finding,) = try_source("prod", live(f"127.0.0.1:{closed_port}"))
    assert not finding.is_ok
    assert finding.name == "prod: live_cluster"
    assert f"port {closed_port} of 127.0.0.1 refuses connections" in finding.found
    assert finding.advice


def test_addresses_that_fail_for_different_reasons_are_told_apart(closed_port):
    (finding,) = try_source("prod", live(f"127.0.0.1:{closed_port}", "no-such-host.invalid:9092"))
    assert "refuses connections" in finding.found
    assert "does not resolve" in finding.found


def test_a_port_that_takes_connections_and_says_nothing_is_asked_once():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        (finding,) = try_source("prod", live(f"127.0.0.1:{port}", connect_timeout="PT1S"))
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
    (finding,) = try_source("prod", live("no-such-host.invalid:1", client=client))
    assert "environment variable NO_SUCH_PASSWORD, which the configuration names, is not set" in finding.found
    assert not finding.is_ok
    assert finding.advice.startswith("export the variable")


def test_paths_are_looked_at(tmp_path):
    found = list(try_source("c", LogDirectories(kind="log_directories", paths=(tmp_path, tmp_path / "gone"))))
    assert [finding.is_ok for finding in found] == [True, False]
    (tmp_path / "a.txt").touch()
    named = LogDirectories(kind="log_directories", paths=(tmp_path, tmp_path / "*.txt"))
    assert [finding.is_ok for finding in try_source("c", named)] == [True, True]
    texts = GetOffsets(kind="get_offsets", path=tmp_path / "a.txt")
    assert [finding.name for finding in try_source("c", texts)] == ["c: get_offsets"]  # adds to others only


def test_a_path_that_no_system_takes_is_a_finding(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    paths = (tmp_path / ("x" * 300), tmp_path / "loop", tmp_path / "a\0b", tmp_path)
    found = list(try_source("c", LogDirectories(kind="log_directories", paths=paths)))
    assert [(finding.is_ok, bool(finding.advice)) for finding in found] == [(False, True)] * 3 + [(True, False)]


def test_every_number_has_a_source_and_a_word_for_each():
    for how in CAPABILITIES.values():
        assert len(how) == len(COLUMNS)
        assert set(how) != {"-"}
    told = " ".join(number.columns for number in CAPABILITIES)
    assert [table.name for table in TABLES if table.name.startswith("gold.") and table.name not in told] == []
    gives, lacks = list_given(["live_cluster, read: offsets"])
    assert len(gives) + len(lacks) == len(CAPABILITIES)
    assert ("record counts" in gives, "latency" in lacks) == (True, True)
    both, neither = list_given(["live_cluster", "metrics"])
    assert ("latency" in both, "shares" in both, "latency" in neither) == (True, True, False)


def test_what_saved_texts_of_tools_add_to_others_is_given():
    texts = {"log_dirs_describe": "replica sizes", "reassign_verify": "reassignments", "consumer_groups": "groups"}
    gives, _ = list_given(["topics_describe", *(KINDS[kind].column for kind in texts)])
    assert set(texts.values()) <= set(gives)


@contextmanager
def answering_broker(answer):
    """The port of a broker that takes connections one by one; `answer` is given each, and what a request ends with."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError, struct.error), server.accept()[0] as connection:
                while True:
                    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
                    key, _, correlation = struct.unpack(">hhi", connection.recv(length, socket.MSG_WAITALL)[:8])
                    answer(connection, key, correlation)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_a_probe_has_one_deadline_however_the_broker_drips():
    with answering(struct.pack(">i", 1 << 20), forever=(b"\0",)) as url:
        port = urlsplit(url).port
        found = probe_broker("127.0.0.1", port, ClientSettings(), Secrets(""), timeout_s=0.3, log_in=False)
    assert "does not answer" in found.reason


@pytest.mark.parametrize("frame", [0, 3])
def test_an_answer_that_is_too_short_for_its_number_is_none(frame):
    with answering(struct.pack(">i", frame), forever=(b"\0",)) as url:
        port = urlsplit(url).port
        found = probe_broker("127.0.0.1", port, ClientSettings(), Secrets(""), timeout_s=600, log_in=False)
    assert "no Kafka broker" in found.reason


def refuse(connection, key, correlation):
    """It speaks Kafka, and closes the connection where it is asked for metadata."""
    if key == 3:
        connection.close()
    reply(connection, correlation, struct.pack(">hihhh", 0, 1, 18, 0, 0))


def serve(connection, key, correlation):
    none = {18: struct.pack(">hihhh", 0, 1, 18, 0, 0), 3: struct.pack(">iii", 0, -1, 0)}
    reply(connection, correlation, none[key])


def reply(connection, correlation, body):
    connection.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)


def test_one_broker_that_refuses_leaves_the_others_to_be_asked():
    """Whoever ran the first one of `bootstrap_servers` could stop each run of the cluster."""
    with answering_broker(refuse) as first, answering_broker(serve) as second:
        addresses = [f"127.0.0.1:{port}" for port in (first, second)]
        assert find_address(live(*addresses), addresses, Secrets()) == addresses[1]


def test_of_brokers_that_all_refuse_two_are_asked():
    with answering_broker(refuse) as first, answering_broker(refuse) as second, answering_broker(serve) as third:
        addresses = [f"127.0.0.1:{port}" for port in (first, second, third)]
        with pytest.raises(SourceUnreachableError, match="answers only after a login"):
            find_address(live(*addresses), addresses, Secrets())


@pytest.mark.parametrize("challenge", [b"hello", b"r=x,s=AAAA,i=4096", b"\xff"])
def test_a_login_s_answer_that_is_none_is_named(challenge):
    def answer(connection, key, correlation):
        name = b"SCRAM-SHA-256"
        body = {
            18: struct.pack(">hihhh", 0, 1, 18, 0, 0),
            17: struct.pack(">hih", 0, 1, len(name)) + name,
            36: struct.pack(">hhi", 0, -1, len(challenge)) + challenge,
        }[key]
        reply(connection, correlation, body)

    client = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    settings = ClientSettings(**client, sasl_username="u", sasl_password_variable="P")
    with answering_broker(answer) as port:
        found = probe_broker("127.0.0.1", port, settings, Secrets("pw"), timeout_s=600, log_in=True)
    assert "is malformed" in found.reason
