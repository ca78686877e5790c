"""The option of tests/conftest.py, by running pytest on a file with one skip of every kind; oracle: the table below."""

import re
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[2] / "conftest.py"
TESTS = """
import pytest
def test_named(): pytest.skip("no shared data here")
def test_other(): pytest.skip("felt like it")
@pytest.mark.skip(reason="marked away")
def test_marked(): pass
@pytest.mark.xfail(reason="will be fixed")
def test_expected(): assert False
def test_passes(): pass
"""
MODULE = """
import pytest
pytest.skip("whole file away", allow_module_level=True)
"""


def outcomes(directory: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *arguments, "."]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, re.sub(r" in [0-9.]+s.*", "", done.stdout.splitlines()[-1].strip("= "))


def test_a_skip_that_is_not_named_fails_the_run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_each.py").write_text(TESTS)
    (tmp_path / "allowed.txt").write_text("# reasons\n\nno shared data\n")
    assert outcomes(tmp_path) == (0, "1 passed, 3 skipped, 1 xfailed")
    assert outcomes(tmp_path, "--allowed-skips", "allowed.txt") == (1, "2 failed, 1 passed, 1 skipped, 1 error")


def test_a_whole_module_that_skips_itself_fails_the_run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "allowed.txt").write_text("no shared data\n")
    assert outcomes(tmp_path, "--allowed-skips", "allowed.txt") == (2, "1 error")
