"""One window's rows of `gold.broker_share`, from its partition loads."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.measures.causes import Causes, split_causes
from pipeline.measures.chance import CHANCE_LEVEL, chance_p_value, chance_ratio, effective_units
from pipeline.measures.dispersion import SlotLoads, estimate_inflation, peak_share_ratios, place_slots
from pipeline.measures.window_loads import WindowLoads, expected_shares, sum_by

Floats = NDArray[np.float64]

_TERMS = ("leaders", "topic_mix", "partition_skew", "heavy_keys", "hash_luck", "remainder")


def measure_broker_columns(
    loads: WindowLoads,
    capacities: Mapping[int, float],
    brokers: Iterable[int],
    slots: Sequence[tuple[int, int, float, float]] = (),
    stood: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Shares, chance level and causes of every broker in one window, all topics counted.

    Load whose leader is unknown (negative id) is left out of every share.

    Args:
        loads: Loads of one window, partitions without traffic included.
        capacities: Capacity weight by broker id; 1 where a broker is not named.
        brokers: The cluster's brokers. Each gets a row, also without load; so does any leader not among them.
        slots: Number of the slot, broker, bytes and sum of squared batch sizes, for the parts of the window that had
            traffic; without any, batches are taken for independent, and there is no peak.
        stood: Part of the window in which a broker was in the cluster, by broker id, 0..1; all of it where none is named. A
            broker's fair share is that of its capacity for as long as it stood, and one that carried load stood.

    Returns:
        The table's columns without cluster, window and run, shape (brokers,), by id; NaN or None for an unknown value.
    """
    known = loads.take(loads.leader_id >= 0)
    broker_ids = sorted({*brokers} | set(np.unique(known.leader_id).tolist()))
    count = len(broker_ids)
    weights = [float(capacities.get(broker_id, 1.0)) for broker_id in broker_ids]
    place = np.searchsorted(np.array(broker_ids, np.int64), known.leader_id)
    size_bytes = sum_by(place, known.size_bytes, count)
    fair = _fair_shares(weights, [(stood or {}).get(one, 1.0) for one in broker_ids], size_bytes)
    nothing = np.full(count, np.nan)
    share = size_bytes / size_bytes.sum() if size_bytes.any() else nothing
    ratio = np.divide(share, fair, out=nothing.copy(), where=fair > 0)
    return {
        "broker_id": broker_ids,
        "size_bytes": size_bytes,
        "record_count": sum_by(place, known.record_count, count),
        "batch_count": sum_by(place, known.batch_count, count),
        "leader_count": sum_by(place, known.is_leader.astype(np.int64), count),
        "capacity": weights,
        "share": share,
        "expected_share": fair,
        "share_ratio": ratio,
        **_explain_shares(known, place, fair, ratio, place_slots(slots, broker_ids)),
    }


def _explain_shares(
    known: WindowLoads, place: NDArray[np.int64], fair: Floats, ratio: Floats, placed: SlotLoads | None
) -> dict[str, Any]:
    """Columns of what chance, causes and the busiest moment make of brokers' shares; `place`: of each load's broker."""
    count, parts, total_bytes = len(fair), fair.tolist(), int(known.size_bytes.sum())
    inflation = None if placed is None else estimate_inflation(placed)
    units = effective_units(total_bytes, float(known.batch_bytes_squared.sum()) * (inflation or 1.0))
    causes = split_causes(known, place, fair)
    peak = nothing = np.full(count, np.nan)
    if placed is not None and total_bytes:  # of brokers that stood
        peak = np.where(fair > 0, peak_share_ratios(placed, np.where(fair > 0, fair, 1.0)), np.nan)
    return {
        "chance_ratio": [chance_ratio(part, units, CHANCE_LEVEL) if units and part else np.nan for part in parts],
        "chance_p_value": [
            chance_p_value(reached, part, units) if units and part else np.nan
            for reached, part in zip(ratio.tolist(), parts, strict=True)
        ],
        "effective_unit_count": [units] * count,
        **{f"{name}_term": nothing if causes is None else getattr(causes, name) for name in _TERMS},
        "ratio_without_luck": _without_luck(ratio, fair, causes),
        "unit_inflation": [inflation] * count,
        "peak_ratio": peak,
        "excess_topic": _excess_topics(known, place, fair) if total_bytes else [None] * count,
    }


def stood_parts(away_ms: Mapping[int, int | None], window_ms: int) -> dict[int, float]:
    """Part of a window in which each broker was in the cluster; all of it where nobody knows how long it was away.

    >>> stood_parts({1: 0, 2: 15_000, 3: 60_000, 4: None}, 60_000)
    {1: 1.0, 2: 0.75, 3: 0.0, 4: 1.0}
    """
    return {broker_id: 1 - min(window_ms, away or 0) / window_ms for broker_id, away in away_ms.items()}


def _fair_shares(weights: Sequence[float], stood: Sequence[float], size_bytes: NDArray[np.int64]) -> Floats:
    parts = np.where((np.array(stood) <= 0) & (size_bytes > 0), 1.0, np.maximum(stood, 0.0))
    if not parts.any():
        return expected_shares(weights)
    fair = np.zeros(len(weights))
    fair[parts > 0] = expected_shares([w * part for w, part in zip(weights, parts.tolist(), strict=True) if part > 0])
    return fair


def _excess_topics(loads: WindowLoads, place: NDArray[np.int64], fair: Floats) -> list[str]:
    """The topic that adds most to each broker's excess: its bytes there less the broker's fair part of all of them."""
    topics, brokers = len(loads.topics), len(fair)
    carried = np.bincount(loads.topic * brokers + place, loads.size_bytes, topics * brokers).reshape(topics, brokers)
    excess = carried - carried.sum(axis=1, keepdims=True) * fair
    return [loads.topics[number][0] for number in excess.argmax(axis=0).tolist()]


def _without_luck(ratio: Floats, fair: Floats, causes: Causes | None) -> Floats:
    """Share ratios less what light keys give a broker, where that is within chance; else the ratios themselves."""
    if causes is None:
        return ratio
    is_luck = (causes.light_keys > 0) & (causes.luck_p_value > CHANCE_LEVEL / max(1, len(ratio)))
    light: Floats = np.divide(causes.light_keys, fair, out=np.zeros(len(fair)), where=fair > 0)
    lowered: Floats = np.where(is_luck, ratio - light, ratio)
    return lowered
