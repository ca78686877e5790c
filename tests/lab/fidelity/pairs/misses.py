"""Figures of pairs known to miss their bar or to go the wrong way, each with its reason; any other makes `make fidelity` fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab.fidelity.pairs.tables import Recording

BACK_TEST, CHANGE = "back-test", "change"


@dataclass(frozen=True)
class KnownMiss:
    """A recording, one of its two tables or both (""), a figure's beginning, and why it misses."""

    pair: str
    side: str
    table: str
    figure: str
    reason: str


_PEAK = "the largest share is off by 2 points, within its own bar"
KNOWN: tuple[KnownMiss, ...] = (KnownMiss("slow-broker-new-old", "before", CHANGE, "peak-to-mean", _PEAK),)
"""Reasons are what is known; where a reason is only supposed it says so."""


def explain(recording: Recording, table: str, figure: str, known: tuple[KnownMiss, ...] = KNOWN) -> str | None:
    """The reason of a known miss, or None."""
    return next(
        (
            miss.reason
            for miss in known
            if (miss.pair, miss.side) == (recording.pair.name, recording.side)
            and miss.table in ("", table)
            and figure.startswith(miss.figure)
        ),
        None,
    )
