"""Builds the wheel: everything under one package, `partition_health`, so that it lies beside others' `dags` and `pipeline`.

The repository keeps its three folders side by side; an editable install has them as they are. The wheel of setuptools is taken
apart: folders go below `partition_health`, imports and names of modules in strings follow, and so do its entry points.

    python .ci/wheel.py [FOLDER]        # default: dist
"""

import base64
import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from setuptools import build_meta

ROOT = Path(__file__).parents[1]
NAMESPACE = "partition_health"
FOLDERS = ("dags", "expectations", "pipeline")
_ONE = rf"(?:{'|'.join(FOLDERS)})"
_RULES = (
    (re.compile(rf"^(\s*)from ({_ONE})(?=[.\s])", re.MULTILINE), rf"\1from {NAMESPACE}.\2"),
    (re.compile(rf"^(\s*)import ({_ONE})$", re.MULTILINE), rf"\1from {NAMESPACE} import \2"),
    (re.compile(rf"^(\s*)import ({_ONE}\.[\w.]+)", re.MULTILINE), rf"\1import {NAMESPACE}.\2"),
    (re.compile(rf"""(["'])({_ONE}\.[a-z_])"""), rf"\1{NAMESPACE}.\2"),
)


def rename(source: str) -> str:
    """Python source with our modules under the namespace."""
    for pattern, renamed in _RULES:
        source = pattern.sub(renamed, source)
    return source


def build(folder: Path) -> Path:
    """Builds the wheel into a folder; gives its path."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:  # setuptools leaves files where it builds
        project = Path(scratch) / "project"
        project.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(ROOT / name, project)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        here = Path.cwd()
        os.chdir(project)  # what a build backend is called in
        try:
            built = Path(scratch) / build_meta.build_wheel(scratch)
        finally:
            os.chdir(here)
        _repack(built, folder / built.name)
    return folder / built.name


def _repack(flat: Path, wheel: Path) -> None:
    lines = []
    with ZipFile(flat) as source, ZipFile(wheel, "w", ZIP_DEFLATED) as target:
        info = next(name.partition("/")[0] for name in source.namelist() if ".dist-info/" in name)
        files = {name: source.read(name) for name in source.namelist() if not name.endswith("/RECORD")}
        files = {
            f"{NAMESPACE}/{name}" if name.partition("/")[0] in FOLDERS else name: data for name, data in files.items()
        }
        files[f"{NAMESPACE}/__init__.py"] = b'"""Partition health for Kafka."""\n'
        files[f"{info}/top_level.txt"] = f"{NAMESPACE}\n".encode()
        entry_points = files[f"{info}/entry_points.txt"].decode()
        files[f"{info}/entry_points.txt"] = re.sub(rf"= ({_ONE}\.)", rf"= {NAMESPACE}.\1", entry_points).encode()
        for name, data in sorted(files.items()):
            content = rename(data.decode()).encode() if name.endswith(".py") else data
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            target.writestr(name, content)
        target.writestr(f"{info}/RECORD", "\n".join([*lines, f"{info}/RECORD,,"]) + "\n")


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(sys.argv[1] if len(sys.argv) > 1 else 'dist').resolve())}\n")
