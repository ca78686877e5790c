"""No module needs another that needs it: imports for types and imports inside functions count too."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("pipeline", "dags", "expectations")


def find_circle(root: Path) -> list[str]:
    """The modules of a circle, the first one again at the end; empty where there is none."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    trees = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for path in sorted(paths)
    }
    imports = {module: set(imported_modules(tree)) & trees.keys() - {module} for module, tree in trees.items()}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def imported_modules(tree: ast.Module):
    """Names of modules, and of what is taken from them: that may be a module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (*modules, node.module)


def test_the_product_has_none():
    assert find_circle(ROOT) == []


TYPES_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pipeline.b import B\n"
IN_A_FUNCTION = "def run():\n    from pipeline import b\n"


@pytest.mark.parametrize("back", ["import pipeline.b\n", TYPES_ONLY, IN_A_FUNCTION])
def test_a_planted_one_is_found(tmp_path, back):
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline/a.py").write_text(back)
    (tmp_path / "pipeline/b.py").write_text("from pipeline.c import C\n")
    (tmp_path / "pipeline/c.py").write_text("from pipeline.a import run\n")
    assert sorted(set(find_circle(tmp_path))) == ["pipeline.a", "pipeline.b", "pipeline.c"]
    (tmp_path / "pipeline/a.py").write_text("")
    assert find_circle(tmp_path) == []
