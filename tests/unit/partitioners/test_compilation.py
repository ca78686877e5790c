"""Kernels are cached under a fingerprint of everything that can go into their machine code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipeline.partitioners import compilation, hash_kernels, text_kernels
from pipeline.partitioners.compilation import SOURCES, fingerprint_sources

ROOM = Path(compilation.__file__).parent


def imported_modules(path):
    """Names of the room's modules that a module imports, however it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "pipeline.partitioners":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipeline.partitioners."):
            yield node.module.rpartition(".")[2]


@pytest.mark.parametrize("kernel", [hash_kernels.hash_murmur2, text_kernels.hash_java_string])
def test_cache_files_carry_the_fingerprint(kernel):
    assert kernel.__qualname__.endswith(fingerprint_sources())
    assert len(kernel.nopython_signatures) == 2, "compiled at import, for both widths of offsets"


def test_fingerprint_covers_what_kernels_import():
    """A source missing from the fingerprint would leave yesterday's machine code running after a change to it."""
    covered = {path.name for pattern in SOURCES for path in ROOM.glob(pattern)}
    for name in covered:
        assert {f"{module}.py" for module in imported_modules(ROOM / name)} <= covered, name
