"""Figures known to miss their bar, each with its reason; any other miss makes `make fidelity` fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.lab.fidelity.rows import Row


@dataclass(frozen=True)
class KnownMiss:
    """A table, a figure's beginning, and why it misses."""

    table: str
    figure: str
    reason: str


KNOWN = (
    KnownMiss(
        "kip-794-1mb, sticky (published)",
        "bytes on broker 0",
        "Kafka's machines were slower in all, healthy paths too (median 7-8 ms; here 1): sender threads that wake late send "
        "larger batches to healthy brokers. Only the slow broker's time per request is fitted.",
    ),
    KnownMiss(
        "kip-794-2mb, uniform-draft (published)",
        "records/s",
        "a run at its capacity: 0.1 ms of the fitted time per request is 0.5 % of throughput",
    ),
    KnownMiss(
        "kip-794-2mb, sticky (real)",
        "records/s",
        "the run was not quiet: its slow broker took 20.9 ms per request, the quiet runs' 20.7",
    ),
    KnownMiss(
        "A_4096_a_r1",
        "records/s",
        "the run was not quiet: its slow broker took 20.9 ms per request, the quiet runs' 20.7",
    ),
)


def explain(table: str, figure: str, known: Sequence[KnownMiss] = KNOWN) -> str | None:
    """The reason of a known miss, or None."""
    return next((miss.reason for miss in known if miss.table == table and figure.startswith(miss.figure)), None)


def format_misses(titled: Sequence[tuple[str, Row]], known: Sequence[KnownMiss] = KNOWN) -> str:
    """A line for each miss: table, figure, deviation, reason."""
    lines = []
    for table, row in titled:
        reason = explain(table, row.figure, known) or "NOT EXPLAINED"
        lines.append(f"  {table}: {row.figure}, off by {row.deviation} (bar {row.bar}): {reason}")
    return "\n".join(lines)
