"""One Airflow database for the lane, made once (5 s) and copied by every test that writes; one slice of the capture."""

from __future__ import annotations

import shutil

import pytest
import yaml

from pipeline.cli.demo import prepare_demo
from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow
from tests.dags.airflow_process import AirflowHome

MINUTE_MS = 60_000
KEYED_TOPIC = "audit"
EMPTY = {
    "warehouse": "warehouse",
    "outbox": "outbox",
    "window": "PT1H",
    "grace": "PT5M",
    "mail": {"to": ["platform@example.org"]},
    "clusters": {"main": {"owner": "kafka-team", "sources": [{"kind": "log_directories", "paths": ["nowhere"]}]}},
}


@pytest.fixture(scope="session")
def described(tmp_path_factory):
    """What `describe_dags` prints, and the home it made."""
    folder = tmp_path_factory.mktemp("airflow")
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY))
    home = AirflowHome(folder, config, {})
    return home.run_script("describe_dags") | {"home": home}


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


@pytest.fixture(scope="session")
def ranged(described, capture_slice, tmp_path_factory):
    """Results per DAG and the configuration, after ingest, replay and health over the slice by `dag.test()`, then maintenance."""
    folder = tmp_path_factory.mktemp("ranged")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "lineage_reader.py").write_text(LINEAGE_READER)
    config = capture_slice.write_config(folder)
    home = described["home"].copy_to(folder / "airflow", config, AIRFLOW__CORE__PLUGINS_FOLDER=str(plugins))
    span = str(capture_slice.span)
    ran = home.run_script("run_dags", f"ingest={span}", f"replay={span}", f"health={span}", "maintenance")
    return dict(zip(("ingest", "replay", "health", "maintenance"), ran, strict=True)), load_config(home.config)
