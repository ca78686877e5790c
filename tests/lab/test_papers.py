"""The pages of evidence hold what the laboratory's commands replace: a table with rows, or marks with their end."""

import importlib
import shutil
from pathlib import Path

import pytest

from tests.lab.bench.figures import write_between
from tests.paper_rows import read_rows

EVIDENCE = Path(__file__).parents[2] / "docs/evidence"


@pytest.mark.parametrize(
    "module",
    ["faults.__main__", "faults.chain", "faults.scheduled", "years.__main__", "fuzz.__main__", "bench.clusters_bench"],
)
def test_a_command_finds_the_rows_that_it_replaces(module):
    command = importlib.import_module(f"tests.lab.{module}")
    assert read_rows(command.PAPER.read_text(), command.HEAD)


@pytest.mark.parametrize(
    ("page", "word", "argument"),
    [
        ("replay", "fidelity", "--live"), ("draw", "draw", "--write"), ("draw", "draw", "--baseline"), ("clients", "clients", "--write"),
        ("advice", "promises", "--write"), ("advice", "bench", "plans"), ("alarms", "bench", "false_alarm"), ("forecasts", "bench", "forecast"),
        ("calibration", "bench", "calibration"), ("scale", "bench", "storage"), ("scale", "scale", ""), ("scale", "scale", "--requests"),
        ("performance", "bench", "tables"), ("performance", "bench", "costs"), ("tests", "bench", "outcome"),
    ],
)  # fmt: skip  # marks, several a line
def test_a_command_finds_the_marks_that_it_writes_between(page, word, argument, tmp_path):
    paper = shutil.copy(EVIDENCE / f"{page}.md", tmp_path / "paper.md")
    write_between(paper, argument, "what it made", word=word)
    assert f"<!-- made by: make {word} ARGS={argument} -->\nwhat it made\n<!-- end" in paper.read_text()
