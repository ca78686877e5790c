"""Figures of pairs known to miss their bar or to go the wrong way, each with its reason; any other makes `make fidelity` fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab.fidelity.pairs.tables import Recording

BACK_TEST, CHANGE = "back-test", "change"


@dataclass(frozen=True)
class KnownMiss:
    """A recording, one of its two tables or both (""), a figure's beginning, why it misses, and how far at most."""

    pair: str
    side: str
    table: str
    figure: str
    reason: str
    most: float


_FOLLOWED = (
    "0.8 to 1.6 ms of a median of two: delays are followed from scrape to scrape, and up to 3 ms of noise at brokers without "
    "a delay are taken for one"
)
_PEAK = "the largest of several shares, each of which holds its bar"
_SATURATED = (
    "the slow broker's connection is busy all the time: what a request is off in time the run is off in length; the replay "
    "says itself that the topic's latency is not trusted"
)
_HEALTHY = (
    "of two healthy brokers that are alike one has 3 points more in the real run; more than the seeds do, not explained"
)
_DRAWS = "some 80 draws of a partition in all, shares have a deviation of 3 to 5 points; they hold their bars"
KNOWN: tuple[KnownMiss, ...] = (
    KnownMiss("bursts-new-old", "after", CHANGE, "latency p50", _FOLLOWED, 61),
    KnownMiss("bursts-new-old", "before", BACK_TEST, "latency p50", _FOLLOWED, 53),
    KnownMiss("two-producers-old-new", "after", CHANGE, "latency p50", _FOLLOWED, 93),
    KnownMiss("two-producers-old-new", "before", BACK_TEST, "latency p50", _FOLLOWED, 72),
    KnownMiss("keyed-librdkafka-java", "before", BACK_TEST, "records/s", _SATURATED, 7),
    KnownMiss("keyed-mix-new-old", "before", "", "peak-to-mean", _PEAK, 14),
    KnownMiss("keyed-mix-new-old", "after", "", "peak-to-mean", _PEAK, 14),
    KnownMiss("lz4-old-new", "before", CHANGE, "peak-to-mean", _DRAWS, 23),
    KnownMiss("lz4-old-new", "after", BACK_TEST, "peak-to-mean", _DRAWS, 13),
    KnownMiss("slow-broker-new-old", "before", BACK_TEST, "bytes on broker 2", _HEALTHY, 3),
)
"""Reasons are what is known; where a reason is only supposed it says so."""


def explain(
    recording: Recording, table: str, figure: str, off: str, known: tuple[KnownMiss, ...] = KNOWN
) -> str | None:
    """The reason of a known miss that is no larger than it was known to be, or None; `off` as in `PairRow`."""
    distance = abs(float(off.split(maxsplit=1)[0])) if off else float("inf")
    return next(
        (
            miss.reason
            for miss in known
            if (miss.pair, miss.side) == (recording.pair.name, recording.side)
            and miss.table in ("", table)
            and figure.startswith(miss.figure)
            and distance <= miss.most
        ),
        None,
    )
