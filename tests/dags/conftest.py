"""One Airflow database for the lane, made once (5 s) and copied by every test that writes; one slice of the capture."""

import json
import shutil

import pytest
import yaml
from aiosmtpd.controller import Controller

from pipeline.config_file import CONFIG_VARIABLE, load_config
from pipeline.model.window import TimeWindow
from pipeline.storage.tables_on_disk import ensure_tables
from tests.dags.airflow_process import AirflowHome
from tests.dags.open_reports import DOCS, NAME
from tests.lab.demo.recording import prepare_demo
from tests.lab.process import free_ports
from tests.mail_parts import read_mail

MINUTE_MS = 60_000
SMTP = "AIRFLOW_CONN_SMTP_DEFAULT"
KEYED_TOPIC = "audit"
EMPTY = {
    "warehouse": "warehouse",
    "outbox": "outbox",
    "window": "PT1H",
    "grace": "PT5M",
    "mail": {"to": ["platform@example.org"]},
    "clusters": {"main": {"owner": "kafka-team", "sources": [{"kind": "log_directories", "paths": ["nowhere"]}]}},
}


# window + grace: the run that fires first after midnight of 21 November, and its key
FIRST_RUNS = {
    "PT1H+PT5M": ("2026-11-21T00:05:00+00:00", "2026-11-20T23:00:00Z"),
    "PT1H+PT0M30S": ("2026-11-21T00:01:00+00:00", "2026-11-20T23:00:00Z"),
    "PT1H+PT65M": ("2026-11-21T00:05:00+00:00", "2026-11-20T22:00:00Z"),
    "PT6H+PT90M": ("2026-11-21T00:00:00+00:00", "2026-11-20T12:00:00Z"),
    "P1D+PT30M": ("2026-11-21T00:30:00+00:00", "2026-11-20T00:00:00Z"),
    "PT15M+PT5M": ("2026-11-21T00:00:00+00:00", "2026-11-20T23:30:00Z"),
    "PT1M+PT1M": ("2026-11-21T00:00:00+00:00", "2026-11-20T23:58:00Z"),
}


class Inbox:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.messages = []

    async def handle_DATA(self, server, session, envelope):  # noqa: N802  # aiosmtpd's name
        self.messages.append(read_mail(envelope.content))
        return "250 kept"


@pytest.fixture(scope="session")
def inbox():
    handler = Inbox()
    controller = Controller(handler, hostname="127.0.0.1", port=handler.port, ready_timeout=60)
    controller.start()
    yield handler
    controller.stop()


@pytest.fixture(scope="session")
def described(tmp_path_factory):
    """What `describe_dags` prints, and the home it made."""
    folder = tmp_path_factory.mktemp("airflow")
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY))
    home = AirflowHome(folder, config, {})
    return home.run_script("describe_dags", *FIRST_RUNS) | {"home": home}


FEW = {
    "candidates": [{"name": "builtin", "partitioner": "java-builtin"}],
    "replay": {"seeds": 2},
    "metrics": {"textfile_folder": "metrics"},
}
"""Of the replay, as the default candidates take minutes; and where metrics go."""


LINEAGE_READER = """\
from airflow.plugins_manager import AirflowPlugin
from airflow.sdk.lineage import HookLineageReader

class Reader(AirflowPlugin):
    name = "reader"
    hook_lineage_readers = [HookLineageReader]
"""
"""Registers what OpenLineage's provider registers too: without a reader Airflow collects no lineage."""


class Slice:
    """Two windows of the capture in which broker 1 is slow, and two topics, one without keys: enough for one incident."""

    def __init__(self, folder) -> None:
        self.demo = prepare_demo(folder)
        start_ms = self.demo.span.start_ms + 5 * MINUTE_MS
        self.span = TimeWindow(start_ms, start_ms + 2 * MINUTE_MS)
        self.windows = tuple(self.span.split(MINUTE_MS))

    def write_config(self, folder, **settings):
        """A configuration whose tables and mails lie in `folder`; `settings` are further keys of it."""
        folder.mkdir(parents=True, exist_ok=True)
        document = yaml.safe_load(self.demo.config.read_text()) | FEW | {"spark": {}} | settings
        cluster = document["clusters"]["demo"]
        cluster["topics"] = ["orders", KEYED_TOPIC]
        cluster["gate"] = {"k": 2, "n": 2}
        secret = self.demo.config.parent / "shared.secret"  # one for all, so that their key ids are comparable
        document["keys"] = document.get("keys", {}) | {"secret": str(secret)}
        cluster["sources"] = [{"kind": "log_directories", "paths": [str(self.demo.config.parent / "capture/brokers")]}]
        config = folder / "partition-health.yaml"
        config.write_text(yaml.safe_dump(document))
        return config


@pytest.fixture(scope="session")
def capture_slice(tmp_path_factory):
    """The slice; half a gigabyte on disk while the lane runs."""
    folder = tmp_path_factory.mktemp("capture")
    yield Slice(folder)
    shutil.rmtree(folder)


HOSTILE = "<script>alert(1)</script>{{ 7*7 }}{% raw %}${x}\r\nBcc: a@evil.example\x1b[31m"
PLANTED = [f"planted-{name}" for name in ("password", "value", "key-of-the-api", "webhook")] + ["planted-jwt-" * 6]
OTHER = "demo-2026-11-21T11-00Z.html"
ACTS = "document.title='pwned'"
BAIT = f'<img src=x onerror={ACTS}><a id="bait" href="javascript:{ACTS}">bait</a>'
ESCAPES = f"<script>try {{ localStorage; document.cookie; {ACTS} }} catch {{ document.title = 'caged' }} fetch('/api')</script>"
REPORT = f"<!doctype html>\n<title>FAIL demo · partition health</title>\n{ESCAPES}\n"
DATA_DOCS = f"<!doctype html>\n<title>Data Docs</title>\n<script>{ACTS}</script>{BAIT}\n"
"""Of a product gone wrong: names have become markup, and no page has a policy of its own."""


def write_hostile(folder):
    """A configuration whose names are attacks, and a folder of reports with files that nobody should see."""
    hostile = {HOSTILE: EMPTY["clusters"]["main"] | {"owner": HOSTILE}}
    mail = EMPTY["mail"] | {"webhooks": [{"name": "chat", "url_variable": "CHAT_WEBHOOK", "form": "slack"}]}
    (folder / "shown/data-docs/demo").mkdir(parents=True)
    shown = {f"shown/{NAME}": REPORT, f"shown/{OTHER}": REPORT, f"shown/{DOCS}": DATA_DOCS}
    hidden = ("secret.html", "shown/secret.html", "shown/demo.html", "shown/data-docs/demo/secret.txt")
    for name, text in (shown | dict.fromkeys(hidden, "secret")).items():
        (folder / name).write_text(text)
    (folder / "shown/link-2026-11-21T09-43Z.html").symlink_to(folder / "secret.html")
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY | {"clusters": hostile, "mail": mail, "report": {"folder": "shown"}}))
    ensure_tables(load_config(config).warehouse)
    return config


@pytest.fixture(scope="session")
def ran(described, capture_slice, inbox, tmp_path_factory):
    """The folder, and what `run_steps` found: a run that fails, ingest, replay and health over the slice, then maintenance, a Viewer."""
    folder = tmp_path_factory.mktemp("ran")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "lineage_reader.py").write_text(LINEAGE_READER)
    configs = {"ranged": capture_slice.write_config(folder / "ranged")}
    for name in ("empty", "hostile"):
        (folder / name).mkdir()
    configs["hostile"] = write_hostile(folder / "hostile")
    configs["empty"] = folder / "empty/partition-health.yaml"
    configs["empty"].write_text(yaml.safe_dump(EMPTY))
    secrets = {"AIRFLOW__API__SECRET_KEY": PLANTED[2], "AIRFLOW__API_AUTH__JWT_SECRET": PLANTED[4]}
    secrets |= {"CHAT_WEBHOOK": f"http://127.0.0.1:1/{PLANTED[3]}", "PLANTED": json.dumps(PLANTED)}
    plugged = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins)}
    home = described["home"].copy_to(folder / "airflow", configs["empty"], **plugged, **secrets)
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": inbox.port}
    connection["extra"] = {"disable_ssl": True, "disable_tls": True}
    span = str(capture_slice.span)
    steps = [
        ("set", {CONFIG_VARIABLE: str(configs["empty"]), SMTP: json.dumps(connection)}),
        ("run", "partition_health_ingest"),
        ("set", {CONFIG_VARIABLE: str(configs["ranged"]), SMTP: None}),
        *(("run", f"partition_health_{name}", span) for name in ("ingest", "replay", "health")),
        ("run", "partition_health_maintenance"),
        ("set", {CONFIG_VARIABLE: str(configs["hostile"])}),
        ("ask", "2026-11-21T09:00:00Z/PT1H", HOSTILE, HOSTILE),
    ]
    return folder, home.run_script("run_steps", json.dumps(steps))


@pytest.fixture(scope="session")
def ranged(ran):
    """Results per DAG and the configuration, after ingest, replay and health over the slice by `dag.test()`, then maintenance."""
    folder, (_, *found, _) = ran
    results = dict(zip(("ingest", "replay", "health", "maintenance"), found, strict=True))
    return results, load_config(folder / "ranged/partition-health.yaml")


@pytest.fixture(scope="session")
def asked(ran):
    """What `ask_as_viewer` found after runs of `health` and `ingest`, and the configuration."""
    folder, (*_, found) = ran
    return found, load_config(folder / "hostile/partition-health.yaml")
