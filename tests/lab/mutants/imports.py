"""Which modules and tests a module reaches, read from import statements."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class ImportGraph:
    """Imports among the product's and the tests' files of a checkout; paths are relative to it."""

    def __init__(self, root: Path) -> None:
        folders = [root / name for name in ("pipeline", "dags", "expectations", "tests")]
        self.root = root
        self.paths = {str(path.relative_to(root)) for folder in folders for path in folder.rglob("*.py")}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """By file: the files that import it."""
        found: dict[str, set[str]] = {path: set() for path in self.paths}
        for path in self.paths:
            for imported in self._imports(path) - {path}:
                found[imported].add(path)
        return found

    def reached_from(self, path: str) -> dict[str, int]:
        """Files that import a file, straight or through others, and through how many steps."""
        steps = {path: 0}
        queue = [path]
        for current in queue:
            for importer in sorted(self.importers[current]):
                if importer not in steps:
                    steps[importer] = steps[current] + 1
                    queue.append(importer)
        return steps

    def _imports(self, path: str) -> set[str]:
        names: set[str] = set()
        for node in ast.walk(ast.parse((self.root / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        stems = [name.replace(".", "/") for name in names]
        return {file for stem in stems for file in (f"{stem}.py", f"{stem}/__init__.py") if file in self.paths}
