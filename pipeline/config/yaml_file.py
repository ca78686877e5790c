"""YAML files read into models, each scalar as it is written, so that `3.10` is no 3.1; what is refused has file, line and column."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from pipeline.config.section import Location, list_problems
from pipeline.errors import ConfigError
from pipeline.files import read_small
from pipeline.model.number_text import escape_hidden

_T = TypeVar("_T")
_MOST_DEPTH = 50
_MERGE, _NULL = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:null"


class _Loader(yaml.SafeLoader):
    """Leaves scalars as texts; refuses a key given twice, an alias that contains itself, and what is nested deeply."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401  (as in PyYAML)
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"more than {_MOST_DEPTH} levels", problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401, FBT001, FBT002  (as in PyYAML)
        if isinstance(node, yaml.ScalarNode):
            return None if node.tag == _NULL else node.value
        return super().construct_object(node, deep=True)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="expected a text as key", problem_mark=key.start_mark)
            if key.tag != _MERGE and key.value in lines:
                problem = f"key {key.value} twice; first in line {lines[key.value]}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        super().flatten_mapping(node)
        node.value = list({key.value: (key, value) for key, value in node.value}.values())  # own keys come last

    def construct_collection(self, node: yaml.Node) -> Any:  # noqa: ANN401
        if isinstance(node, yaml.MappingNode):
            self.flatten_mapping(node)
            return {key.value: self.construct_object(value) for key, value in node.value}
        return [self.construct_object(value) for value in node.value]


_Loader.yaml_constructors = {None: _Loader.construct_collection}


@dataclass(frozen=True)
class YamlFile:
    name: str
    value: Any  # mappings, lists, texts as written, and None
    root: yaml.Node | None  # as composed; None where the file is empty

    def validate(self, kind: type[_T], *, context: object = None) -> _T:
        """The file's values as a type; `ConfigError` with a line for each value that is wrong."""
        try:
            return TypeAdapter(kind).validate_python(self.value, context=context)
        except ValidationError as error:
            raise self.error(list_problems(error, kind)) from error

    def error(self, problems: Iterable[tuple[Location, str]]) -> ConfigError:
        located = {(*self._locate(loc), problem) for loc, problem in problems}
        return ConfigError(
            "\n".join(
                escape_hidden(f"{self.name}:{line}:{column}: {f'{key}: ' if key else ''}{problem}")
                for line, column, key, problem in sorted(located)
            )
        )

    def _locate(self, loc: Location) -> tuple[int, int, str]:
        """Line, column and key; parts of the location that the file does not have are passed over."""
        node, mark, key = self.root, self.root and self.root.start_mark, ""
        for part in loc:
            wanted = str(part)
            if isinstance(node, yaml.MappingNode):
                for name, value in node.value:
                    if name.value == wanted:
                        node, mark, key = value, name.start_mark, f"{key}.{part}".removeprefix(".")
                        break
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                node, key = node.value[part], f"{key}[{part}]"
                mark = node.start_mark
        return (mark.line + 1, mark.column + 1, key) if mark else (1, 1, key)


def read_yaml(path: Path) -> YamlFile:
    """Reads a file; `ConfigError` where it cannot be read, or is not YAML."""
    return parse_yaml(read_text(path), str(path))


def find_yaml(path: Path) -> YamlFile | None:
    try:
        return read_yaml(path)
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def read_text(path: Path) -> str:
    try:
        return read_small(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def parse_yaml(text: str, name: str) -> YamlFile:
    """Parses a document with anchors and merge keys; `ConfigError` for no YAML, a key twice, an alias within itself."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        return YamlFile(name, None if root is None else loader.construct_document(root), root)
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        raise ConfigError(f"{name}:{len(before)}:{len(before[-1]) + 1}: not YAML: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{mark.line + 1}:{mark.column + 1}" if mark else "1"
        raise ConfigError(escape_hidden(f"{name}:{where}: not YAML: {error.problem or error.context}")) from error
