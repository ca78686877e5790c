"""Configuration shared by all sources; kinds are known once `pipeline.sources.kinds` is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union

from pydantic import Field, GetCoreSchemaHandler

from pipeline.config.section import Section

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

_KINDS: dict[str, type[SourceSettings]] = {}


class SourceSettings(Section):
    """A source in the configuration: its kind says which further keys there are.

    Attributes:
        bears_records: Records come from it: without it no share of a window is judged.
        is_only_one: A cluster has at most one source of this kind.
        completes: Kind of records' source to which it adds the cluster's present state, and then no records.
    """

    bears_records: ClassVar[bool] = False
    is_only_one: ClassVar[bool] = False
    completes: ClassVar[str] = ""

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


AnySource = Annotated[SourceSettings, _ByKind()]
"""A source of any known kind. A model with such a field is built when it is first used (`defer_build`)."""


def known_kinds() -> dict[str, type[SourceSettings]]:
    """Every kind of source; `RuntimeError` where `pipeline.sources.kinds` was not imported."""
    if not _KINDS:
        raise RuntimeError("no kind of source is known: import pipeline.sources.kinds")
    return dict(_KINDS)


def is_record_source(kind: str) -> bool:
    return kind in (kinds := known_kinds()) and kinds[kind].bears_records
