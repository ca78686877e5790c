"""The loads of one window as columns: what the measures work on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from pipeline.arrays import Flags, Floats, Ints
from pipeline.model.placement import PlacementBroker

Topic = tuple[str, str]  # topic and its id
Places = Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowLoads:
    """Traffic of each leader of a partition in a window, in order, zeros without; arrays of shape (loads,)."""

    topics: tuple[Topic, ...]  # Topics and ids ("" where unknown), ascending. A recreated topic is another topic.
    topic: Ints  # place in `topics`
    partition: Ints
    leader_id: Ints  # broker that carried the load; negative for unknown
    size_bytes: Ints  # bytes appended, batch headers and control batches included
    record_count: Ints  # data records
    batch_count: Ints  # data batches
    batch_bytes_squared: Floats
    is_leader: Flags  # the broker leads the partition at the window's end
    # part of the partition's bytes whose keys hold more than 1/P of the topic's bytes each, 0..1; NaN for unknown keys
    heavy_ratio: Floats
    light_ratio: Floats  # of all other keys that have a name; the rest has no key, or one without a name
    # by topic, effective number of its light keys, `(sum w)^2 / sum w^2`, shape (topics,); NaN where not known
    light_unit_count: Floats

    @property
    def topic_partition(self) -> Ints:
        """Place of each load's partition among the distinct topic-partitions, ascending."""
        if not len(self.topic):
            return np.empty(0, np.int64)
        new = (np.diff(self.topic) != 0) | (np.diff(self.partition) != 0)
        return np.concatenate(([0], np.cumsum(new)))

    def take(self, rows: Flags | Places) -> "WindowLoads":
        of_loads = [field.name for field in fields(self) if field.name not in {"topics", "light_unit_count"}]
        return replace(self, **{name: getattr(self, name)[rows] for name in of_loads})


def sum_by(places: Ints, values: Ints, count: int) -> Ints:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, values)
    return sums


def expected_shares(capacities: Sequence[float]) -> Floats:
    """Part of the cluster's capacity of each broker; `ValueError` if a capacity is not above 0."""
    weights = np.asarray(capacities, dtype=np.float64)
    if not np.all(weights > 0):
        raise ValueError(f"capacities must be above 0, found {weights.tolist()}")
    shares: Floats = weights / weights.sum()
    return shares


def fair_parts(brokers: Iterable[PlacementBroker]) -> dict[int, float]:
    live = [one for one in brokers if not one.is_fenced]
    fair = expected_shares([one.capacity for one in live])
    return {one.broker_id: part for one, part in zip(live, fair.tolist(), strict=True)}
