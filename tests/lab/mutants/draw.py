"""The mistakes that can be made in a source file, and a seeded sample of them."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SWAPPED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
KINDS = ("operator", "comparison", "constant", "statement")


@dataclass(frozen=True, order=True)
class Mutant:
    """One mistake: the text from one place to another of a file, and what stands there instead (offsets in UTF-8 bytes)."""

    path: str
    begin: int
    end: int
    kind: str
    line: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def show(self, source: bytes) -> str:
        before = source[self.begin : self.end].decode()
        return f"{self.path}:{self.line} {self.kind}: {' '.join(before.split())} -> {' '.join(self.text.split())}"


def list_mutants(path: str, source: str) -> list[Mutant]:
    """Every mutant of a file whose code can be parsed; none in annotations, docstrings and decorators."""
    begins = [0]
    for line in source.encode().splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    found = []
    for node in _walk_code(ast.parse(source)):
        for kind, text in _mistakes(node):
            begin = begins[node.lineno - 1] + node.col_offset
            end = begins[node.end_lineno - 1] + node.end_col_offset
            found.append(Mutant(path, begin, end, kind, node.lineno, text))
    return sorted(set(found))


def draw_mutants(files: dict[str, str], count: int, seed: str) -> list[Mutant]:
    """A sample: kinds in turn, in any order, within a kind every place as likely as any other."""
    rng = random.Random(seed)
    found = [mutant for path, source in sorted(files.items()) for mutant in list_mutants(path, source)]
    by_kind = {kind: [mutant for mutant in found if mutant.kind == kind] for kind in KINDS}
    for mutants in by_kind.values():
        rng.shuffle(mutants)
    drawn: list[Mutant] = []
    for kind in cycle(rng.sample(KINDS, len(KINDS))):
        if len(drawn) == count or not any(by_kind.values()):
            return drawn
        if by_kind[kind]:
            drawn.append(by_kind[kind].pop())
    raise AssertionError


def read_room(root: Path, room: str) -> dict[str, str]:
    """The source files of a room by path; the DAGs and the gates' room lie beside `pipeline/`."""
    folder = root / "pipeline" / room
    paths = sorted((folder if folder.exists() else root / room).rglob("*.py"))
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def _walk_code(node):
    """All nodes that run when the code does."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "format_spec"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from _walk_code(child)


def _mistakes(node):
    """Pairs of kind and the text that replaces a node."""
    match node:
        case ast.BinOp(op=op) if type(op) in SWAPPED:
            yield "operator", _unparse(ast.BinOp(node.left, SWAPPED[type(op)](), node.right))
        case ast.BoolOp(op=op):
            yield "operator", _unparse(ast.BoolOp(SWAPPED[type(op)](), node.values))
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield "operator", _unparse(node.operand)
        case ast.Compare(ops=[first, *others]):
            yield "comparison", _unparse(ast.Compare(node.left, [SWAPPED[type(first)](), *others], node.comparators))
        case ast.Constant(value=bool() as value):
            yield "constant", str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", repr(value + 1)
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "statement", "pass"
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]):
            yield "statement", "pass"


def _unparse(node) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"
