"""Kernels are cached under a fingerprint of everything that can go into their machine code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipeline.codec import compilation, header_kernels, record_kernels
from pipeline.codec.compilation import SOURCES, fingerprint_sources

CODEC = Path(compilation.__file__).parent


def imported_modules(path):
    """Names of the codec's modules that a module imports, however it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "pipeline.codec":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipeline.codec."):
            yield node.module.rpartition(".")[2]


@pytest.mark.parametrize("kernel", [header_kernels.walk_rows, header_kernels.check_rows, record_kernels.decode_batches])
def test_cache_files_carry_the_fingerprint(kernel):
    assert kernel.__qualname__.endswith(fingerprint_sources())
    assert kernel.nopython_signatures, "compiled at import, for its one signature"


def test_fingerprint_covers_what_kernels_import():
    """A source missing from the fingerprint would leave yesterday's machine code running after a change to it."""
    covered = {path.name for pattern in SOURCES for path in CODEC.glob(pattern)}
    for name in covered:
        assert {f"{module}.py" for module in imported_modules(CODEC / name)} <= covered, name
