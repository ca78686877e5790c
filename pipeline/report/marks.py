"""Marks of a chart on a scale in per cent, so that a page lays them out at any width, and the rows that carry them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.report.answers import Answer

MarkKind = Literal[
    "bar", "hot", "minus", "part", "band", "fair", "limit", "range", "dot", "observed", "peers", "history"
]
"""`bar`, `hot`, `minus`, `part` and `band` are areas, `range` is a thick line, `fair` and `limit` are lines across, others points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One mark; `at` and `width` in per cent of the plot, `title` what it stands for."""

    kind: MarkKind
    at: float
    width: float = 0.0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` to 0 to 100 per cent; what lies outside is drawn at the edge."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Position of a value on the scale.

        >>> Scale(0, 4).at(1), Scale(0, 4).at(9)
        (25.0, 100.0)
        """
        span = self.high - self.low
        return round(min(max(100 * (value - self.low) / span if span else 0.0, 0.0), 100.0), 3)

    def area(self, kind: MarkKind, start: float, end: float, title: str = "") -> Mark:
        """An area between two values, in any order."""
        low, high = sorted((self.at(start), self.at(end)))
        return Mark(kind=kind, at=low, width=round(high - low, 3), title=title)

    def point(self, kind: MarkKind, value: float, title: str = "") -> Mark:
        """A point, or a line across the row."""
        return Mark(kind=kind, at=self.at(value), title=title)


def scale_over(values: Iterable[float | None]) -> Scale:
    """A scale from 0, or less, to a little above the largest value."""
    known = [value for value in values if value is not None]
    return Scale(min([0.0, *known]), max([0.0, *known]) * 1.04 or 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """A line of a chart: texts of its columns and its marks.

    `key` is what the page's filter looks at, `group` titles this row and those below it.
    """

    cells: tuple[str, ...]
    marks: tuple[Mark, ...] = ()
    is_marked: bool = False
    key: str = ""
    group: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """Meaning of a kind of mark."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChart:
    """A table whose rows carry marks."""

    answer: Answer  # the rows it is drawn from; its name is the chart's
    title: str  # what it shows
    says: str = ""  # what there is to see, in a sentence
    columns: tuple[str, ...]  # titles; the plot stands after the first
    rows: Sequence[ChartRow]  # its lines
    texts: frozenset[int] = frozenset()  # positions of columns that hold words, the first one apart
    legend: tuple[Legend, ...] = ()  # what its marks mean

    @property
    def has_plot(self) -> bool:
        """Whether any row carries marks."""
        return any(row.marks for row in self.rows)
