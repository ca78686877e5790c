"""The loads of one window as columns: what the measures work on, whether they came from rows or from Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.model.load import PartitionLoad

Topic = tuple[str, str]
"""Topic and its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKeys:
    """What the records of one partition are keyed by, as parts of the partition's bytes.

    Attributes:
        heavy_ratio: Keys that hold more than 1/P of the topic's bytes each, 0..1.
        light_ratio: All other keys that have a name, 0..1. The rest has no key, or one without a name.
    """

    heavy_ratio: float
    light_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKeys:
    """The keys of one topic in a window.

    Attributes:
        light_unit_count: Effective number of its light keys, `(sum w)^2 / sum w^2`; None without any.
        partitions: By partition; those without an entry hold no traffic.
    """

    light_unit_count: float | None
    partitions: Mapping[int, PartitionKeys]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowLoads:
    """Loads of one window, ascending by topic, id, partition and leader; arrays of shape (loads,).

    Attributes:
        topics: Topics and ids, ascending.
        topic: Place in `topics`.
        partition: Partition number.
        leader_id: Broker that carried the load; negative for unknown.
        size_bytes: Bytes appended.
        record_count: Data records.
        batch_count: Data batches.
        batch_bytes_squared: Sum of squared batch sizes.
        is_leader: The broker leads the partition at the window's end.
        heavy_ratio: See `PartitionKeys`; NaN where the partition's keys are not known.
        light_ratio: Likewise.
        light_unit_count: By topic, shape (topics,); NaN where not known.
    """

    topics: tuple[Topic, ...]
    topic: NDArray[np.int64]
    partition: NDArray[np.int64]
    leader_id: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    record_count: NDArray[np.int64]
    batch_count: NDArray[np.int64]
    batch_bytes_squared: NDArray[np.float64]
    is_leader: NDArray[np.bool_]
    heavy_ratio: NDArray[np.float64]
    light_ratio: NDArray[np.float64]
    light_unit_count: NDArray[np.float64]

    @property
    def topic_partition(self) -> NDArray[np.int64]:
        """Place of each load's partition among the distinct topic-partitions, ascending."""
        if not len(self.topic):
            return np.empty(0, np.int64)
        new = (np.diff(self.topic) != 0) | (np.diff(self.partition) != 0)
        places: NDArray[np.int64] = np.concatenate(([0], np.cumsum(new)))
        return places

    def take(self, rows: NDArray[np.bool_]) -> WindowLoads:
        """Some of the loads; topics stay as they are.

        Args:
            rows: Which, shape (loads,).
        """
        return WindowLoads(
            topics=self.topics,
            topic=self.topic[rows],
            partition=self.partition[rows],
            leader_id=self.leader_id[rows],
            size_bytes=self.size_bytes[rows],
            record_count=self.record_count[rows],
            batch_count=self.batch_count[rows],
            batch_bytes_squared=self.batch_bytes_squared[rows],
            is_leader=self.is_leader[rows],
            heavy_ratio=self.heavy_ratio[rows],
            light_ratio=self.light_ratio[rows],
            light_unit_count=self.light_unit_count,
        )


def columns_of(loads: Sequence[PartitionLoad], keys: Mapping[Topic, TopicKeys] | None = None) -> WindowLoads:
    """Rows to columns.

    Args:
        loads: Loads of one window, in any order; one per topic, id, partition and leader.
        keys: Keys by topic and id, where they are known.
    """
    known = keys or {}
    rows = sorted(loads, key=lambda load: (load.topic, load.topic_id, load.partition, load.leader_id))
    topics = tuple(sorted({(load.topic, load.topic_id) for load in rows}))
    place = {topic: number for number, topic in enumerate(topics)}
    of_rows = [
        known[load.topic, load.topic_id].partitions.get(load.partition)
        if (load.topic, load.topic_id) in known
        else None
        for load in rows
    ]
    units = [known[topic].light_unit_count if topic in known else None for topic in topics]
    return WindowLoads(
        topics=topics,
        topic=np.array([place[load.topic, load.topic_id] for load in rows], np.int64),
        partition=np.array([load.partition for load in rows], np.int64),
        leader_id=np.array([load.leader_id for load in rows], np.int64),
        size_bytes=np.array([load.size_bytes for load in rows], np.int64),
        record_count=np.array([load.record_count for load in rows], np.int64),
        batch_count=np.array([load.batch_count for load in rows], np.int64),
        batch_bytes_squared=np.array([load.batch_bytes_squared for load in rows], np.float64),
        is_leader=np.array([load.is_leader for load in rows], np.bool_),
        heavy_ratio=np.array([np.nan if k is None else k.heavy_ratio for k in of_rows], np.float64),
        light_ratio=np.array([np.nan if k is None else k.light_ratio for k in of_rows], np.float64),
        light_unit_count=np.array([np.nan if count is None else count for count in units], np.float64),
    )


def sum_by(places: NDArray[np.int64], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Sums of integers by place, exactly.

    Args:
        places: Place of each value, 0..count - 1.
        values: The values, of the same shape.
        count: Number of places.

    >>> sum_by(np.array([0, 2, 0]), np.array([1, 5, 2]), 3).tolist()
    [3, 0, 5]
    """
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, values)
    return sums
