"""Partitions to brokers: the leaders that are known, and draws for those that are open."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pipeline.arrays import Ints
from pipeline.calibration.limits import MOST_STRAY
from pipeline.replay.loads import UNKNOWN, Estimate, Loads, apportion
from pipeline.simulator.distributions import derive_stream, draw_index

DRAWS = round(1 / MOST_STRAY) - 1  # of so many the least and the largest hold one more nine times of ten


class DrawnLeaders(NamedTuple):
    broker_ids: tuple[int, ...]  # ascending
    # int64[draws, partitions], an index into `broker_ids`; -1 without leader. One draw where all are known.
    leaders: Ints

    @property
    def is_drawn(self) -> bool:
        return len(self.leaders) > 1

    def sum_by_broker(self, loads: Loads) -> Loads:
        """Load of each broker, in the order of `broker_ids`: the mean over the draws, least and most."""
        low, median, high = (self._sum_by_draw(part) for part in loads)
        # means, not medians: those would leave a part without broker
        return Loads(low.min(axis=0), apportion(median.sum(axis=0), int(median[0].sum())), high.max(axis=0))

    def measure_peak(self, loads: Loads) -> Estimate:
        """Largest over mean load of the brokers, and its range over the draws."""
        total, count = int(loads.median.sum()), len(self.broker_ids)
        if total <= 0 or not count:
            return UNKNOWN
        low, median, high = (self._sum_by_draw(part).max(axis=1) / (total / count) for part in loads)
        return Estimate(float(np.median(median)), max(1.0, float(low.min())), min(float(count), float(high.max())))

    def _sum_by_draw(self, loads: Ints) -> Ints:
        sums = np.zeros((len(self.leaders), len(self.broker_ids)), dtype=np.int64)
        draws, partitions = np.nonzero(self.leaders >= 0)
        np.add.at(sums, (draws, self.leaders[draws, partitions]), loads[partitions])
        return sums


def draw_leaders(known: Mapping[int, int], broker_ids: Sequence[int], topic: str, partition_count: int) -> DrawnLeaders:
    """Leaders of a topic's partitions under a partition count, given those of all that it has, or -1.

    Partitions that are added leave the others where they are; fewer partitions mean a topic made anew. New ones are placed
    as Kafka's `StripedReplicaPlacer` does: the brokers in random order, each taken once before any is taken again. Racks
    and fenced brokers are left out of account. A topic's draws are the same in all windows and for all candidates.
    """
    brokers = tuple(sorted({*broker_ids, *(leader for leader in known.values() if leader >= 0)}))
    index_of = {broker: number for number, broker in enumerate(brokers)}
    topic_count = max(known, default=-1) + 1
    kept = topic_count if partition_count >= topic_count else 0
    draws = 1 if kept == partition_count or not brokers else DRAWS
    leaders = np.full((draws, partition_count), -1, dtype=np.int64)
    for partition in range(kept):
        leaders[:, partition] = index_of.get(known.get(partition, -1), -1)
    if draws > 1:
        leaders[:, kept:] = _draw(len(brokers), partition_count - kept, f"{topic} {partition_count}")
    return DrawnLeaders(brokers, leaders)


@lru_cache(maxsize=1024)  # windows and candidates of one count ask alike
def _draw(broker_count: int, count: int, seed: str) -> Ints:
    leaders = np.empty((DRAWS, count), np.int64)
    for draw in range(DRAWS):
        stream, drawn = derive_stream(draw, "placement", seed), list[int]()
        while len(drawn) < count:
            order = list(range(broker_count))
            for last in range(broker_count - 1, 0, -1):  # Fisher and Yates
                other = draw_index(stream, len(drawn) + last, last + 1)
                order[last], order[other] = order[other], order[last]
            drawn += order
        leaders[draw] = drawn[:count]
    leaders.flags.writeable = False
    return leaders
