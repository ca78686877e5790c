"""A column that is read by name is one of its table, or at least written somewhere: a misspelt one fails here, not at night.

Oracle: the declared tables, and every name and text of the product outside such reads.
"""

import ast
import re
from pathlib import Path

import pytest

from pipeline.tables import TABLES, broker_metrics, bronze, gold, health, incidents, keys, replay, silver
from pipeline.tables.table import Table
from pipeline.tables.values import find_column

ROOT = Path(__file__).parents[3]
ROOMS = ("pipeline", "dags", "expectations")
OTHERS = {"recorded_until_ms", "msg", "assigned_partitions", "kwargs", "column_list", "value_set"}
"""Of documents that others write: a capture's manifest, pydantic's errors, kafka-python's groups, suites' files."""
MODULES = (broker_metrics, bronze, gold, health, incidents, keys, replay, silver)
BY_NAME = {name: one for module in MODULES for name, one in vars(module).items() if isinstance(one, Table)} | {
    "finish_nodes": silver.PRODUCER_NODES  # gives rows of the table before they are stored
}
NOT_STORED = {"Verdict": {"k", "severity"}}
"""Fields that no column holds: they keep their defaults."""
CHECKED_ELSEWHERE = {"tuples", "values", "measure_column"}
"""Functions whose table is an argument: those that read it, and one that fails where it is called."""
_DERIVED = re.compile(r"_(max|count|increase)$")
_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IN_SQL = {word for room in ROOMS for path in (ROOT / room).rglob("*.sql") for word in _WORDS.findall(path.read_text())}


def is_read(node):
    """Whether a call names columns to read, such as `pl.col("share")`."""
    return called(node) in {"col", "tuples", "tuples_of"}


def called(node):
    """The name of the function that a node calls; "" for another node."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", "") or getattr(function, "id", "")


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
    known = (
        OTHERS
        | IN_SQL
        | {name for table in TABLES for name in table.column_names}.union(*(written for _, written in scanned.values()))
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


def texts_of(nodes, function, tree):
    """The texts among some arguments; those of a starred name, as its function or module sets it, or as callers give it."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Starred):
            name = ast.unparse(node.value)
            for inner in (*ast.walk(function), *tree.body):
                if isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == name:
                    yield from texts_of(getattr(inner.value, "elts", None) or inner.value.keys, function, tree)
            if function.args.vararg and function.args.vararg.arg == name:
                calls = [inner for inner in ast.walk(tree) if called(inner) == function.name]
                yield from (text for call in calls for text in texts_of(call.args, function, tree))


def names_in(node):
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def columns_known(node, function, tree):
    """Columns of each table that a call may read: those it names, else those of its function.

    Of `tuples_of` an answer to a query: the columns of the module's tables, and what its SQL says.
    """
    is_answer = called(node) == "tuples_of"
    named = [BY_NAME[name] for name in names_in(node) if name in BY_NAME]
    tables = named or [BY_NAME[name] for name in names_in(tree if is_answer else function) if name in BY_NAME]
    known = [set(table.column_names) for table in tables]
    if not is_answer:
        return known
    texts = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)]
    return [{word for text in texts if " " in str(text) for word in _WORDS.findall(str(text))}.union(*known)]


def find_foreign(sources):
    """Columns read by `tuples` and fields read by `values` and `values_of` that their table has not."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    classes = {node.name: node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    constants = {
        node.targets[0].id: node
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }
    for path, tree in trees.items():
        if not re.search(r"(tuples|values?)(_of)?\(\w", sources[path]):
            continue
        module = ast.Module([*tree.body, *(constants[name] for name in names_in(tree) if name in constants)], [])
        for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
            for node in ast.walk(function):
                kind = called(node)
                if kind not in {"tuples", "tuples_of", "values", "values_of"} or not node.args:
                    continue
                if function.name in CHECKED_ELSEWHERE | {"measure", "values_of"}:
                    continue
                wanted = set(texts_of(node.args, function, module))
                if not kind.startswith("tuples"):
                    name = ast.unparse(node.args[0])
                    own = classes[name].body
                    wanted = {one.target.id for one in own if isinstance(one, ast.AnnAssign)} - NOT_STORED.get(
                        name, set()
                    )
                known = columns_known(node, function, tree)
                lacking = [{name for name in wanted if find_column(name, columns) not in columns} for columns in known]
                if not wanted or not known or all(lacking):
                    yield f"{path}:{node.lineno}: {', '.join(sorted(min(lacking, key=len, default='no table')))}"


def test_every_column_is_one_of_the_table_that_it_is_read_from(sources):
    assert list(find_foreign(sources)) == []


PLANTED = """
def read(run):
    names = ("rack", "{0}")
    return run.tuples(BROKERS, None, "broker_id", *names)
"""
PLANTED_ANSWER = """
def read(run):
    sql = "SELECT rack, away_ms FROM brokers"
    return tuples_of(run.query(sql, windows, brokers=BROKERS), "rack", "{0}")
"""
PLANTED_CLASS = """
class Planted:
    rack: str
    {0}: int

def read(run):
    return run.values(Planted, BROKERS)
"""


@pytest.mark.parametrize("planted", [PLANTED, PLANTED_ANSWER, PLANTED_CLASS])
def test_a_column_of_another_table_is_found(sources, planted):
    assert list(find_foreign({"planted.py": planted.format("away_ms")})) == []
    (found,) = find_foreign({"planted.py": planted.format("size_bytes")})
    assert found.endswith(": size_bytes")
