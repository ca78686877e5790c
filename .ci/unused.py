"""Lists what no product code uses: functions, classes, methods, constants and fields that only tests name, or nobody.

Something is used when code that is used itself names it: by name in its own module or where it is imported, as an
attribute, or as a string (column names, `getattr`). Code at module level is used; so are dunder methods and what a
framework's decorator registers, and members of an enum. Attributes are compared by name, not by type: what shares its name with something used
is not found. What only a framework calls has a line, with the reason, in `unused-allowed.txt`.
"""

from __future__ import annotations

import ast
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDERS = ("pipeline", "dags", "expectations")
TEXTS = ("*.j2", "*.json")  # templates read fields, suites name expectations: their words are uses
REGISTERED = re.compile(r"(field|model)_(validator|serializer)|hookimpl|metric_\w+|renderer")
ALLOWED = ".ci/unused-allowed.txt"


class Unit(NamedTuple):
    """A definition: the class it is in, the words that make it used (none: it always is), the words its code uses."""

    label: str
    owner: str
    words: frozenset[str]
    uses: frozenset[str]


def read_units(module: str, text: str, allowed: Sequence[str]) -> list[Unit]:
    """Splits a module into its definitions, members of classes apart; all other code is one unit, always used."""
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    units: list[Unit] = []

    def read(nodes: list[ast.stmt], owner: str, *, is_enum: bool = False) -> frozenset[str]:
        """Adds the definitions among some statements; returns the uses of the others, an enum's members among them."""
        others: list[ast.AST] = []
        for node in nodes:
            names = [] if is_enum and isinstance(node, ast.Assign) else _bound_names(node)
            if not names:
                others.append(node)
            for name in names:
                label = f"{owner}.{name}" if owner else f"{module}:{name}"
                uses, parts = frozenset[str](), [node]
                if isinstance(node, ast.ClassDef):
                    is_enum = any(ast.unparse(base).endswith("Enum") for base in node.bases)
                    uses = read(node.body, label, is_enum=is_enum)
                    parts = [*node.bases, *node.keywords, *node.decorator_list]
                words = {label, f".{name}", f"'{name}'"} if owner else {label, f".{name}"}
                words = frozenset() if _is_always_used(label, node, allowed) else frozenset(words)
                units.append(Unit(label, owner, words, uses | _collect(parts, module, imported)))
        return _collect(others, module, imported)

    units.append(Unit(module, "", frozenset(), read(tree.body, "")))
    return units


def _bound_names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.AnnAssign(target=ast.Name() as target):
            return [target.id]
        case ast.Assign():
            return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return []


def _is_always_used(label: str, node: ast.AST, allowed: Sequence[str]) -> bool:
    decorators = [ast.unparse(decorator).partition("(")[0] for decorator in getattr(node, "decorator_list", ())]
    return (
        re.split(r"[.:]", label)[-1].startswith("__")
        or any(REGISTERED.fullmatch(decorator.rpartition(".")[2]) for decorator in decorators)
        or any(fnmatch(label, entry) for entry in allowed)
    )


def _collect(nodes: list[ast.AST], module: str, imported: dict[str, str]) -> frozenset[str]:
    uses: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Name(ctx=ast.Load()):
                uses.add(imported.get(node.id, f"{module}:{node.id}"))
            case ast.Attribute(ctx=ast.Load()):
                uses.add(f".{node.attr}")
            case ast.Constant(value=str() as text) if text.isidentifier():
                uses.add(f"'{text}'")
            case ast.MatchClass():
                uses |= {f".{name}" for name in node.kwd_attrs}
    return frozenset(uses)


def find_unused(root: Path, allowed: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Labels of what is not used, file by file (of a class, without its members), and entries that allow nothing."""
    units: list[Unit] = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        units += read_units(module, path.read_text(), allowed)
    texts = [path for folder in FOLDERS for pattern in TEXTS for path in (root / folder).rglob(pattern)]
    words = {word for path in (*texts, root / "pyproject.toml") for word in re.findall(r"\w+", path.read_text())}
    used = {f".{word}" for word in words} | {f".{word.title().replace('_', '')}" for word in words}
    idle = [entry for entry in allowed if not any(fnmatch(unit.label, entry) for unit in units)]
    while True:
        unused = {unit.label for unit in units}
        rest = [unit for unit in units if unit.owner in unused or (unit.words and not unit.words & used)]
        if len(rest) == len(units):
            return [unit.label for unit in rest if unit.owner not in unused], idle
        used |= {word for unit in units if unit not in rest for word in unit.uses}
        units = rest


def main(root: Path) -> int:
    """Prints what is unused and not allowed, and which entries allow nothing; returns 1 where there is any."""
    lines = (root / ALLOWED).read_text().splitlines()
    unused, idle = find_unused(root, [entry for line in lines if (entry := line.partition("#")[0].strip())])
    sys.stdout.writelines(f"unused: {label}\n" for label in unused)
    sys.stdout.writelines(f"{ALLOWED}: nothing is named {entry}\n" for entry in idle)
    return bool(unused or idle)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path()))
