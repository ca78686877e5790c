"""Which source yields which number, and how: the table that `partition-health tables --sources` prints."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.sources.kinds import KINDS
from pipeline.sources.numbers import How, Number


@dataclass(frozen=True, slots=True)
class Capability:
    """Columns in words, how well each of `COLUMNS` gives them, and what to know about them."""

    numbers: str
    how: tuple[How, ...]
    note: str


_COLUMNS = {heading: gives for kind in KINDS.values() for heading, gives in kind.columns().items()}
COLUMNS = tuple(_COLUMNS)
CAPABILITIES = tuple(
    Capability(number.columns, tuple(gives.get(number, "-") for gives in _COLUMNS.values()), number.note)
    for number in Number
)


def given_by(column: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numbers that a source of a column of the table gives, and those it does not."""
    gives = _COLUMNS[column]
    return (
        tuple(f"{number.columns} ({gives[number]})" for number in Number if number in gives),
        tuple(number.columns for number in Number if number not in gives),
    )
