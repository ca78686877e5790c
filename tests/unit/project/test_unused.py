"""The check that finds what no product code uses, on a small product made here; oracle: the table below."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
USED = '''
"""Names used nowhere may be named in a docstring: named_in_docstring."""
from dataclasses import dataclass
from enum import IntEnum

LIMIT = 3

class Kind(IntEnum):
    PARSED_FROM_A_NUMBER = 1

@dataclass
class Row:
    read: int
    shown: int
    filled_in: int = 0

    def double(self):
        return Row(2 * self.read, self.read)

    def __str__(self):
        return "row"

def outer(row):
    return getattr(Kind(row.double().read), "shown") + LIMIT

print(outer(Row(read=1, shown=2)))
'''


def complaints(root: Path, more: str = "", allowed: str = "") -> tuple[int, list[str]]:
    for name, text in {
        "pipeline/__init__.py": "",
        "pipeline/used.py": USED + more,
        "pyproject.toml": "",
        ".ci/unused-allowed.txt": allowed,
        "tests/test_used.py": "from pipeline.used import planted\nplanted()\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    command = [sys.executable, ROOT / ".ci/unused.py", root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("more", "labels"),
    [
        ("", ["Row.filled_in"]),
        ("print(Row.filled_in)", []),
        ("def planted(): pass", ["Row.filled_in", "planted"]),
        ("def planted(): planted()", ["Row.filled_in", "planted"]),
        ("def planted(): helper()\ndef helper(): pass", ["Row.filled_in", "planted", "helper"]),
        ("class Planted:\n  def double(self): print(Row.filled_in)", ["Row.filled_in", "Planted"]),
        ("PLANTED: int = 1", ["Row.filled_in", "PLANTED"]),
        ("'''named_in_docstring'''\ndef named_in_docstring(): pass", ["Row.filled_in", "named_in_docstring"]),
    ],
)
def test_what_only_tests_and_texts_name_is_found(tmp_path, more, labels):
    assert complaints(tmp_path, more) == (bool(labels), [f"unused: pipeline.used:{label}" for label in labels])


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        ("pipeline.used:Row.filled_in  # why", []),
        ("pipeline.*:*.filled_in", []),
        ("# pipeline.used:Row.filled_in", ["unused: pipeline.used:Row.filled_in"]),
        ("pipeline.used:Row.*\npipeline.used:gone", [".ci/unused-allowed.txt: nothing is named pipeline.used:gone"]),
    ],
)
def test_what_is_allowed_is_not_reported_and_must_be_there(tmp_path, allowed, found):
    assert complaints(tmp_path, allowed=allowed) == (bool(found), found)


def test_this_product_uses_all_it_has():
    done = subprocess.run([sys.executable, ".ci/unused.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
