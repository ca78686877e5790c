"""One window's rows of `gold.broker_share`, from its partition loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.measures.causes import split_causes
from pipeline.measures.chance import CHANCE_LEVEL, chance_p_value, chance_ratio, effective_units
from pipeline.measures.dispersion import estimate_inflation, peak_share_ratios, place_slots
from pipeline.measures.window_loads import expected_shares, sum_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pipeline.measures.causes import Causes
    from pipeline.measures.dispersion import SlotLoads
    from pipeline.measures.window_loads import WindowLoads


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
    ratio_without_luck: float | None
    unit_inflation: float | None
    peak_ratio: float | None
    excess_topic: str | None


def measure_broker_columns(
    loads: WindowLoads,
    capacities: Mapping[int, float],
    brokers: Iterable[int],
    slots: Sequence[tuple[int, int, float, float]] = (),
) -> tuple[BrokerMeasures, ...]:
    """Shares, chance level and causes of every broker in one window, all topics counted.

    Load whose leader is unknown (negative id) is left out of every share.

    Args:
        loads: Loads of one window, partitions without traffic included.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
        brokers: The cluster's brokers. Each gets a row, also without load; so does any leader not among them.
        slots: Number of the slot, broker, bytes and sum of squared batch sizes, for the parts of the window that had
            traffic; without any, batches are taken for independent, and there is no peak.

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
    sums = _sum_by_broker(known, place, len(broker_ids))
    total_bytes = sum(sums["size_bytes"])
    inflation, peaks = _measure_slots(place_slots(slots, broker_ids), fair)
    units = effective_units(total_bytes, float(known.batch_bytes_squared.sum()) * (inflation or 1.0))
    causes = split_causes(known, place, fair)
    excess_topics = _excess_topics(known, place, fair)
    rows = []
    for number, broker_id in enumerate(broker_ids):
        expected = float(fair[number])
        share = sums["size_bytes"][number] / total_bytes if total_bytes else None
        ratio = None if share is None else share / expected
        rows.append(
            BrokerMeasures(
                broker_id=broker_id,
                size_bytes=sums["size_bytes"][number],
                record_count=sums["record_count"][number],
                batch_count=sums["batch_count"][number],
                leader_count=sums["leader_count"][number],
                capacity=weights[number],
                share=share,
                expected_share=expected,
                share_ratio=ratio,
                chance_ratio=chance_ratio(expected, units, CHANCE_LEVEL) if units else None,
                chance_p_value=chance_p_value(ratio, expected, units) if units and ratio is not None else None,
                effective_unit_count=units,
                **_terms(causes, number),
                ratio_without_luck=None if ratio is None else _without_luck(ratio, expected, causes, number),
                unit_inflation=inflation,
                peak_ratio=None if peaks is None or ratio is None else float(peaks[number]),
                excess_topic=excess_topics[number] if total_bytes else None,
            )
        )
    return tuple(rows)


def _sum_by_broker(loads: WindowLoads, place: NDArray[np.int64], count: int) -> dict[str, list[int]]:
    columns = {
        "size_bytes": loads.size_bytes,
        "record_count": loads.record_count,
        "batch_count": loads.batch_count,
        "leader_count": loads.is_leader.astype(np.int64),
    }
    return {name: sum_by(place, values, count).tolist() for name, values in columns.items()}


def _excess_topics(loads: WindowLoads, place: NDArray[np.int64], fair: NDArray[np.float64]) -> list[str | None]:
    """The topic that adds most to each broker's excess: its bytes there less the broker's fair part of all of them."""
    topics, brokers = len(loads.topics), len(fair)
    if not topics:
        return [None] * brokers
    carried = np.bincount(loads.topic * brokers + place, loads.size_bytes, topics * brokers).reshape(topics, brokers)
    excess = carried - carried.sum(axis=1, keepdims=True) * fair
    return [loads.topics[number][0] for number in excess.argmax(axis=0).tolist()]


def _measure_slots(
    slots: SlotLoads | None, fair: NDArray[np.float64]
) -> tuple[float | None, NDArray[np.float64] | None]:
    if slots is None:
        return None, None
    return estimate_inflation(slots), peak_share_ratios(slots, fair)


_TERMS = ("leaders", "topic_mix", "partition_skew", "heavy_keys", "hash_luck", "remainder")


def _terms(causes: Causes | None, place: int) -> dict[str, float | None]:
    if causes is None:
        return {f"{name}_term": None for name in _TERMS}
    columns: dict[str, NDArray[np.float64]] = {name: getattr(causes, name) for name in _TERMS}
    return {f"{name}_term": float(column[place]) for name, column in columns.items()}


def _without_luck(ratio: float, expected: float, causes: Causes | None, place: int) -> float:
    """Share ratio less what the broker's light keys give it, where that is within chance; else the ratio itself."""
    if causes is None or causes.light_keys[place] <= 0:
        return ratio
    if causes.luck_p_value[place] <= CHANCE_LEVEL / len(causes.light_keys):
        return ratio
    return ratio - float(causes.light_keys[place]) / expected
