"""A kind of source is one class of one folder: what holds of all of them, and that nothing outside it asks which kind a source has."""

import ast
import inspect
from pathlib import Path

import pytest

from pipeline.config.pipeline_config import Cluster
from pipeline.sources.kinds import COLUMNS, KINDS
from pipeline.sources.metrics.metric_source import MetricSource
from pipeline.sources.source import RecordSource, Source, TextSource

ROOT = Path(__file__).parents[4]
PATHS = [path for folder in ("pipeline", "dags", "expectations") for path in sorted((ROOT / folder).rglob("*.py"))]
FOLDER = ROOT / "pipeline/sources/kinds"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_a_class_of_the_folder_of_kinds_and_has_one_role(kind):
    source = KINDS[kind]
    assert Path(inspect.getfile(source)).parent == FOLDER
    assert sum(issubclass(source, role) for role in (RecordSource, TextSource, MetricSource)) == 1
    assert not inspect.isabstract(source)


def test_every_file_of_the_folder_has_kinds_and_each_kind_its_own_rank():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert {Path(inspect.getfile(source)).stem for source in KINDS.values()} == files
    assert len({source.rank for source in KINDS.values()}) == len(KINDS)
    assert [kind for kind, source in KINDS.items() if source.bears_records] == [
        *("log_directories", "collected", "live_cluster")
    ]
    live = ("live_cluster", "live_cluster, read: offsets", "live_cluster, with log_directories")
    texts = ("topics_describe", "log_dirs_describe", "reassign_verify", "consumer_groups")
    assert ("log_directories", "collected", *live, *texts, "metrics") == COLUMNS


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether code compares a `.kind` with names of kinds, or asks whether something is of their class."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        named = {c.value for side in sides for c in ast.walk(side) if isinstance(c, ast.Constant)} & set(KINDS)
        return any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides) and bool(named)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "issubclass"}:
        classes = {source.__name__ for source in KINDS.values()}
        return any(isinstance(name, ast.Name) and name.id in classes for name in ast.walk(node.args[1]))
    return False


def test_nothing_asks_which_kind_a_source_has():
    examples = ("s.kind == 'collected'", "s.kind in {'prometheus'}", "isinstance(s, LogDirectories | LiveCluster)")
    assert all(any(map(asks_for_a_kind, ast.walk(ast.parse(example)))) for example in examples)
    asking = [str(path) for path in PATHS if any(map(asks_for_a_kind, ast.walk(ast.parse(path.read_text()))))]
    assert asking == []


def test_only_the_default_names_the_class_of_a_kind():
    """Without any source of records the cluster is read as by `log_directories`; `init` asks a live one for its newest records."""
    naming = {
        str(path.relative_to(ROOT / "pipeline"))
        for path in PATHS
        if path.parent != FOLDER
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pipeline.sources.kinds.")
    }
    assert naming == {"sources/cluster_reading.py", "cli/init.py"}


def test_an_unknown_kind_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="'log_directories'"):
        Cluster(sources=({"kind": "zip_archives"},))


def test_a_source_has_its_paths_and_no_more(tmp_path):
    source = Source(kind="of_a_test")
    assert (source.locations, list(source.probe()), source.columns()) == ((), [], {})
    assert KINDS["get_offsets"](kind="get_offsets", path=tmp_path).locations == (tmp_path,)
