"""The sample of planted mistakes: what is changed, what is left alone, the same sample for the same seed, who survives."""

import ast
import subprocess
import sys

import pytest

from tests.lab.mutants.__main__ import ROOMS, ROOT
from tests.lab.mutants.draw import draw_mutants, list_mutants, read_room
from tests.lab.mutants.imports import ImportGraph


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("x = a + b", {"x = (a - b)"}),
        ("x = a or not b", {"x = (a and (not b))", "x = a or (b)"}),
        ("x = a < b < c", {"x = (a <= b < c)"}),
        ("f(2, True)", {"f(3, True)", "f(2, False)", "pass"}),
        ("a[0] = b", {"a[1] = b", "pass"}),
        ("a: int = 1", {"a: int = 2"}),
        ("x = 'text'", set()),
        ("def f(a: Literal[1]) -> Literal[2]: ...", set()),
        ("raise E(f'{a + 1}')", {"pass"}),
        ("größe -= 1", {"größe -= 2", "pass"}),
    ],
)
def test_mistakes(code, changed):
    mutants = list_mutants("m.py", code)
    assert {mutant.apply(code.encode()).decode() for mutant in mutants} == changed


def test_a_sample_parses_and_is_the_same_for_the_same_seed():
    files = read_room(ROOT, "measures")
    drawn = draw_mutants(files, 40, "1")
    assert drawn == draw_mutants(files, 40, "1") != draw_mutants(files, 40, "2")
    for mutant in drawn:
        ast.parse(mutant.apply(files[mutant.path].encode()))


def test_rooms_have_code_and_tests_reach_it():
    graph = ImportGraph(ROOT)
    for room in ROOMS:
        path = max(read_room(ROOT, room).items(), key=lambda item: len(item[1]))[0]
        reached = any(file.startswith("tests/unit/") for file in graph.reached_from(path))
        assert reached or (ROOT / "tests/unit" / room).exists() or (ROOT / "tests" / room).exists(), room


def test_a_mistake_that_no_test_notices_is_reported_and_one_that_a_test_notices_names_the_test(tmp_path):
    checkout = tmp_path / "checkout"
    for name, text in {
        "pipeline/codec/m.py": "LIMIT = 3\n\n\ndef add(a, b):\n    return a + b\n",
        "tests/unit/test_m.py": "from pipeline.codec.m import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        "dags/needs.py": "raise OSError\nLIMIT = 3\n",
        "tests/properties/README": "",
        "tests/golden/README": "",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = "--import-mode=importlib"\n',
    }.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    commit = ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "All"]
    for words in (["init", "-q"], ["add", "-A"], commit):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    command = [
        sys.executable,
        "-m",
        "tests.lab.mutants",
        "--checkout",
        checkout,
        "--folder",
        tmp_path / "work",
        "--count",
        "40",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert (
        lines[lines.index("pipeline/codec/m.py:5 operator: a + b -> (a - b)") + 1]
        == "FAILED tests/unit/test_m.py::test_add"
    )
    assert lines[lines.index("pipeline/codec/m.py:1 constant: 3 -> 4") + 1] == "SURVIVES"
    assert lines[lines.index("dags/needs.py:2 constant: 3 -> 4") + 1] == "SURVIVES"  # fails without it, too
    assert lines[-1].split() == ["all", "1", "of", "4", "caught"]
    status = subprocess.run(["git", "status", "--short"], cwd=checkout, capture_output=True, text=True, check=True)
    assert status.stdout == ""
