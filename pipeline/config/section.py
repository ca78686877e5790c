"""What the parts of the configuration have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from pipeline.errors import ConfigError
from pipeline.model.window import parse_duration_ms, parse_instant_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError


class Section(BaseModel):
    """A part of the configuration: it does not change, and a key nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _readable_by(parse: Callable[[str], int]) -> AfterValidator:
    """Refuses what cannot be read, as a wrong value of its key."""

    def check(text: str) -> str:
        try:
            parse(text)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return text

    return AfterValidator(check)


Duration = Annotated[str, _readable_by(parse_duration_ms)]
"""As in ISO 8601: `PT5M`, `P1D`; fails with the configuration, not when it is used."""
Instant = Annotated[str, _readable_by(parse_instant_ms)]
"""As in ISO 8601, UTC where it has no offset; likewise."""


def format_invalid(error: ValidationError) -> str:
    """Every wrong key, and why.

    >>> try:
    ...     Section(colour="red")
    ... except ValueError as error:
    ...     format_invalid(error)
    'colour: Extra inputs are not permitted'
    """
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
