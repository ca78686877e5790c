"""The doctor on folders and servers that are there, and on ones that are not."""

import json
from importlib import metadata

import numpy as np
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Sink

from pipeline.cli import main
from pipeline.cli.doctor import as_text, list_in_clear
from pipeline.config_file import load_config
from pipeline.sources.questions import Finding
from pipeline.storage.tables_on_disk import ensure_tables
from tests.lab.process import free_ports

CONFIG = """
warehouse: tables
outbox: outbox
clusters:
  demo: {{sources: [{{kind: log_directories, paths: [logs]}}]}}
mail: {mail}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    jar = tmp_path / "delta.jar"
    jar.write_bytes(b"")
    monkeypatch.setenv("DELTA_JARS", str(jar))
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    return tmp_path


def examined(folder, capsys, mail="{}", more=""):
    """Exit code, and what is wrong by name."""
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(mail=mail) + more)
    code = main(["doctor", "--config", str(path), "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check for check in checks if bool(check["advice"]) is check["is_ok"]] == []
    return code, {check["name"]: check["found"] for check in checks if not check["is_ok"]}, {c["name"] for c in checks}


def test_where_all_is_well_it_says_so(folder, capsys):
    ensure_tables(folder / "tables")
    code, wrong, names = examined(folder, capsys)
    assert (code, wrong) == (0, {})
    known = {"Java", "Delta jars", "packages", "warehouse", "tables", "demo: log_directories", "mail", "Airflow"}
    assert known <= names


def test_what_is_missing_is_named(folder, capsys, monkeypatch):
    (folder / "logs").rmdir()
    (folder / "tables").write_text("a file in the way")
    monkeypatch.setenv("DELTA_JARS", "/nowhere/delta.jar")
    code, wrong, _ = examined(folder, capsys)
    assert code == 2
    assert set(wrong) == {"Delta jars", "warehouse", "tables", "demo: log_directories"}


def test_packages_that_are_missing_or_not_as_pinned_are_named(folder, capsys, monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda _: ["numpy<1", "nowhere-to-be-had", "pytest; extra == 'other'"])
    code, wrong, _ = examined(folder, capsys)
    assert (code, wrong) == (2, {"packages": f"numpy is {np.__version__}, not <1; nowhere-to-be-had is missing"})


def test_a_window_that_airflow_cannot_schedule_is_named(folder, capsys):
    code, wrong, _ = examined(folder, capsys, more="window: PT7M\n")
    assert (code, wrong.keys()) == (2, {"schedule"})
    assert "windows of 420 s" in wrong["schedule"]


def test_a_mail_server_is_spoken_to(folder, capsys):
    (port,) = free_ports(1)
    controller = Controller(Sink(), hostname="127.0.0.1", port=port, ready_timeout=60)
    controller.start()
    smtp = f"{{smtp: {{host: 127.0.0.1, port: {port}, tls: none}}}}"
    assert examined(folder, capsys, smtp)[0] == 0
    controller.stop()
    code, wrong, _ = examined(folder, capsys, smtp)
    assert (code, set(wrong)) == (2, {"mail"})


@pytest.mark.parametrize("text", [None, "warehouse: [", "warehouse: here\n"], ids=["absent", "no YAML", "incomplete"])
def test_a_configuration_that_cannot_be_used_is_one_of_the_findings(folder, capsys, text):
    path = folder / "config.yaml"
    if text:
        path.write_text(text)
    assert main(["doctor", "--config", str(path)]) == 2
    out = capsys.readouterr().out
    assert "FAIL  configuration" in out
    assert "ok    Java" in out


def test_what_a_source_gives_is_readable_on_a_terminal(folder, capsys):
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(mail="{}"))
    assert main(["doctor", "--config", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if " " in line.strip()) <= 110 + len(str(folder))
    (known,) = [at for at, line in enumerate(lines) if line.startswith("ok    demo: known: shares, record counts, ")]
    (not_known,) = [at for at, line in enumerate(lines) if line.startswith("ok    demo: not known: ")]
    assert all(line.startswith("         ") for line in lines[known + 1 : not_known])
    assert "latency" in lines[not_known]
    assert not_known - known < 6
    assert "gold." not in "".join(lines[known : not_known + 2])


def test_no_name_that_a_server_or_broker_chose_acts_on_the_terminal():
    """Names of metrics, targets and advertised hosts are theirs."""
    finding = Finding(name="broker 1\x1b[2J", is_ok=False, found="advertises a\rok\nb\x9b", advice="such as \u202ex")
    assert as_text(finding) == "FAIL  broker 1\\x1b[2J: advertises a\\rok b\\x9b\n      -> such as \\u202ex\n"


CLEAR = """
warehouse: w
outbox: m
clusters:
  prod:
    sources:
      - {{kind: live_cluster, bootstrap_servers: "b.example.org:9092", client: {{security.protocol: {protocol},
         sasl.mechanism: PLAIN, sasl.username: u, sasl.password_variable: PW}}}}
      - {{kind: prometheus, url: "{scheme}://{host}:9090", access: {{bearer_token_variable: PW}}}}
      - {{kind: exporter_urls, path: x, brokers: {{1: "{scheme}://{host}/metrics"}},
         access: {{basic_auth: {{username: u, password_variable: PW}}}}}}
mail: {{alertmanagers: [{{url: "{scheme}://{host}:9093", basic_auth: {{username: u, password_variable: PW}}}}]}}
metrics: {{pushgateway: {{url: "{scheme}://{host}:9091", bearer_token_variable: PW}}}}
"""
HTTP = ["prod: prometheus", "prod: exporter_urls", "Alertmanager alertmanager", "Pushgateway"]


@pytest.mark.parametrize(
    ("protocol", "scheme", "host", "found"),
    [
        ("SASL_PLAINTEXT", "http", "a.example.org", ["prod: live_cluster", *HTTP]),
        ("SASL_SSL", "https", "a.example.org", []),
        ("SASL_SSL", "http", "127.0.0.1", []),
        ("SASL_SSL", "http", "[::1]", []),
    ],
)
def test_what_sends_a_secret_in_clear_is_named(protocol, scheme, host, found, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(CLEAR.format(protocol=protocol, scheme=scheme, host=host))
    assert list(list_in_clear(load_config(path))) == found
