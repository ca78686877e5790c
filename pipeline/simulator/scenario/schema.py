"""The schema of a scenario file, as text for people: printed from the models that read it."""

import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from pipeline.simulator.scenario.distribution import Distribution, Steps
from pipeline.simulator.scenario.quantities import ScenarioPart
from pipeline.simulator.scenario.scenario_section import ScenarioSection

_HEAD = """\
A scenario file is YAML: a key, and in brackets what it is when left out. Times say their unit; files are looked for in its folder.
A QUANTITY is a number; quantiles, straight lines between: {0: 0.1, 0.5: 0.2, 0.99: 2, 1: 5}; or its mean where it is
exponential: {exponential: 0.3}. Configs that a version of the client has, but that do not touch partitions, batches or
times, are accepted, with a note.
"""
_TYPES = {int: "whole number", float: "number", str: "text", bool: "true or false", Distribution: "QUANTITY"}
_TYPES |= {Steps: "milliseconds"}
_COLUMN = 44
_WIDTH = 120


def format_schema() -> str:
    """Every key of a scenario file on a line, with its type, what it is when left out, and what it means."""
    return _HEAD + "\n" + "\n".join(_list_keys(ScenarioSection, "", set())) + "\n"


def _list_keys(part: type[ScenarioPart], indent: str, printed: set[type[ScenarioPart]]) -> Iterator[str]:
    """The lines of a part; of one that was printed before, one line."""
    if part in printed:
        yield f"{indent}the keys of {part.__name__.removesuffix('Section').lower()} above"
        return
    printed.add(part)
    for name, field in sorted(part.model_fields.items(), key=lambda item: item[0] != "name"):
        parts = list(_find_parts(field.annotation))
        default = "" if field.is_required() else f"[{_describe_default(field)}] "
        about = f"{default}{' '.join((field.description or '').split())}"
        is_list = any(get_origin(one) is tuple for one in (field.annotation, *get_args(field.annotation)))
        kind = _describe_type(field.annotation) if not parts else "a list" if is_list else ""
        yield from _format_line(f"{indent}{name}: {kind}", about)
        for member in parts:
            if len(parts) > 1:
                yield from _format_line(f"{indent}  or", " ".join((member.__doc__ or "").split()))
            yield from _list_keys(member, indent + "    ", printed)


def _format_line(head: str, about: str) -> list[str]:
    lines = textwrap.wrap(about, _WIDTH - _COLUMN) or [""]
    first = f"{head:<{_COLUMN - 1}} {lines[0]}".rstrip()
    return [first, *(" " * _COLUMN + line for line in lines[1:])]


def _find_parts(annotation: Any) -> Iterator[type[ScenarioPart]]:  # noqa: ANN401  (a type)
    if isinstance(annotation, type) and issubclass(annotation, ScenarioPart):
        yield annotation
    for argument in get_args(annotation):
        yield from _find_parts(argument)


def _describe_type(annotation: Any) -> str:  # noqa: ANN401  (a type)
    arguments = [argument for argument in get_args(annotation) if argument not in (type(None), ...)]
    if get_origin(annotation) is Literal:
        return " or ".join(arguments)
    if get_origin(annotation) is tuple:
        return f"[{_describe_type(arguments[0])}, ...]"
    if get_origin(annotation) is dict:
        return f"{{{_describe_type(arguments[0])}: {_describe_type(arguments[1])}, ...}}"
    return _describe_type(arguments[0]) if arguments else _TYPES.get(annotation, "file")


def _describe_default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Distribution | Steps):
        return "0"
    return f"{value:g}" if isinstance(value, int | float) else str(value) if value else "none"
