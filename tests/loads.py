"""Loads and measures as rows, which tests are written in; the pipeline has them as columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np

from pipeline.measures.broker_share import measure_broker_columns, measure_partition_columns
from pipeline.measures.window_loads import Topic, WindowLoads

Row = Any
"""A row of measures: its fields are the table's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLoad:
    """What one leader of a partition carried in a window.

    A partition whose leader changed within the window has one of these per leader, and `is_leader` is True for one at
    most. A partition without traffic has one with zeros, so that it still counts as led.
    """

    topic: str
    partition: int
    leader_id: int  # broker that carried the load; negative for unknown
    size_bytes: int  # bytes appended, batch headers and control batches included
    record_count: int
    batch_count: int
    batch_bytes_squared: float  # sum of squared batch sizes, bytes^2
    topic_id: str = ""  # topic id, or "" where unknown; a recreated topic is another one
    is_leader: bool = True  # this broker leads the partition at the window's end


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionKeys:
    """What the records of one partition are keyed by, as parts of the partition's bytes."""

    heavy_ratio: float  # keys that hold more than 1/P of the topic's bytes each, 0..1
    light_ratio: float  # all other keys that have a name, 0..1; the rest has none, or one without a name


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKeys:
    """The keys of one topic in a window."""

    light_unit_count: float | None  # effective number of its light keys, `(sum w)^2 / sum w^2`; None without any
    partitions: Mapping[int, PartitionKeys]  # by partition; those without an entry hold no traffic


def columns_of(loads: Sequence[PartitionLoad], keys: Mapping[Topic, TopicKeys] | None = None) -> WindowLoads:
    """Loads of one window, in any order, to columns; keys by topic and id, where they are known."""
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


def measure_brokers(
    partition_loads: Sequence[PartitionLoad],
    capacities: Mapping[int, float],
    brokers: Iterable[int],
    keys: Mapping[Topic, TopicKeys] | None = None,
    *,
    stood: Mapping[int, float] | None = None,
) -> tuple[Row, ...]:
    """Shares, chance level and causes of every broker in one window, all topics counted; see `measure_broker_columns`.

    Capacities are 1 where a broker is not named; `stood` is the part of the window in which one was in the cluster.
    """
    return rows_of(measure_broker_columns(columns_of(partition_loads, keys), capacities, brokers, stood=stood))


def measure_partitions(
    partition_loads: Sequence[PartitionLoad], keys: Mapping[Topic, TopicKeys] | None = None
) -> tuple[Row, ...]:
    """Each partition beside its topic's mean, in one window; loads of several leaders of a partition are summed."""
    return rows_of(measure_partition_columns(columns_of(partition_loads, keys)))


def rows_of(columns: Mapping[str, Any]) -> tuple[Row, ...]:
    """Measured columns as rows; NaN becomes None."""
    values = zip(*(_plain(column) for column in columns.values()), strict=True)
    row_type = make_dataclass("Measures", columns, frozen=True)
    return tuple(row_type(*row) for row in values)


def _plain(column: Any) -> list[Any]:  # an array, or a list already
    listed: list[Any] = column if isinstance(column, list) else column.tolist()
    return [None if isinstance(value, float) and np.isnan(value) else value for value in listed]
