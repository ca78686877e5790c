"""Modules and functions stay short enough to be read at once."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULE_LINES, FUNCTION_LINES = 340, 50
FOLDERS = ("pipeline", "dags", "expectations", ".ci", "tests/lab", "tests/oracles")


def function_lengths(tree: ast.Module):
    """Lines of code by function, without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            code = node.body[1:] if ast.get_docstring(node) else node.body
            if code:
                yield node.name, code[-1].end_lineno - code[0].lineno + 1


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_and_functions_are_short(folder):
    too_long = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        if text.count("\n") > MODULE_LINES:
            too_long.append(name)
        lengths = function_lengths(ast.parse(text))
        too_long += [f"{name}: {function}" for function, lines in lengths if lines > FUNCTION_LINES]
    assert too_long == []
