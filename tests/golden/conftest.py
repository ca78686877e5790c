"""Real Kafka files of other people and of real brokers, where they are at hand: unpacked once per session."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from pipeline.cli.demo import CAPTURE_ARCHIVE, unpack_capture

SHARED = "PARTITION_HEALTH_SHARED"


def find_shared_data() -> Path:
    """The directory with `segments/`, `specimens/` and so on, beside the checkout or where the variable says."""
    return Path(os.environ.get(SHARED, Path(__file__).parents[3] / "shared")) / "data"


def unpack(archives: Path, target: Path) -> Path:
    """Unpacks every archive of a directory into a directory of its own name."""
    for archive in sorted(archives.glob("*.tar.gz")):
        with tarfile.open(archive) as tar:
            tar.extractall(target / archive.name.removesuffix(".tar.gz"), filter="data")
    return target


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Root of the shared data; skips where it is absent."""
    path = find_shared_data()
    if not path.is_dir():
        pytest.skip(f"no shared data at ../shared/data and no {SHARED}")
    return path


@pytest.fixture(scope="session")
def segments_tree(shared_data, tmp_path_factory) -> Path:
    """Log directories from public repositories: one directory per archive."""
    return unpack(shared_data / "segments", tmp_path_factory.mktemp("segments"))


@pytest.fixture(scope="session")
def specimens_tree(shared_data, tmp_path_factory) -> Path:
    """Partitions of a real 4.1.1 cluster: one directory per archive."""
    return unpack(shared_data / "specimens", tmp_path_factory.mktemp("specimens"))


@pytest.fixture(scope="session")
def capture(tmp_path_factory) -> Path:
    """The committed capture, unpacked."""
    folder = tmp_path_factory.mktemp("capture")
    unpack_capture(CAPTURE_ARCHIVE, folder)
    return folder / "capture"
