"""Counts the product's lines by what they hold, and fails where it passes its bounds, which only ever get tighter.

A line counts once: as docstring, comment, blank, import, signature (decorators too), declaration (class bodies, constants
of modules), or else as logic.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("pipeline", "dags", "expectations")
MOST_LINES = 55_479
LEAST_LOGIC_PERCENT = 46.6
KINDS = ("docstring", "comment", "blank", "import", "signature", "declaration", "logic")


def count_lines(text: str) -> Counter[str]:
    """The lines of a module by kind."""
    lines = text.splitlines()
    kinds = ["logic"] * len(lines)
    for kind, first, last in _list_spans(ast.parse(text).body, in_function=False):
        kinds[first - 1 : last] = [kind] * (last - first + 1)
    for number, line in enumerate(lines):
        if kinds[number] != "docstring" and not line.strip():
            kinds[number] = "blank"
        elif kinds[number] != "docstring" and line.lstrip().startswith("#"):
            kinds[number] = "comment"
    return Counter(kinds)


def _list_spans(nodes: list[ast.stmt], *, in_function: bool) -> Iterator[tuple[str, int, int]]:
    """Kind, first and last line of what is not logic; inner spans after the outer one."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield "signature", first, node.body[0].lineno - 1
            yield from _list_spans(node.body, in_function=not isinstance(node, ast.ClassDef))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield "import", node.lineno, node.end_lineno or node.lineno
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield "docstring", node.lineno, node.end_lineno or node.lineno
        elif not in_function:
            yield "declaration", node.lineno, node.end_lineno or node.lineno
            if isinstance(node, ast.If):
                yield from _list_spans(node.body, in_function=False)


def main() -> int:
    """Prints the count by room and of all; 1 where a bound is passed."""
    rooms: dict[str, Counter[str]] = {}
    for folder in FOLDERS:
        for path in Path(folder).rglob("*.py"):
            parts = path.parts
            room = parts[1] if parts[0] == "pipeline" and len(parts) > 2 else f"{parts[0]}/*.py"
            rooms.setdefault(room, Counter()).update(count_lines(path.read_text(encoding="utf-8")))
    total = sum(rooms.values(), Counter())
    lines = [f"{'room':16}{'lines':>8}{''.join(f'{kind:>12}' for kind in KINDS)}"]
    for room, counts in [*sorted(rooms.items(), key=lambda item: -item[1].total()), ("all", total)]:
        lines.append(f"{room:16}{counts.total():8,}{''.join(f'{counts[kind]:12,}' for kind in KINDS)}")
    logic_percent = 100 * total["logic"] / total.total()
    lines.append(f"logic {logic_percent:.1f} % (at least {LEAST_LOGIC_PERCENT} %), lines at most {MOST_LINES:,}")
    sys.stdout.write("\n".join(lines) + "\n")
    return int(total.total() > MOST_LINES or logic_percent < LEAST_LOGIC_PERCENT)


if __name__ == "__main__":
    sys.exit(main())
