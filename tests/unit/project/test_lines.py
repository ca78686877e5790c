"""The count of lines by kind, on a module counted by hand."""

import importlib.util
from pathlib import Path

SPEC = importlib.util.spec_from_file_location("lines", Path(__file__).parents[3] / ".ci/lines.py")
LINES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(LINES)

MODULE = '''"""A module."""

import json

LIMIT = 3


@wrapped
class Place:
    """Two

    paragraphs."""

    row: int
    # why

    def step(
        self,
    ):
        """One."""
        # how
        if self.row:

            return json.dumps(self.row)
        return None
'''


def test_each_line_counts_once():
    kinds = {"docstring": 5, "import": 1, "declaration": 2, "signature": 5, "comment": 2, "logic": 3, "blank": 7}
    assert LINES.count_lines(MODULE) == kinds
