"""Columns that the replay's gold tables share."""

from __future__ import annotations

from pipeline.tables.table import Column

CANDIDATE = Column(
    name="candidate",
    type="string",
    nullable=False,
    doc="Name in the configuration; `in-use` for the strategy in use, replayed like any other.",
)
IS_BASELINE = Column(
    name="is_baseline", type="boolean", nullable=False, doc="The candidate is what is in use: its rows test the replay."
)


def whole_range(name: str, unit: str, doc: str, *, of: str = "seeds") -> tuple[Column, ...]:
    """A count and the range it lies in."""
    return (
        Column(name=name, type="bigint", unit=unit, doc=f"{doc}; the median over the {of}."),
        Column(name=f"{name}_low", type="bigint", unit=unit, doc=f"Lower end of `{name}`."),
        Column(name=f"{name}_high", type="bigint", unit=unit, doc=f"Upper end of `{name}`."),
    )


def number_range(name: str, unit: str, doc: str) -> tuple[Column, ...]:
    """A number that is no count, and the range it lies in."""
    return (
        Column(name=name, type="double", unit=unit, doc=doc),
        Column(name=f"{name}_low", type="double", unit=unit, doc=f"Lower end of `{name}`."),
        Column(name=f"{name}_high", type="double", unit=unit, doc=f"Upper end of `{name}`."),
    )
