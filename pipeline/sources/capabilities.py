"""Which source yields which number, and how: the table that `partition-health tables --sources` prints."""

from collections.abc import Iterable
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


def list_given(columns: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numbers that sources of these columns of the table give together, and those that none gives, in a word or two.

    >>> list_given(["live_cluster"])[1]
    ('latency',)
    """
    given = {number for column in columns for number in _COLUMNS[column]}
    words = {number: number.name.lower().replace("_", " ") for number in Number}
    return tuple(words[n] for n in Number if n in given), tuple(words[n] for n in Number if n not in given)
