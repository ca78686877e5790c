"""What the model itself is off by, besides the chance that seeds show: fitted to pairs, tested on those that were left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.measures.chance import NORMAL_REACH
from pipeline.replay.loads import INSIDE
from tests.lab.fidelity.pairs.compare import EXACT
from tests.lab.fidelity.pairs.misses import BACK_TEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.fidelity.pairs.compare import PairRow
    from tests.lab.fidelity.pairs.predict import Range
    from tests.lab.fidelity.pairs.tables import PairTable

SHARE, SHARES = "bytes", "shares"
_LEAST = 0.01  # smallest figure that a table prints
_ROUNDED = 1e-6  # an error by arithmetic alone: the figure is printed as the end of its range
RANGED = {
    SHARE: SHARES,
    "records per batch": "records per batch",
    "records/s": "records/s",
    "latency p50": "p50",
    "latency p95": "p95",
    "latency p99": "p99",
}
"""What the figures with a range begin with, and what they are called in sums."""


@dataclass(frozen=True)
class Miss:
    """How far a real figure lies from the middle of its range, and half of that range: of their logarithms.

    Of a share p in units of sqrt(p (1 - p)), the deviation of a single record's place.
    """

    pair: str
    kind: str
    off: float
    chance: float

    @classmethod
    def of(cls, pair: str, figure: str, real: float, found: Range) -> Miss | None:
        """None for figures without a law, and where no seed differs: keys alone decide."""
        kind = next((kind for begin, kind in RANGED.items() if figure.startswith(begin)), None)
        if kind is None or found.low == found.high:
            return None
        if kind == SHARES:
            middle = (found.low + found.high) / 2
            unit = math.sqrt(middle * (100 - middle))
            return cls(pair, kind, abs(real - middle) / unit, (found.high - found.low) / 2 / unit)
        low, high, seen = (math.log(max(value, _LEAST)) for value in (found.low, found.high, real))
        return cls(pair, kind, abs(seen - (low + high) / 2), (high - low) / 2)

    def fit(self, held: float) -> float:
        """The least error of the model with which the figure lies in its range, of which `held` is a part."""
        return math.sqrt(max(0.0, held**2 + (self.off**2 - self.chance**2) / NORMAL_REACH**2))

    @property
    def needed(self) -> float:
        """The least error of the model, besides what the range holds, with which the figure lies in it."""
        return math.sqrt(max(0.0, self.off**2 - self.chance**2)) / NORMAL_REACH


def find_class(*, is_back_test: bool, is_trusted: bool) -> str:
    """Figures of one class have one law of errors."""
    return f"{'current setup' if is_back_test else 'another client'}, {'trusted' if is_trusted else 'not trusted'}"


def fit_error(misses: Sequence[Miss]) -> float:
    """The least error with which nine of ten figures lie in their ranges."""
    needed = sorted(miss.needed for miss in misses)
    return needed[math.ceil(INSIDE * len(needed)) - 1]


def format_error(kind: str, of: str, misses: Sequence[Miss]) -> str:
    """How many lie in their ranges, the error that nine of ten would need, and how many lie inside with that of the other pairs."""
    pairs = sorted({miss.pair for miss in misses})
    line = (
        f"{kind}, {of}: {sum(miss.needed < _ROUNDED for miss in misses)} of {len(misses)} in their ranges, "
        f"nine of ten with an error of {fit_error(misses):.3f} more"
    )
    if len(pairs) < 2:
        return line
    others = {pair: fit_error([miss for miss in misses if miss.pair != pair]) for pair in pairs}
    return f"{line}; with that of the other pairs {sum(miss.needed <= others[miss.pair] for miss in misses)}"


def format_errors(told: Sequence[tuple[PairTable, PairRow]]) -> list[str]:
    """A line for each kind of figure and class."""
    found = dict[tuple[str, str], list[Miss]]()
    keyed = {table.title for table, row in told if row.figure == EXACT}
    for table, row in told:
        if table.title in keyed and row.figure.startswith(SHARE):
            continue  # keys alone decide
        miss = Miss.of(table.recording.pair.name, row.figure, row.after, row.predicted) if row.predicted else None
        if miss:
            of = find_class(is_back_test=table.kind == BACK_TEST, is_trusted=table.is_trusted)
            found.setdefault((miss.kind, of), []).append(miss)
    return [format_error(*named, misses) for named, misses in sorted(found.items())]
