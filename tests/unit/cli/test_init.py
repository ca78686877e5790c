"""`init` up to where a cluster is needed; `tests/integration/test_live_access.py` goes on to a verdict."""

from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.cli.init import format_config
from pipeline.config_file import load_config
from tests.lab.process import free_ports


def written(tmp_path, *, name="kafka", bootstrap="b1:9092", prometheus="", client=None, window="PT1H"):
    file = tmp_path / "partition-health.yaml"
    file.write_text(format_config(name, bootstrap, prometheus, client or {}, warehouse=Path("data"), window=window))
    return load_config(file)


def test_the_least_configuration(tmp_path):
    config = written(tmp_path)
    (source,) = config.clusters["kafka"].sources
    assert (source.kind, source.bootstrap_servers) == ("live_cluster", ("b1:9092",))
    assert (config.warehouse, config.outbox) == (tmp_path / "data", tmp_path / "data" / "mails")


@pytest.mark.parametrize("name", ["prod", "no", "3.10", "a: b", 'with "quotes" # and a hash', "größer", "{x}"])
def test_any_name_stands_in_the_file(tmp_path, name):
    assert set(written(tmp_path, name=name).clusters) == {name}


def test_prometheus_and_client_settings(tmp_path):
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "reader: #1",
        "sasl.password_variable": "KAFKA_PASSWORD",
        "ssl.truststore.location": "/etc/ca.pem",
    }
    config = written(tmp_path, prometheus="http://prometheus:9090", client=client, window="PT5M")
    live, prometheus = config.clusters["kafka"].sources
    assert live.client.sasl_username == "reader: #1"
    assert live.client.security_protocol == "SASL_SSL"
    assert prometheus.url == "http://prometheus:9090"
    assert config.window.total_seconds() == 300
    assert prometheus.step.total_seconds() == 25


@pytest.mark.parametrize(("window", "seconds"), [("PT1M", 5), ("PT15M", 30), ("PT1H", 30)])
def test_a_short_window_has_a_dozen_points_of_each_metric(tmp_path, window, seconds):
    _, prometheus = written(tmp_path, prometheus="http://prometheus:9090", window=window).clusters["kafka"].sources
    assert prometheus.step.total_seconds() == seconds


def init(folder, *arguments):
    return main(["init", "--config", str(folder / "made.yaml"), *arguments])


def test_a_file_that_is_there_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "made.yaml").write_text("mine")
    assert init(tmp_path, "--bootstrap-servers", "127.0.0.1:1") == 2
    assert "exists, and is not overwritten" in capsys.readouterr().err
    assert (tmp_path / "made.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "which brokers? --bootstrap-servers HOST:PORT"),
        (("--bootstrap-servers", "broker"), "made.yaml:"),
        (("--bootstrap-servers", "b:9092", "--prometheus", "prometheus:9090"), "made.yaml:"),
        (("--bootstrap-servers", "b:9092", "--sasl-username", "me"), "security.protocol is PLAINTEXT"),
        (("--bootstrap-servers", "b:9092", "--window", "soon"), "window"),
        (("--bootstrap-servers", "b:9092", "--warehouse", "s3a://tables/prod"), "docs/SCALE.md says what to write"),
    ],
)
def test_wrong_arguments_write_nothing(tmp_path, capsys, arguments, said):
    assert init(tmp_path, *arguments) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_does_not_serve_writes_nothing(tmp_path, capsys):
    (port,) = free_ports(1)
    assert init(tmp_path, "--bootstrap-servers", f"127.0.0.1:{port}") == 2
    printed = capsys.readouterr()
    assert "refuses connections" in printed.out
    assert "is not written" in printed.err
    assert list(tmp_path.iterdir()) == []
