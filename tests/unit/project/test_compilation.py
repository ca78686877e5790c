"""Kernels are cached under a fingerprint of everything that can go into their machine code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pipeline
from pipeline.codec.records import key_kernels, record_kernels
from pipeline.compilation import SOURCES, fingerprint_sources, list_sources
from pipeline.partitioners import hash_kernels
from pipeline.simulator.engine import run_kernels

PIPELINE = Path(pipeline.__file__).parent


def imported_files(path):
    """Modules of rooms with kernels that a module imports, however it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipeline"):
            module = PIPELINE.parent / Path(*node.module.split("."))
            names = (
                [module / f"{alias.name}.py" for alias in node.names]
                if module.is_dir()
                else [module.with_suffix(".py")]
            )
            yield from (name for name in names if name.exists() and name.relative_to(PIPELINE).parts[0] in SOURCES)


@pytest.mark.parametrize(
    ("room", "kernel", "signature_count"),
    [
        ("codec", key_kernels.number_keys, 1),
        ("codec", record_kernels.decode_batches, 1),
        ("partitioners", hash_kernels.hash_column, 1),
        ("simulator", run_kernels.continue_run, 1),
    ],
)
def test_cache_files_carry_the_fingerprint(room, kernel, signature_count):
    assert kernel.__qualname__.endswith(fingerprint_sources(room))
    assert len(kernel.nopython_signatures) == signature_count, "compiled at import"


@pytest.mark.parametrize("room", SOURCES)
def test_fingerprint_covers_what_kernels_import(room):
    """A source missing from the fingerprint would leave yesterday's machine code running after a change to it."""
    covered = set(list_sources(room))
    for path in covered:
        assert set(imported_files(path)) <= covered, path
