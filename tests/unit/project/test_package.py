"""The wheel beside packages of others that are called like our folders, and without Airflow."""

import ast
import configparser
import hashlib
import importlib.util
import os
import subprocess
import sys
from base64 import urlsafe_b64encode
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("dags", "expectations", "pipeline")
USES = """
import sys
sys.modules["airflow"] = None
import dags, expectations, pipeline
from partition_health.expectations import gates
from partition_health.pipeline.cli import main
assert main(["tables", "gold.verdicts"]) == main(["config"]) == 0
assert all(module.MINE for module in (dags, expectations, pipeline))
print(sorted(name for name in sys.modules if name.partition(".")[0] in {"dags", "expectations", "pipeline"}))
"""


@pytest.fixture(scope="module")
def package():
    spec = importlib.util.spec_from_file_location("package", ROOT / ".ci" / "package.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as `make wheel` does it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, ROOT / ".ci" / "package.py", folder], check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.parametrize(
    ("source", "renamed"),
    [
        ("from pipeline.errors import ConfigError\n", "from partition_health.pipeline.errors import ConfigError\n"),
        ("    from dags import runs\n", "    from partition_health.dags import runs\n"),
        ("import pipeline\n", "from partition_health import pipeline\n"),
        ("import expectations.checkpoints  # why\n", "import partition_health.expectations.checkpoints  # why\n"),
        ('files("pipeline.simulator.clients")', 'files("partition_health.pipeline.simulator.clients")'),
        ('f"pipeline.cli.{name}"', 'f"partition_health.pipeline.cli.{name}"'),
        ('document["expectations"]\nimport pipelines\n', 'document["expectations"]\nimport pipelines\n'),
    ],
)
def test_what_is_renamed(package, source, renamed):
    assert package.rename(source) == renamed


def test_nothing_lies_or_is_imported_beside_the_namespace(wheel):
    with ZipFile(wheel) as found:
        names = found.namelist()
        sources = {name: found.read(name).decode() for name in names if name.endswith(".py")}
        record = dict(line.split(",")[:2] for line in found.read(names[-1]).decode().splitlines())
        wrong = [
            name
            for name in names[:-1]
            if record[name]
            != "sha256=" + urlsafe_b64encode(hashlib.sha256(found.read(name)).digest()).decode().rstrip("=")
        ]
        points = configparser.ConfigParser()
        points.read_string(next(found.read(name).decode() for name in names if name.endswith("entry_points.txt")))
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"partition_health"}
    assert wrong == []
    left = set()
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            left |= {(name, module) for module in modules if module.partition(".")[0] in FOLDERS}
    assert left == set()
    targets = [value for section in points.sections() for value in points[section].values()]
    assert targets
    assert all(target.startswith("partition_health.") for target in targets)
    ours = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert {f"partition_health/{name}" for name in ours} <= set(names)


def test_packages_of_the_same_names_stay_whose_they_are(wheel, tmp_path):
    """Somebody's own `dags`, `pipeline` and `expectations` come first on the path; Airflow cannot be imported."""
    with ZipFile(wheel) as found:
        found.extractall(tmp_path / "site")
    for folder in FOLDERS:
        (tmp_path / "own" / folder).mkdir(parents=True)
        (tmp_path / "own" / folder / "__init__.py").write_text("MINE = True\n")
    path = os.pathsep.join(str(tmp_path / name) for name in ("own", "site"))
    env = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", USES]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(sorted(FOLDERS))
