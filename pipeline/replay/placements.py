"""Partitions to brokers: the leaders that are known, and draws for those nobody knows yet."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipeline.replay.estimates import Loads, Range
from pipeline.simulator.engine.random_stream import derive_stream, draw_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

PLACEMENTS = 64
"""Draws behind a range: the least and the largest of them are its ends."""


class Placements(NamedTuple):
    """Who leads what.

    Attributes:
        broker_ids: Ascending.
        leaders: By draw and partition, a place in `broker_ids`; -1 without leader. One draw where all are known.
    """

    broker_ids: tuple[int, ...]
    leaders: NDArray[np.int64]

    @property
    def is_drawn(self) -> bool:
        """Some leaders are open."""
        return len(self.leaders) > 1


def draw_placements(
    known: Mapping[int, int], broker_ids: Sequence[int], topic_count: int, partition_count: int, *, seed: str
) -> Placements:
    """Leaders of a topic's partitions under a partition count.

    On its own count they are known. Partitions that are added leave the others where they are; fewer partitions mean a
    topic made anew. New ones are placed as Kafka's controller places them: the brokers in random order, each taken once
    before any is taken again, in another order. Racks and fenced brokers are left out of account.

    Args:
        known: Leader by partition.
        broker_ids: All brokers.
        topic_count: Partitions the topic has.
        partition_count: Partitions under the candidate.
        seed: What draws depend on besides their number.

    References:
        Kafka `metadata/placement/StripedReplicaPlacer.java`.
    """
    brokers = tuple(sorted({*broker_ids, *(leader for leader in known.values() if leader >= 0)}))
    place = {broker: number for number, broker in enumerate(brokers)}
    kept = partition_count if partition_count == topic_count else topic_count if partition_count > topic_count else 0
    draws = 1 if kept == partition_count or not brokers else PLACEMENTS
    leaders = np.full((draws, partition_count), -1, dtype=np.int64)
    for partition in range(kept):
        leaders[:, partition] = place.get(known.get(partition, -1), -1)
    if draws > 1:
        leaders[:, kept:] = _draw_all(len(brokers), partition_count - kept, seed)
    return Placements(brokers, leaders)


@lru_cache(maxsize=1024)  # windows and candidates of one count ask alike
def _draw_all(broker_count: int, count: int, seed: str) -> NDArray[np.int64]:
    drawn = [_draw(broker_count, count, derive_stream(draw, "placement", seed)) for draw in range(PLACEMENTS)]
    leaders = np.array(drawn, dtype=np.int64)
    leaders.flags.writeable = False
    return leaders


def _draw(broker_count: int, count: int, stream: int) -> list[int]:
    placed: list[int] = []
    while len(placed) < count:
        order = list(range(broker_count))
        for last in range(broker_count - 1, 0, -1):  # Fisher and Yates
            other = draw_index(stream, len(placed) + last, last + 1)
            order[last], order[other] = order[other], order[last]
        placed += order
    return placed[:count]


def sum_by_broker(placements: Placements, loads: Loads) -> Loads:
    """Load of each broker, in the order of `broker_ids`: the mean over the placements, least and most."""
    low, median, high = (_by_draw(placements, part) for part in loads)
    return Loads(low.min(axis=0), _mean(median), high.max(axis=0))


def _mean(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Means over the draws, rounded so that they sum to what is led: medians would leave a part to nobody."""
    means: NDArray[np.int64]
    means, rests = np.divmod(sums.sum(axis=0), len(sums))
    missing = int(rests.sum()) // len(sums)
    means[np.argsort(-rests, kind="stable")[:missing]] += 1
    return means


def measure_broker_peak(placements: Placements, loads: Loads) -> Range:
    """Largest over mean load of the brokers, and its range over the placements."""
    total = int(loads.median.sum())
    if total <= 0 or not placements.broker_ids:
        return Range(None, None, None)
    mean = total / len(placements.broker_ids)
    low, median, high = (_by_draw(placements, part).max(axis=1) / mean for part in loads)
    most = float(len(placements.broker_ids))
    return Range(float(np.median(median)), max(1.0, float(low.min())), min(most, float(high.max())))


def _by_draw(placements: Placements, loads: NDArray[np.int64]) -> NDArray[np.int64]:
    sums = np.zeros((len(placements.leaders), len(placements.broker_ids)), dtype=np.int64)
    draws, partitions = np.nonzero(placements.leaders >= 0)
    np.add.at(sums, (draws, placements.leaders[draws, partitions]), loads[partitions])
    return sums
