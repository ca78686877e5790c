"""The sample of planted mistakes: what is changed, what is left alone, the same sample for the same seed."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import ROOMS, ROOT
from tests.mutants.draw import draw_mutants, list_mutants, read_room
from tests.mutants.imports import ImportGraph


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
        assert any(file.startswith("tests/unit/") for file in graph.reached_from(path)), room
