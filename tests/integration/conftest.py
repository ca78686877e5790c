"""What several files of this lane use: fixtures of `tests/spark` and `tests/dags`, and axe-core."""

import shutil
from pathlib import Path

import pytest

from tests.dags.conftest import capture_slice, described
from tests.lab.artifacts import run_download
from tests.lab.browser import running_chromium
from tests.spark.conftest import capture, manifest

__all__ = ["axe", "browser", "capture", "capture_slice", "described", "manifest"]


@pytest.fixture(scope="module")
def browser():
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """Gives what axe-core, installed from its lock, finds wrong with an open page: rules and elements."""
    folder = tmp_path_factory.mktemp("axe") / "page_checks"
    shutil.copytree(Path(__file__).parent / "page_checks", folder)
    done = run_download(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    script = (folder / "node_modules/axe-core/axe.min.js").read_text()

    def find_violations(page):
        page.evaluate(script)
        found = page.evaluate("() => axe.run({resultTypes: ['violations']})")
        assert len(found["passes"]) > 10, "axe-core looked at nothing"
        return [(rule["id"], rule["nodes"][0]["html"]) for rule in found["violations"]]

    return find_violations
