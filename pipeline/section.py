"""What the parts of the configuration have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from pipeline.model.window import parse_duration_ms


class Section(BaseModel):
    """A part of the configuration: it does not change, and a key nobody knows is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _check_duration(text: str) -> str:
    parse_duration_ms(text)
    return text


Duration = Annotated[str, AfterValidator(_check_duration)]
"""As in ISO 8601: `PT5M`, `P1D`; fails with the configuration, not when it is used."""
