"""A collected cluster's configuration, disk and landing folder."""

import pytest

from pipeline.config_file import load_config
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.unit.sources.collected.disks import CONFIG, Disk
from tests.unit.sources.collected.forgery import make_three


@pytest.fixture
def config(tmp_path):
    (tmp_path / "partition-health.yaml").write_text(CONFIG)
    (tmp_path / "secret").write_text("a7" * 32)
    (tmp_path / "secret").chmod(0o600)
    return load_config(tmp_path / "partition-health.yaml")


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path / "disk")


@pytest.fixture
def landing(tmp_path):
    return StoredFolder(str(tmp_path / "landing"))


@pytest.fixture
def three(config, landing, tmp_path):
    """The landing folder with what three brokers brought."""
    make_three(config, landing, tmp_path)
    return landing
