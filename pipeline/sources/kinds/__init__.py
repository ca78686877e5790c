"""Every kind of source, and which of them yields which number, and how: the table of `partition-health tables --sources`."""

import importlib
import pkgutil
from collections.abc import Iterable

from pipeline.config.section import known_kinds
from pipeline.sources.source import How, Number, Source

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

_FOUND = {name: kind for name, kind in known_kinds().items() if issubclass(kind, Source)}
KINDS = dict(sorted(_FOUND.items(), key=lambda item: item[1].rank))  # classes by `kind`, in order of rank


_COLUMNS = {heading: gives for kind in KINDS.values() for heading, gives in kind.columns().items()}
COLUMNS = tuple(_COLUMNS)
# how well each of `COLUMNS` gives a number
CAPABILITIES: dict[Number, tuple[How, ...]] = {
    number: tuple(gives.get(number, "-") for gives in _COLUMNS.values()) for number in Number
}


def list_given(columns: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The numbers that sources of these columns of the table give together, and those that none gives, in a word or two."""
    given = {number for column in columns for number in _COLUMNS[column]}
    words = {number: number.name.lower().replace("_", " ") for number in Number}
    return tuple(words[n] for n in Number if n in given), tuple(words[n] for n in Number if n not in given)
