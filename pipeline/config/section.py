"""Base of all configuration sections, and the errors for values they refuse."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Union

import pydantic
from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, ErrorDetails

from pipeline.errors import ConfigError
from pipeline.model.window import format_instant, milliseconds_of, parse_duration, parse_instant

Location = tuple[int | str, ...]  # keys and places in lists, from the top of the document
_MOST_SHOWN = 60
_MOST_PROBLEMS = 100
_ID = re.compile("-?(0|[1-9][0-9]*)", re.ASCII)
LONGEST = timedelta(days=3653)
_EXPECTED = {
    "int_parsing": "a whole number", "int_type": "a whole number", "int_from_float": "a whole number",
    "float_parsing": "a number", "float_type": "a number", "bool_parsing": "true or false",
    "bool_type": "true or false", "string_type": "a text", "dict_type": "a mapping", "list_type": "a list",
    "tuple_type": "a list", "literal_error": "{expected}", "union_tag_invalid": "{expected_tags}",
    "string_pattern_mismatch": "a text that matches {pattern}", "string_too_short": "{min_length} characters or more",
    "string_too_long": "{max_length} characters or fewer", "too_short": "at least {min_length}",
    "greater_than_equal": "{ge:.15g} or more", "greater_than": "more than {gt:.15g}",
    "less_than_equal": "{le:.15g} or less", "less_than": "less than {lt:.15g}",
}  # fmt: skip  # a table: short fields share a line
"""By pydantic's type of error; of others its own words follow."""


class Section(pydantic.BaseModel):
    """A part of the configuration: frozen; an unknown key is an error; defaults are validated, so paths are the file's.

    `partition-health config` prints the text below each field.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", validate_default=True, revalidate_instances="always", allow_inf_nan=False
    )


def _read_by(parse: Callable[[str], object]) -> pydantic.BeforeValidator:
    """Reads texts by our own parser, which takes fewer of them than pydantic's."""

    def read(value: object) -> object:
        try:
            return value if isinstance(value, timedelta | datetime) else parse(str(value))
        except ConfigError as error:
            raise ValueError(str(error)) from error

    return pydantic.BeforeValidator(read)


def _write_setting(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


def write_instant(at: datetime) -> str:
    return format_instant(milliseconds_of(at)).removesuffix("T00:00:00Z")


def under_folder(path: Path, validation: pydantic.ValidationInfo) -> Path:
    folder: Path | None = (validation.context or {}).get("folder")
    try:
        return path if folder is None else folder / path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: this machine has no such user; write the folder in full") from error


def _check_length(duration: timedelta) -> timedelta:
    if duration > LONGEST:
        raise ValueError(f"longer than {LONGEST.days:,} days")
    return duration


ConfigPath = Annotated[Path, pydantic.AfterValidator(under_folder)]  # taken from the `folder` in the context
Duration = Annotated[
    timedelta,
    _read_by(parse_duration),
    pydantic.AfterValidator(_check_length),
    pydantic.PlainSerializer(lambda d: f"PT{d.total_seconds():.0f}S"),
]  # A length of time, written as in ISO 8601: `PT5M`, `P1D`; ten years at most


def _check_id(value: object) -> object:
    if isinstance(value, str) and any(map(str.isdigit, value)) and not _ID.fullmatch(value):
        raise ValueError(f"found {_show(value)}; expected a whole number in plain digits")
    return value


NodeId = Annotated[int, pydantic.BeforeValidator(_check_id)]  # written in one way, so that no two keys are one id
TimeoutSeconds = Annotated[float, pydantic.Field(gt=0, le=3600)]  # in the reach of every clock
Instant = Annotated[datetime, _read_by(parse_instant), pydantic.PlainSerializer(write_instant)]
"""An instant in UTC, written as in ISO 8601; UTC where it has no offset."""

KafkaSetting = Annotated[
    str, pydantic.BeforeValidator(_write_setting), pydantic.WithJsonSchema({"type": ["string", "number", "boolean"]})
]  # A client's setting, as its properties file has it


class WrongValuesError(ValueError):
    """Values that are refused, each with its location below the value that was looked at; raised in a validator too."""

    def __init__(self, *problems: tuple[Location, str]) -> None:
        super().__init__("; ".join(problem for _, problem in problems))
        self.problems = problems


class Problems:
    """Gathers what is wrong in several places, so that one reading reports all of it."""

    def __init__(self) -> None:
        self.found: list[tuple[Location, str]] = []

    @contextmanager
    def at(self, *location: int | str) -> Iterator[None]:
        try:
            yield
        except WrongValuesError as error:
            self.found += [((*location, *below), problem) for below, problem in error.problems]
        except ConfigError as error:
            self.found.append((location, str(error)))

    def check(self) -> None:
        if self.found:
            raise WrongValuesError(*self.found)


def list_problems(error: pydantic.ValidationError, kind: Any) -> Iterator[tuple[Location, str]]:  # noqa: ANN401  (a type)
    """What is wrong, each with its location; the first hundred of many, and how many there are."""
    schema, count = pydantic.TypeAdapter(kind).json_schema(ref_template="{model}"), error.error_count()
    if count > _MOST_PROBLEMS:
        yield (), f"{count:,} values are wrong; the first {_MOST_PROBLEMS} follow"
    for detail in error.errors(include_url=False)[:_MOST_PROBLEMS]:
        if detail["type"] == "default_factory_not_called":  # it follows another value, which is refused itself
            continue
        is_short = detail["type"] == "too_short" and len(detail["input"]) < detail["ctx"]["min_length"]
        if detail["type"] == "value_error" and isinstance(wrong := detail["ctx"]["error"], WrongValuesError):
            yield from (((*detail["loc"], *below), problem) for below, problem in wrong.problems)
        elif is_short or detail["type"] != "too_short":  # a list is too short, too, where its items are refused
            yield _describe(detail, schema)


def format_problems(error: pydantic.ValidationError, kind: Any) -> str:  # noqa: ANN401  (a type)
    """Every refused value on one line, by its keys.

    >>> try:
    ...     Section(colour="red")
    ... except pydantic.ValidationError as error:
    ...     format_problems(error, Section)
    'colour: unknown key; expected no key'
    """
    problems = list_problems(error, kind)
    return "; ".join(f"{'.'.join(map(str, loc))}: {problem}".removeprefix(": ") for loc, problem in problems)


def suggest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    nearest = f"nearest: {', '.join(near)}; " if near else ""
    return f"{nearest}expected {', '.join(known) or 'no key'}"


def _describe(detail: ErrorDetails, schema: Mapping[str, Any]) -> tuple[Location, str]:
    loc, kind, context = detail["loc"], detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return loc[:-1], f"key {loc[-1]} is missing"
    if kind == "union_tag_not_found":
        return loc, f"key {context['discriminator'].strip(chr(39))} is missing"
    if kind == "extra_forbidden":
        known = list(_find_schema(schema, loc[:-1], schema).get("properties", ()))
        return loc, f"unknown key; {suggest(str(loc[-1]), known)}"
    if kind == "value_error":
        return loc, detail["msg"].removeprefix("Value error, ")
    if kind == "union_tag_invalid":
        loc = (*loc, context["discriminator"].strip("'"))
        return loc, f"found {context['tag']}; expected {context['expected_tags']}"
    if kind == "model_type":
        part = _find_schema(schema, loc, schema)
        expected = f"a mapping with {', '.join(part.get('required') or part.get('properties', ()))}"
    elif kind in _EXPECTED:
        expected = _EXPECTED[kind].format(**context)
    else:
        expected = detail["msg"].removeprefix("Input should be ")
    # A text in place of a mapping may be a secret: `basic_auth: me:password`.
    is_part = kind in ("model_type", "dict_type", "list_type", "tuple_type")
    shown = "a text" if is_part and isinstance(detail["input"], str) else _show(detail["input"])
    return loc, f"found {shown}; expected {expected}"


def _find_schema(schema: Mapping[str, Any], loc: Location, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON schema at a location; parts of the location that name a member of a union lead to that member."""
    if "$ref" in schema:
        return _find_schema(root["$defs"][schema["$ref"]], loc, root)
    if loc:
        first, rest = loc[0], loc[1:]
        named = schema.get("properties", {}).get(first) or schema.get("additionalProperties")
        below = schema.get("items") if isinstance(first, int) else named
        if isinstance(below, dict):
            return _find_schema(below, rest, root)
        tagged = schema.get("discriminator", {}).get("mapping", {}).get(first)
        if tagged is not None:
            return _find_schema({"$ref": tagged}, rest, root)
    options = [_find_schema(option, loc, root) for key in ("anyOf", "oneOf") for option in schema.get(key, ())]
    return next((option for option in options if "properties" in option), {} if loc else schema)


def _show(value: object) -> str:
    if value in (None, [], {}, ()):
        return "nothing"
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    shown = str(value)
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}…"


_KINDS: dict[str, "type[SourceSettings]"] = {}


class SourceSettings(Section):
    """A source in the configuration: its kind says which further keys there are."""

    bears_records: ClassVar[bool] = False
    """Records come from it: without it no share of a window is judged."""
    is_only_one: ClassVar[bool] = False
    """A cluster has at most one source of this kind."""
    completes: ClassVar[str] = ""
    """Kind of records' source to which it adds the cluster's present state, and then no records."""

    kind: str

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:  # noqa: ANN401  (pydantic's signature)
        """Makes the kind known that a subclass names."""
        for kind in getattr(cls.model_fields["kind"].annotation, "__args__", ()):  # of a Literal
            _KINDS[kind] = cls


class _ByKind:
    """Validates a source by the class of its kind."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        kinds = tuple(known_kinds().values())
        return handler.generate_schema(Annotated[Union[kinds], Field(discriminator="kind")])  # noqa: UP007  (built here)


AnySource = Annotated[SourceSettings, _ByKind()]  # `defer_build` models with such a field


def known_kinds() -> dict[str, type[SourceSettings]]:
    """Every kind of source; `RuntimeError` where `pipeline.sources.kinds` was not imported."""
    if not _KINDS:
        raise RuntimeError("no kind of source is known: import pipeline.sources.kinds")
    return dict(_KINDS)


def is_record_source(kind: str) -> bool:
    return kind in (kinds := known_kinds()) and kinds[kind].bears_records
