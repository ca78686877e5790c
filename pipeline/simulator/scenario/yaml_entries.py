"""YAML with the place of every value, so that an error names file, line, key, what was found and what was expected."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import yaml

from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_MOST_SHOWN = 60
_EXPONENTIAL = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


@dataclass(frozen=True)
class Entry:
    """A value in a YAML document.

    Attributes:
        file: Name of the file.
        line: Of the value, from 1.
        key: Where it stands, such as `producers[0].traffic.topic`; "" at the top.
        node: As composed.
    """

    file: str
    line: int
    key: str
    node: yaml.Node

    def error(self, problem: str) -> ConfigError:
        """An error at this place."""
        return ConfigError(f"{self.file}:{self.line}: {_escape(f'{self.key}: {problem}' if self.key else problem)}")

    def expect(self, expected: str) -> ConfigError:
        """An error that names what was found and what was expected."""
        return self.error(f"found {self._describe()}; expected {expected}")

    @property
    def is_null(self) -> bool:
        """It is YAML's null, or nothing."""
        return self.node.tag == "tag:yaml.org,2002:null"

    @property
    def is_mapping(self) -> bool:
        """It has keys."""
        return isinstance(self.node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """It is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    def mapping(self, known: Iterable[str] | None = None, needed: Sequence[str] = ()) -> dict[str, Entry]:
        """Its values by key.

        Args:
            known: Keys that may be there; None for any.
            needed: Keys that must be there.

        Raises:
            ConfigError: It is no mapping, or has another key, a key twice, or lacks one.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.expect(f"a mapping with {', '.join(needed or sorted(known or ('keys',)))}")
        entries: dict[str, Entry] = {}
        allowed = None if known is None else sorted({*known, *needed})
        for key_node, value_node in self.node.value:
            name = str(key_node.value)
            line = key_node.start_mark.line + 1
            place = Entry(self.file, line, self.key, key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise place.expect("a key of plain text")
            if name in entries:
                raise place.error(f"key {name} twice; first in line {entries[name].line}")
            if allowed is not None and name not in allowed:
                raise place.error(f"unknown key {name}; {_describe_near(name, allowed)}")
            entries[name] = Entry(self.file, line, f"{self.key}.{name}" if self.key else name, value_node)
        for name in needed:
            if name not in entries:
                raise self.error(f"key {name} is missing")
        return entries

    def items(self) -> list[Entry]:
        """Its elements.

        Raises:
            ConfigError: It is no list.
        """
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.expect("a list")
        return [
            Entry(self.file, node.start_mark.line + 1, f"{self.key}[{place}]", node)
            for place, node in enumerate(self.node.value)
        ]

    def text(self) -> str:
        """Its text as written; a number's too.

        Raises:
            ConfigError: It is a list, a mapping or null.
        """
        if not isinstance(self.node, yaml.ScalarNode) or self.is_null:
            raise self.expect("a text")
        return str(self.node.value)

    def text_or_null(self) -> str | None:
        """Its text as written, or None for null."""
        return None if self.is_null else self.text()

    def whole(self, least: int = 0, most: int | None = None) -> int:
        """A whole number.

        Raises:
            ConfigError: It is none, or outside the limits.
        """
        number = self._scalar()
        if isinstance(number, bool) or not isinstance(number, int) or not _is_within(number, least, most):
            raise self.expect(f"a whole number{_describe_limits(least, most)}")
        return number

    def number(self, least: float = 0, most: float | None = None) -> float:
        """A number; also one like 3e-5, which YAML 1.1 takes for a text.

        Raises:
            ConfigError: It is none, or outside the limits.
        """
        number = self._scalar()
        if isinstance(number, str) and _EXPONENTIAL.fullmatch(number):
            number = float(number)
        if isinstance(number, bool) or not isinstance(number, int | float) or not _is_within(number, least, most):
            raise self.expect(f"a number{_describe_limits(least, most)}")
        return float(number)

    def choice(self, options: Sequence[str]) -> str:
        """One of some words.

        Raises:
            ConfigError: It is another one.
        """
        if not isinstance(self.node, yaml.ScalarNode) or self.node.value not in options:
            raise self.expect(" or ".join(options))
        return str(self.node.value)

    def _scalar(self) -> object:
        if not isinstance(self.node, yaml.ScalarNode):
            return None
        return yaml.SafeLoader("").construct_object(self.node)

    def _describe(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        shown = str(self.node.value)
        if self.is_null:
            return "nothing"
        return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"


def parse_yaml(text: str, file: str) -> Entry:
    """Parses a YAML document, anchors and merge keys resolved.

    Args:
        text: The document.
        file: Named in errors.

    Returns:
        Its root.

    Raises:
        ConfigError: It is not YAML, or empty.
    """
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        _flatten(loader, root, set())
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not YAML: {error}") from error
    finally:
        loader.dispose()
    if root is None:
        raise ConfigError(f"{file}:1: empty; expected a scenario")
    return Entry(file, 1, "", root)


def gather(*steps: Callable[[], object]) -> None:
    """Runs steps that do not depend on each other, so that one run tells everything that is wrong.

    Raises:
        ConfigError: With every step's problems, a line each.
    """
    problems: list[str] = []
    for step in steps:
        try:
            step()
        except ConfigError as error:
            problems += [line for line in str(error).split("\n") if line not in problems]
    if problems:
        raise ConfigError("\n".join(problems))


def gather_each(entries: Iterable[_In], parse: Callable[[_In], _Out]) -> list[_Out]:
    """Parses each of several values and tells everything that is wrong with any.

    Raises:
        ConfigError: With every value's problems, a line each.
    """
    found: list[_Out] = []

    def step(entry: _In) -> Callable[[], object]:
        return lambda: found.append(parse(entry))

    gather(*(step(entry) for entry in entries))
    return found


def _flatten(loader: yaml.SafeLoader, node: yaml.Node | None, seen: set[int]) -> None:
    """Resolves merge keys; an alias may lead back to where it stands, hence `seen`."""
    if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        own_count = sum(key.tag != "tag:yaml.org,2002:merge" for key, _ in node.value)
        loader.flatten_mapping(node)
        merged, own = node.value[: len(node.value) - own_count], node.value[len(node.value) - own_count :]
        own_keys = {key.value for key, _ in own}
        node.value = [*{key.value: (key, value) for key, value in merged if key.value not in own_keys}.values(), *own]
    for value in node.value:
        for part in value if isinstance(value, tuple) else (value,):
            _flatten(loader, part, seen)


def _escape(text: str) -> str:
    """On one line, whatever was found."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def _is_within(number: float, least: float, most: float | None) -> bool:
    return least <= number and (most is None or number <= most)


def _describe_limits(least: float, most: float | None) -> str:
    return f", {least:.15g} or more" if most is None else f" from {least:.15g} to {most:.15g}"


def _describe_near(name: str, allowed: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, allowed, n=2, cutoff=0.6)
    return f"nearest: {', '.join(near)}" if near else f"expected {', '.join(allowed)}"
