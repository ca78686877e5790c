"""Real Kafka files: the committed samples, and more where they are at hand. Unpacked once, and left as they are."""

import os
import re
import tarfile
from pathlib import Path

import pytest

from tests.lab.archive import unpack_once

ROOT = Path(__file__).parents[2]
SHARED = "PARTITION_HEALTH_SHARED"
DUMPING = re.compile(r"Dumping (?P<broker>\w+)/(?P<partition>[^/]+)/(?P<file>\S+)")


def unpack_all(archives: Path, target: Path) -> Path:
    """Unpacks every archive of a directory into a directory of its own name."""
    for archive in sorted(archives.glob("*.tar.*z")):
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2, as in Debian 12, has none
            tar.extractall(target / archive.name.partition(".tar")[0])
    return target


@pytest.fixture(scope="session")
def samples() -> Path:
    """What this project recorded: see `tests/data/README.md`."""
    return unpack_once(ROOT / "tests/data/samples.tar.zst", ROOT / "build")


@pytest.fixture(scope="session")
def specimens(samples) -> Path:
    """Log directories of a real 4.1.1 cluster: a folder per broker and partition."""
    return samples / "specimens"


@pytest.fixture(scope="session")
def tool_texts(samples) -> Path:
    """What Kafka's tools print about the specimens."""
    return samples / "tools"


@pytest.fixture(scope="session")
def dumped(specimens, tool_texts):
    """By a specimen's name and the kind of dump: the file that was dumped, and the dump's lines."""

    def read(name: str, kind: str) -> tuple[Path, list[str]]:
        first, *lines = (tool_texts / f"dump-spec-{name}-{kind}.txt").read_text(errors="replace").splitlines()
        match = DUMPING.fullmatch(first)
        return specimens / f"{match['broker']}-{match['partition']}" / match["partition"] / match["file"], lines

    return read


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Files that are not committed: other people's, and further runs. Skips where they are absent."""
    path = Path(os.environ.get(SHARED, ROOT.parent / "shared")) / "data"
    if not path.is_dir():
        pytest.skip(f"no shared data at ../shared/data and no {SHARED}")
    return path


@pytest.fixture(scope="session")
def segments_tree(shared_data, tmp_path_factory) -> Path:
    """Log directories from public repositories: one directory per archive."""
    return unpack_all(shared_data / "segments", tmp_path_factory.mktemp("segments"))


@pytest.fixture
def run_folder(request, samples, tmp_path) -> Path:
    """The run that the test's parameter `name` names: committed, or shared."""
    name = request.getfixturevalue("name")
    if (samples / "runs" / name).is_dir():
        return samples / "runs" / name
    shared = request.getfixturevalue("shared_data") / "runs" / name
    unpack_all(shared, tmp_path)
    for path in (shared / "run.json", shared / "producer0.out", *(tmp_path / "scrapes").iterdir()):
        (tmp_path / path.name).symlink_to(path)
    return tmp_path
