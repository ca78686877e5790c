"""Which modules are compiled ahead of their first use."""

import ast
from pathlib import Path

import pipeline
from pipeline.cli.warm_caches import compile_kernels, kernel_modules

PACKAGE = Path(pipeline.__file__).parent


def holds_kernels(path):
    """Whether a function of the module is compiled when the module is imported."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    return any("kernel(" in ast.unparse(decorator) for node in functions for decorator in node.decorator_list)


def test_every_module_with_kernels_is_compiled():
    found = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if holds_kernels(path)
    }
    assert set(kernel_modules()) == found
    assert found


def test_modules_are_reported_when_they_are_compiled():
    compiled = []
    compile_kernels(["pipeline.codec.records.record_kernels", "pipeline.partitioners.hash_kernels"], compiled)
    assert sorted(compiled) == ["pipeline.codec.records.record_kernels", "pipeline.partitioners.hash_kernels"]
