"""Configuration of collected clusters."""

import pytest

from pipeline.config_file import load_config
from tests.unit.sources.collected.disks import CONFIG


@pytest.fixture
def config(tmp_path):
    (tmp_path / "partition-health.yaml").write_text(CONFIG)
    (tmp_path / "secret").write_text("a7" * 32)
    (tmp_path / "secret").chmod(0o600)
    return load_config(tmp_path / "partition-health.yaml")
