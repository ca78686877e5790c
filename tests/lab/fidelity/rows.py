"""Rows of a comparison: one figure as published, as really measured here and as simulated, with its bar."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

SHARE_BAR_POINTS = 2.0
SHARE_BAR_DEVIATIONS = 2.5
CELL_LOW_PERCENT, CELL_HIGH_PERCENT = 1, 99
HOLDS, MISSES, NO_BAR = "holds", "MISSES", ""


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        figure: What it is.
        published: Kafka's own number, where there is one.
        real: Of the real run; without one the published figure is what is compared.
        simulated: Mean over the seeds.
        low: 1 % of the seeds lie below.
        high: 1 % of the seeds lie above.
        deviation: Of the simulated from the real figure, in words.
        bar: How much it may be, in words; empty without one.
        verdict: `HOLDS`, `MISSES` or `NO_BAR`.
        is_cell: Whether its place within the seeds' range counts.
    """

    figure: str
    published: float | None
    real: float | None
    simulated: float
    low: float
    high: float
    deviation: str
    bar: str
    verdict: str
    is_cell: bool

    @property
    def is_inside(self) -> bool:
        """Whether the real figure lies in the range of the seeds."""
        reference = self.published if self.real is None else self.real
        return reference is not None and self.low <= reference <= self.high


def judge_share(
    figure: str,
    real: float | None,
    seeds: NDArray[np.float64],
    *,
    published: float | None = None,
    points: float = SHARE_BAR_POINTS,
) -> Row:
    """A share in percent: two points, or 2.5 standard deviations over the seeds, whichever is wider."""
    reference = _choose_reference(real, published)
    bar = max(points, SHARE_BAR_DEVIATIONS * float(np.std(seeds, ddof=1)))
    off = float(np.mean(seeds)) - reference
    return _row((figure, published, real), seeds, f"{off:+.1f} pt", f"{bar:.1f} pt", abs(off) <= bar, is_cell=True)


def judge_ratio(
    figure: str,
    real: float | None,
    seeds: NDArray[np.float64],
    bar_percent: float | None,
    *,
    published: float | None = None,
    is_cell: bool = False,
) -> Row:
    """A figure that may be off by so many percent of the real one, or has no bar."""
    reference = _choose_reference(real, published)
    off = (float(np.mean(seeds)) / reference - 1) * 100 if reference else float("inf")
    if bar_percent is None:
        return _row((figure, published, real), seeds, f"{off:+.1f} %", "", None, is_cell=is_cell)
    return _row(
        (figure, published, real),
        seeds,
        f"{off:+.1f} %",
        f"{bar_percent:g} %",
        abs(off) <= bar_percent,
        is_cell=is_cell,
    )


def _choose_reference(real: float | None, published: float | None) -> float:
    reference = published if real is None else real
    if reference is None:
        raise ValueError("neither a real nor a published figure to compare with")
    return reference


def _row(
    named: tuple[str, float | None, float | None],
    seeds: NDArray[np.float64],
    deviation: str,
    bar: str,
    holds: bool | None,
    *,
    is_cell: bool,
) -> Row:
    figure, published, real = named
    low, high = np.percentile(seeds, [CELL_LOW_PERCENT, CELL_HIGH_PERCENT])
    verdict = NO_BAR if holds is None else HOLDS if holds else MISSES
    return Row(
        figure, published, real, float(np.mean(seeds)), float(low), float(high), deviation, bar, verdict, is_cell
    )


def format_rows(title: str, rows: Sequence[Row]) -> str:
    """A table."""
    head = (
        f"{'':34}{'published':>10}{'real here':>11}{'simulated':>11}  {'1-99 % of seeds':>19}{'off by':>10}{'bar':>9}"
    )
    lines = [title, head]
    for row in rows:
        published = "" if row.published is None else _number(row.published)
        span = f"{_number(row.low)} .. {_number(row.high)}"
        real = "" if row.real is None else _number(row.real)
        lines.append(
            f"  {row.figure:32}{published:>10}{real:>11}{_number(row.simulated):>11}  {span:>19}"
            f"{row.deviation:>10}{row.bar:>9}  {row.verdict}".rstrip()
        )
    return "\n".join(lines)


def format_verdict(rows: Iterable[Row]) -> str:
    """How many figures hold, and how many cells lie within the range of their seeds."""
    rows = list(rows)
    verdicts = Counter(row.verdict for row in rows)
    cells = [row.is_inside for row in rows if row.is_cell]
    inside = f"{sum(cells)} of {len(cells)} cells ({sum(cells) / len(cells):.0%}; bar 95 %)" if cells else "no cell"
    return (
        f"{verdicts[HOLDS]} figures hold their bar, {verdicts[MISSES]} miss it, {verdicts[NO_BAR]} have none; "
        f"{inside} within 1-99 % of the seeds"
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}"
