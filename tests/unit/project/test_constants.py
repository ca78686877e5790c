"""The paper of constants: each exists and has the value printed."""

import re
from fractions import Fraction
from pathlib import Path
from pkgutil import resolve_name

import pytest

PAPER = Path(__file__).parents[3] / "docs/evidence/constants.md"
ROWS = re.findall(r"^\| `([\w.]+)\.(\w+)` \| ([\d./]+) \| ([^|]+) \|", PAPER.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("module", "name", "value", "source"), ROWS, ids=[name for _, name, *_ in ROWS])
def test_a_constant_is_what_the_paper_says(module, name, value, source):
    assert resolve_name(f"{module}.{name}") == float(Fraction(value))
    assert source.startswith(("Kafka", "measured", "fitted", "by hand"))


def test_every_row_is_read():
    assert len(ROWS) == PAPER.read_text().count("| `pipeline.") >= 30
