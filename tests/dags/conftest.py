"""One Airflow database for the lane, made once (5 s), copied by every test that writes into it."""

from __future__ import annotations

import pytest
import yaml

from tests.dags.airflow_process import AirflowHome

EMPTY = {
    "warehouse": "warehouse",
    "outbox": "outbox",
    "window": "PT1H",
    "grace": "PT5M",
    "mail": {"to": ["platform@example.org"]},
    "clusters": {"main": {"sources": [{"kind": "log_directories", "paths": ["nowhere"]}]}},
}


@pytest.fixture(scope="session")
def described(tmp_path_factory):
    """What `describe_dags` prints, and the home it made."""
    folder = tmp_path_factory.mktemp("airflow")
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY))
    home = AirflowHome(folder, config, {})
    return home.run_script("describe_dags") | {"home": home}
