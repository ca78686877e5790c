"""One window's rows of `gold.broker_share`, from its partition loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.measures.causes import split_causes
from pipeline.measures.chance import CHANCE_LEVEL, chance_p_value, chance_ratio, effective_units
from pipeline.measures.imbalance import expected_shares
from pipeline.measures.window_loads import columns_of, sum_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.measures.causes import Causes
    from pipeline.measures.window_loads import Topic, TopicKeys, WindowLoads
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
    heavy_keys_term: float | None
    hash_luck_term: float | None
    remainder_term: float | None


def measure_brokers(
    partition_loads: Sequence[PartitionLoad],
    capacities: Mapping[int, float],
    brokers: Iterable[int],
    keys: Mapping[Topic, TopicKeys] | None = None,
) -> tuple[BrokerMeasures, ...]:
    """Shares, chance level and causes of every broker in one window, all topics counted; see `measure_broker_columns`.

    Args:
        partition_loads: Loads of one window, partitions without traffic included.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
        brokers: The cluster's brokers.
        keys: Keys by topic and id, where they are known.

    Returns:
        One row per broker, by id.
    """
    return measure_broker_columns(columns_of(partition_loads, keys), capacities, brokers)


def measure_broker_columns(
    loads: WindowLoads, capacities: Mapping[int, float], brokers: Iterable[int]
) -> tuple[BrokerMeasures, ...]:
    """Shares, chance level and causes of every broker in one window, all topics counted.

    Load whose leader is unknown (negative id) belongs to nobody and is left out of every share.

    Args:
        loads: Loads of one window, partitions without traffic included.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
        brokers: The cluster's brokers. Each gets a row, also without load; so does any leader not among them.

    Returns:
        One row per broker, by id.
    """
    known = loads.take(loads.leader_id >= 0)
    broker_ids = sorted({*brokers} | set(np.unique(known.leader_id).tolist()))
    if not broker_ids:
        return ()
    weights = [float(capacities.get(broker_id, 1.0)) for broker_id in broker_ids]
    fair = expected_shares(weights)
    place = np.searchsorted(np.array(broker_ids), known.leader_id)
    count = len(broker_ids)
    sizes, led = sum_by(place, known.size_bytes, count), sum_by(place, known.is_leader.astype(np.int64), count)
    records, batches = sum_by(place, known.record_count, count), sum_by(place, known.batch_count, count)
    total_bytes = int(sizes.sum())
    units = effective_units(total_bytes, float(known.batch_bytes_squared.sum()))
    causes = split_causes(known, place, fair)
    rows = []
    for number, broker_id in enumerate(broker_ids):
        expected = float(fair[number])
        share = int(sizes[number]) / total_bytes if total_bytes else None
        ratio = None if share is None else share / expected
        rows.append(
            BrokerMeasures(
                broker_id=broker_id,
                size_bytes=int(sizes[number]),
                record_count=int(records[number]),
                batch_count=int(batches[number]),
                leader_count=int(led[number]),
                capacity=weights[number],
                share=share,
                expected_share=expected,
                share_ratio=ratio,
                chance_ratio=chance_ratio(expected, units, CHANCE_LEVEL) if units else None,
                chance_p_value=chance_p_value(ratio, expected, units) if units and ratio is not None else None,
                effective_unit_count=units,
                **_terms(causes, number),
            )
        )
    return tuple(rows)


_TERMS = ("leaders", "topic_mix", "partition_skew", "heavy_keys", "hash_luck", "remainder")


def _terms(causes: Causes | None, place: int) -> dict[str, float | None]:
    if causes is None:
        return {f"{name}_term": None for name in _TERMS}
    columns: dict[str, NDArray[np.float64]] = {name: getattr(causes, name) for name in _TERMS}
    return {f"{name}_term": float(column[place]) for name, column in columns.items()}
