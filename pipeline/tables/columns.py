"""Short forms of `Column`, one function per type.

A double may be NULL by default, as a measure has no value where there was nothing to measure; other types may not.
"""

from pipeline.tables.table import Column


def string(name: str, doc: str, unit: str = "", *, nullable: bool = False, volatile: bool = False) -> Column:
    """A text; never NULL by default."""
    return Column(name, "string", doc, unit, nullable=nullable, volatile=volatile)


def bigint(name: str, doc: str, unit: str = "", *, nullable: bool = False, volatile: bool = False) -> Column:
    """A count, an id, an offset."""
    return Column(name, "bigint", doc, unit, nullable=nullable, volatile=volatile)


def double(name: str, doc: str, unit: str = "", *, nullable: bool = True, volatile: bool = False) -> Column:
    """A ratio, a time, a rate."""
    return Column(name, "double", doc, unit, nullable=nullable, volatile=volatile)


def boolean(name: str, doc: str, *, nullable: bool = False, volatile: bool = False) -> Column:
    """True or false."""
    return Column(name, "boolean", doc, nullable=nullable, volatile=volatile)


def timestamp(name: str, doc: str, *, nullable: bool = False, volatile: bool = False) -> Column:
    """An instant in UTC."""
    return Column(name, "timestamp", doc, nullable=nullable, volatile=volatile)


def bigint_range(name: str, doc: str, unit: str, *, of: str = "seeds") -> tuple[Column, ...]:
    """A count and its range."""
    return (
        bigint(name, f"{doc}; the median over the {of}.", unit, nullable=True),
        bigint(f"{name}_low", f"Lower end of `{name}`.", unit, nullable=True),
        bigint(f"{name}_high", f"Upper end of `{name}`.", unit, nullable=True),
    )


def double_range(name: str, doc: str, unit: str) -> tuple[Column, ...]:
    """A ratio, time or rate, and its range."""
    return (
        double(name, doc, unit),
        double(f"{name}_low", f"Lower end of `{name}`.", unit),
        double(f"{name}_high", f"Upper end of `{name}`.", unit),
    )
