"""What the model itself is off by, besides the chance that seeds show: fitted to pairs, tested on those that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.replay.loads import INSIDE, NORMAL_REACH
from pipeline.replay.simulated.topics import BATCHES_ERROR, TAIL_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.lab.fidelity.pairs.compare import PairRow
    from tests.lab.fidelity.pairs.tables import PairTable

ERRORS = {"records per batch": BATCHES_ERROR, "latency p95, ms": TAIL_ERROR, "latency p99, ms": TAIL_ERROR}
"""By figure: the error that the product's ranges hold already."""


@dataclass(frozen=True)
class Miss:
    """How far a real figure lies from the middle of its range, and half of that range by the seeds alone; relative to it."""

    pair: str
    off: float
    chance: float

    @property
    def needed(self) -> float:
        """The least error of the model with which the figure lies in the range."""
        return math.sqrt(max(0.0, self.off**2 - self.chance**2)) / NORMAL_REACH


def read_misses(told: Sequence[tuple[PairTable, PairRow]], figure: str) -> Iterator[Miss]:
    """Of all tables that predict the figure."""
    for table, row in told:
        if row.figure == figure and row.predicted:
            middle = (row.predicted.low + row.predicted.high) / 2
            half, own = (row.predicted.high - row.predicted.low) / 2 / middle, NORMAL_REACH * ERRORS[figure]
            chance = math.sqrt(max(0.0, half**2 - own**2))
            yield Miss(table.recording.pair.name, abs(row.after / middle - 1), chance)


def fit_error(misses: Sequence[Miss]) -> float:
    """The least error with which nine of ten figures lie in their ranges."""
    needed = sorted(miss.needed for miss in misses)
    return needed[math.ceil(INSIDE * len(needed)) - 1]


def format_errors(told: Sequence[tuple[PairTable, PairRow]]) -> list[str]:
    """A line for each figure: the error over all pairs, and how many lie inside with that of the other pairs."""
    lines = []
    for figure, used in ERRORS.items():
        misses = list(read_misses(told, figure))
        pairs = sorted({miss.pair for miss in misses})
        if len(pairs) > 1:
            others = {pair: fit_error([miss for miss in misses if miss.pair != pair]) for pair in pairs}
            inside = sum(miss.needed <= others[miss.pair] for miss in misses)
            lines.append(
                f"model's error of {figure.partition(',')[0]}: {100 * fit_error(misses):.1f} % over all pairs (used: {100 * used:.1f} %); "
                f"with that of the other pairs {inside} of {len(misses)} lie in their ranges"
            )
    return lines
