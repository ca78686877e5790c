"""A column that is read by name is written somewhere: a misspelt one fails here, not at night.

Oracle: the declared tables, and every name and text of the product outside such reads.
"""

import ast
import re
from pathlib import Path

import pytest

from pipeline.tables import TABLES

ROOT = Path(__file__).parents[3]
ROOMS = ("pipeline", "dags", "expectations")
OTHERS = {"recorded_until_ms", "msg", "assigned_partitions", "kwargs", "column_list", "value_set"}
"""Of documents that others write: a capture's manifest, pydantic's errors, kafka-python's groups, suites' files."""
_DERIVED = re.compile(r"_(max|count|increase)$")
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_read(node):
    """Whether a call names columns to read, such as `pl.col("share")`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "col"


def names_of(node):
    """Nodes of the names that an expression reads."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return [] if ast.unparse(node.value) == "Literal" else [node.slice]
    return node.args if is_read(node) else []


def words_of(node):
    """Names that a node writes, or may write."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _WORDS.findall(node.value)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.keyword) and node.arg:
        return [node.arg]
    return [node.name] if isinstance(node, ast.ClassDef) else []


def scan(tree):
    """Names read, with their lines, and names written."""
    texts = {text for node in ast.walk(tree) for text in names_of(node) if isinstance(text, ast.Constant)}
    texts = {text for text in texts if isinstance(text.value, str) and text.value.isidentifier()}
    written = {word for node in ast.walk(tree) if node not in texts for word in words_of(node)}
    return {text.value: text.lineno for text in texts}, written


def find_misspelt(sources):
    """Of names read in some sources, by path, those that nobody writes; not those in others' spelling, such as `createdBy`."""
    scanned = {path: scan(ast.parse(text)) for path, text in sources.items()}
    known = OTHERS | {name for table in TABLES for name in table.column_names}.union(
        *(written for _, written in scanned.values())
    )
    return [
        f"{path}:{line}: {name}"
        for path, (read, _) in scanned.items()
        for name, line in read.items()
        if name.islower() and name not in known and _DERIVED.sub("", name) not in known
    ]


@pytest.fixture(scope="module")
def sources():
    return {
        str(path.relative_to(ROOT)): path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))
    }


def test_every_column_that_is_read_is_written(sources):
    assert find_misspelt(sources) == []


@pytest.mark.parametrize("planted", ['row["bytes_sizes"]', 'pl.col("share_ration")', 'F.col("leader_idd")'])
def test_a_misspelt_column_is_found(sources, planted):
    wrong = sources | {"planted.py": f"x = {planted}\n"}
    assert find_misspelt(wrong) == [f"planted.py:1: {planted.split(chr(34))[1]}"]
