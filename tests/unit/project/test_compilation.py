"""Kernels are cached under a fingerprint of everything that can go into their machine code."""

import ast
from pathlib import Path

import pytest

import pipeline
from pipeline.codec.records import record_kernels
from pipeline.compilation import fingerprint_sources, list_sources
from pipeline.partitioners import hash_kernels
from pipeline.simulator.engine import simulate

PIPELINE = Path(pipeline.__file__).parent


def imported_files(path):
    """Modules of this package that a module imports when it runs, read from its syntax tree."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pipeline"):
            module = PIPELINE.parent / Path(*node.module.split("."))
            names = [module.with_suffix(".py"), *(module / f"{alias.name}.py" for alias in node.names)]
            yield from (name for name in names if name.exists())


@pytest.mark.parametrize(
    ("module", "kernel", "signature_count"),
    [
        (record_kernels, record_kernels.number_keys, 1),
        (record_kernels, record_kernels.decode_batches, 1),
        (hash_kernels, hash_kernels.hash_column, 1),
        (simulate, simulate.continue_run, 1),
    ],
)
def test_cache_files_carry_the_fingerprint(module, kernel, signature_count):
    assert kernel.__qualname__.endswith(fingerprint_sources(Path(module.__file__)))
    assert len(kernel.nopython_signatures) == signature_count, "compiled at import"


@pytest.mark.parametrize("module", [record_kernels, hash_kernels, simulate])
def test_fingerprint_covers_what_kernels_import(module):
    """A source missing from the fingerprint would leave yesterday's machine code running after a change to it."""
    covered = list_sources(Path(module.__file__))
    assert {Path(module.__file__), PIPELINE / "compilation.py"} <= covered
    for path in covered:
        assert set(imported_files(path)) <= covered, path


def test_fingerprint_follows_imports_and_stops_there():
    names = {path.relative_to(PIPELINE).as_posix() for path in list_sources(Path(simulate.__file__))}
    assert {"simulator/engine/sender.py", "simulator/distributions.py", "simulator/engine/partitioners.py"} <= names
    assert not {name for name in names if name.startswith(("codec/", "calibration/", "replay/"))}
