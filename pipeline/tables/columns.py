"""Columns in short: one function a type, all with the same arguments.

`name`, `doc`, `unit`, `nullable` and `volatile` are those of `Column`. A number may be NULL unless it is said that it may
not, for a measure has no value where there was nothing to measure; anything else is there unless it is said otherwise.
"""

from __future__ import annotations

from pipeline.tables.table import Column


def text(name: str, doc: str, unit: str = "", *, nullable: bool = False, volatile: bool = False) -> Column:
    """A string.

    >>> text("topic", "Topic name.").type
    'string'
    """
    return Column(name=name, type="string", doc=doc, unit=unit, nullable=nullable, volatile=volatile)


def whole(name: str, doc: str, unit: str = "", *, nullable: bool = False, volatile: bool = False) -> Column:
    """A whole number: a count, an id, an offset."""
    return Column(name=name, type="bigint", doc=doc, unit=unit, nullable=nullable, volatile=volatile)


def number(name: str, doc: str, unit: str = "", *, nullable: bool = True, volatile: bool = False) -> Column:
    """Any other number: a ratio, a time, a rate."""
    return Column(name=name, type="double", doc=doc, unit=unit, nullable=nullable, volatile=volatile)


def flag(name: str, doc: str, *, nullable: bool = False, volatile: bool = False) -> Column:
    """True or false."""
    return Column(name=name, type="boolean", doc=doc, nullable=nullable, volatile=volatile)


def instant(name: str, doc: str, *, nullable: bool = False, volatile: bool = False) -> Column:
    """An instant, UTC."""
    return Column(name=name, type="timestamp", doc=doc, nullable=nullable, volatile=volatile)


def whole_range(name: str, doc: str, unit: str, *, of: str = "seeds") -> tuple[Column, ...]:
    """A count and the range it lies in."""
    return (
        whole(name, f"{doc}; the median over the {of}.", unit, nullable=True),
        whole(f"{name}_low", f"Lower end of `{name}`.", unit, nullable=True),
        whole(f"{name}_high", f"Upper end of `{name}`.", unit, nullable=True),
    )


def number_range(name: str, doc: str, unit: str) -> tuple[Column, ...]:
    """A number that is no count, and the range it lies in."""
    return (
        number(name, doc, unit),
        number(f"{name}_low", f"Lower end of `{name}`.", unit),
        number(f"{name}_high", f"Upper end of `{name}`.", unit),
    )
