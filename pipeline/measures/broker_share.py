"""One window's rows of `gold.broker_share` and `gold.partition_health`, from its partition loads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.measures.causes import split_causes
from pipeline.measures.chance import CHANCE_LEVEL, chance_cv, chance_p_value, chance_ratio, effective_units
from pipeline.measures.imbalance import cv, effective_partitions, expected_shares, peak_to_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pipeline.model.load import PartitionLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMeasures:
    """A row of `gold.broker_share` without cluster, window and run; fields as the table's columns."""

    broker_id: int
    size_bytes: int
    record_count: int
    batch_count: int
    leader_count: int
    capacity: float
    share: float | None
    expected_share: float
    share_ratio: float | None
    chance_ratio: float | None
    chance_p_value: float | None
    effective_unit_count: float | None
    leaders_term: float | None
    topic_mix_term: float | None
    partition_skew_term: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMeasures:
    """A row of `gold.partition_health` without cluster, window and run; fields as the table's columns."""

    topic: str
    topic_id: str
    partition: int
    leader_id: int
    size_bytes: int
    record_count: int
    batch_count: int
    topic_share: float | None
    ratio_to_mean: float | None
    topic_partition_count: int
    topic_peak_to_mean: float | None
    topic_cv: float | None
    topic_effective_partitions: float | None
    topic_chance_cv: float | None
    excess_bytes: int


def measure_brokers(
    partition_loads: Sequence[PartitionLoad], capacities: Mapping[int, float], brokers: Iterable[int]
) -> tuple[BrokerMeasures, ...]:
    """Shares, chance level and causes of every broker in one window, all topics counted.

    Load whose leader is unknown (negative id) belongs to nobody and is left out of every share.

    Args:
        partition_loads: Loads of one window, partitions without traffic included.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
        brokers: The cluster's brokers. Each gets a row, also without load; so does any leader not among them.

    Returns:
        One row per broker, by id.
    """
    known = [load for load in partition_loads if load.leader_id >= 0]
    broker_ids = sorted({*brokers} | {load.leader_id for load in known})
    if not broker_ids:
        return ()
    weights = [float(capacities.get(broker_id, 1.0)) for broker_id in broker_ids]
    fair = dict(zip(broker_ids, expected_shares(weights).tolist(), strict=True))
    total_bytes = sum(load.size_bytes for load in known)
    unit_count = effective_units(total_bytes, sum(load.batch_bytes_squared for load in known))
    causes = split_causes(known, fair)
    by_broker: dict[int, list[PartitionLoad]] = defaultdict(list)
    for load in known:
        by_broker[load.leader_id].append(load)
    rows = []
    for broker_id, capacity in zip(broker_ids, weights, strict=True):
        own = by_broker[broker_id]
        share = sum(load.size_bytes for load in own) / total_bytes if total_bytes else None
        ratio = None if share is None else share / fair[broker_id]
        cause = causes[broker_id] if causes else None
        rows.append(
            BrokerMeasures(
                broker_id=broker_id,
                size_bytes=sum(load.size_bytes for load in own),
                record_count=sum(load.record_count for load in own),
                batch_count=sum(load.batch_count for load in own),
                leader_count=len({(load.topic, load.topic_id, load.partition) for load in own if load.is_leader}),
                capacity=capacity,
                share=share,
                expected_share=fair[broker_id],
                share_ratio=ratio,
                chance_ratio=chance_ratio(fair[broker_id], unit_count, CHANCE_LEVEL) if unit_count else None,
                chance_p_value=(
                    chance_p_value(ratio, fair[broker_id], unit_count) if unit_count and ratio is not None else None
                ),
                effective_unit_count=unit_count,
                leaders_term=cause.leaders_term if cause else None,
                topic_mix_term=cause.topic_mix_term if cause else None,
                partition_skew_term=cause.partition_skew_term if cause else None,
            )
        )
    return tuple(rows)


def measure_partitions(partition_loads: Sequence[PartitionLoad]) -> tuple[PartitionMeasures, ...]:
    """Each partition beside its topic's mean, in one window; loads of several leaders of a partition are summed.

    Args:
        partition_loads: Loads of one window, partitions without traffic included.

    Returns:
        One row per topic-partition, by topic, id and partition.
    """
    topics: dict[tuple[str, str], dict[int, list[PartitionLoad]]] = {}
    for load in partition_loads:
        topics.setdefault((load.topic, load.topic_id), {}).setdefault(load.partition, []).append(load)
    return tuple(
        row
        for (topic, topic_id), partitions in sorted(topics.items())
        for row in _measure_topic(topic, topic_id, partitions)
    )


def _measure_topic(
    topic: str, topic_id: str, partitions: Mapping[int, Sequence[PartitionLoad]]
) -> list[PartitionMeasures]:
    sizes = {partition: sum(load.size_bytes for load in loads) for partition, loads in sorted(partitions.items())}
    sizes_bytes = list(sizes.values())
    total_bytes = sum(sizes_bytes)
    mean_bytes = total_bytes / len(sizes)
    squared = sum(load.batch_bytes_squared for loads in partitions.values() for load in loads)
    unit_count = effective_units(total_bytes, squared)
    topic_peak, topic_cv, topic_effective = (
        peak_to_mean(sizes_bytes),
        cv(sizes_bytes),
        effective_partitions(sizes_bytes),
    )
    return [
        PartitionMeasures(
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            leader_id=next((load.leader_id for load in partitions[partition] if load.is_leader), -1),
            size_bytes=size_bytes,
            record_count=sum(load.record_count for load in partitions[partition]),
            batch_count=sum(load.batch_count for load in partitions[partition]),
            topic_share=size_bytes / total_bytes if total_bytes else None,
            ratio_to_mean=size_bytes / mean_bytes if total_bytes else None,
            topic_partition_count=len(sizes),
            topic_peak_to_mean=topic_peak,
            topic_cv=topic_cv,
            topic_effective_partitions=topic_effective,
            topic_chance_cv=chance_cv(len(sizes), unit_count) if unit_count else None,
            excess_bytes=round(size_bytes - mean_bytes),
        )
        for partition, size_bytes in sizes.items()
    ]
