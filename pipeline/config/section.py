"""What the parts of the configuration have in common."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from pipeline.errors import ConfigError
from pipeline.model.window import format_instant, milliseconds_of, parse_duration, parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError


class Section(BaseModel):
    """A part of the configuration: it does not change, and a key nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _read_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Reads texts by our own parser, which takes fewer of them than pydantic's."""

    def read(value: object) -> object:
        try:
            return value if isinstance(value, timedelta) else parse(str(value))
        except ConfigError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(read)


def write_instant(at: datetime) -> str:
    """Writes an instant as ISO 8601 in UTC; a midnight as its date."""
    return format_instant(milliseconds_of(at)).removesuffix("T00:00:00Z")


Duration = Annotated[timedelta, _read_by(parse_duration), PlainSerializer(lambda d: f"PT{d.total_seconds():.0f}S")]
"""A length of time, written as in ISO 8601: `PT5M`, `P1D`."""
Instant = Annotated[datetime, _read_by(parse_instant), PlainSerializer(write_instant)]
"""An instant in UTC, written as in ISO 8601; UTC where it has no offset."""


def format_invalid(error: ValidationError) -> str:
    """Every wrong key, and why.

    >>> try:
    ...     Section(colour="red")
    ... except ValueError as error:
    ...     format_invalid(error)
    'colour: Extra inputs are not permitted'
    """
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
