"""One window's rows of `gold.broker_share` and `gold.partition_health`, from its partition loads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.measures import chance
from pipeline.measures.causes import fair_loads, split_causes, split_excess
from pipeline.measures.window_loads import Floats, Places, WindowLoads, expected_shares, sum_by

_TERMS = ("leaders", "topic_mix", "partition_skew", "heavy_keys", "hash_luck", "remainder")


def measure_broker_columns(
    loads: WindowLoads,
    capacities: Mapping[int, float],
    brokers: Iterable[int],
    slots: Sequence[tuple[int, int, float, float]] = (),
    stood: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Columns of `gold.broker_share` in one window, shape (brokers,), by id; NaN or None for an unknown value.

    `capacities`: weights, else 1. Of `brokers` each gets a row. `slots`: number, broker, bytes, sum of squared batch
    sizes; without any, batches are independent. `stood`: part of the window in which a broker, and so its capacity, was
    there.
    """
    known = loads.take(loads.leader_id >= 0)
    broker_ids = sorted({*brokers} | set(np.unique(known.leader_id).tolist()))
    count = len(broker_ids)
    weights = [float(capacities.get(broker_id, 1.0)) for broker_id in broker_ids]
    place = np.searchsorted(np.array(broker_ids, np.int64), known.leader_id)
    size_bytes = sum_by(place, known.size_bytes, count)
    stays = np.array([(stood or {}).get(one, 1.0) for one in broker_ids])
    parts = np.where((stays <= 0) & (size_bytes > 0), 1.0, np.maximum(stays, 0.0))
    if not parts.any():
        parts = np.ones(count)
    fair = np.zeros(count)
    fair[parts > 0] = expected_shares((np.array(weights) * parts)[parts > 0].tolist())
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
        **_explain_shares(known, place, fair, ratio, chance.place_slots(slots, broker_ids)),
    }


def _explain_shares(
    known: WindowLoads, place: Places, fair: Floats, ratio: Floats, placed: chance.SlotLoads | None
) -> dict[str, Any]:
    count, parts, total_bytes = len(fair), fair.tolist(), int(known.size_bytes.sum())
    inflation = None if placed is None else chance.estimate_inflation(placed)
    units = chance.effective_units(total_bytes, float(known.batch_bytes_squared.sum()) * (inflation or 1.0))
    causes = split_causes(known, place, fair)
    without_luck = ratio
    if causes is not None:  # less what light keys give a broker, where that is within chance
        is_luck = (causes.light_keys > 0) & (causes.luck_p_value > chance.CHANCE_LEVEL / max(1, count))
        light = np.divide(causes.light_keys, fair, out=np.zeros(count), where=fair > 0)
        without_luck = np.where(is_luck, ratio - light, ratio)
    peak = nothing = np.full(count, np.nan)
    if placed is not None and total_bytes:  # of brokers that stood
        peak = np.where(fair > 0, chance.peak_share_ratios(placed, np.where(fair > 0, fair, 1.0)), np.nan)
    return {
        "chance_ratio": [
            chance.chance_ratio(part, units, chance.CHANCE_LEVEL) if units and part else np.nan for part in parts
        ],
        "chance_p_value": [
            chance.chance_p_value(reached, part, units) if units and part else np.nan
            for reached, part in zip(ratio.tolist(), parts, strict=True)
        ],
        "effective_unit_count": [units] * count,
        **{f"{name}_term": nothing if causes is None else getattr(causes, name) for name in _TERMS},
        "ratio_without_luck": without_luck,
        "unit_inflation": [inflation] * count,
        "peak_ratio": peak,
        **_excess_topics(known, place, fair, ratio),
    }


def _excess_topics(loads: WindowLoads, place: Places, fair: Floats, ratio: Floats) -> dict[str, Any]:
    """The topic that adds most to each broker's excess, its bytes there less the broker's fair part of them, and the rest."""
    topics, brokers = len(loads.topics), len(fair)
    total_bytes = int(loads.size_bytes.sum())
    if not total_bytes:
        return {"excess_topic": [None] * brokers, "ratio_without_topic": ratio}
    carried = np.bincount(loads.topic * brokers + place, loads.size_bytes, topics * brokers).reshape(topics, brokers)
    excess = carried - carried.sum(axis=1, keepdims=True) * fair
    added = np.divide(excess.max(axis=0), total_bytes * fair, out=np.zeros(brokers), where=fair > 0)
    names = [loads.topics[number][0] for number in excess.argmax(axis=0).tolist()]
    return {"excess_topic": names, "ratio_without_topic": ratio - np.maximum(added, 0.0)}


def measure_partition_columns(loads: WindowLoads) -> dict[str, Any]:
    whole = sum_leaders(loads)
    topic, sizes = whole.topic, whole.size_bytes.astype(np.float64)
    of_topic = _measure_topics(whole, sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        share, ratio = sizes / of_topic["total"][topic], sizes / of_topic["mean"][topic]
    heavy, luck, remainder, _ = split_excess(whole, fair_loads(whole))
    return {
        "topic": [whole.topics[place][0] for place in topic.tolist()],
        "topic_id": [whole.topics[place][1] for place in topic.tolist()],
        "partition": whole.partition,
        "leader_id": whole.leader_id,
        "size_bytes": whole.size_bytes,
        "record_count": whole.record_count,
        "batch_count": whole.batch_count,
        "topic_share": share,
        "ratio_to_mean": ratio,
        "topic_partition_count": of_topic["count"].astype(np.int64)[topic],
        "topic_peak_to_mean": of_topic["peak"][topic],
        "topic_cv": of_topic["cv"][topic],
        "topic_effective_partitions": of_topic["effective"][topic],
        "topic_chance_cv": of_topic["chance_cv"][topic],
        "excess_bytes": np.rint(sizes - of_topic["mean"][topic]).astype(np.int64),
        "heavy_keys_bytes": heavy,
        "hash_luck_bytes": luck,
        "remainder_bytes": remainder,
    }


def _measure_topics(whole: WindowLoads, sizes: Floats) -> dict[str, Floats]:
    topics, topic = len(whole.topics), whole.topic
    count = np.bincount(topic, minlength=topics).astype(np.float64)
    total = np.bincount(topic, sizes, topics)
    mean = total / np.maximum(count, 1)
    peak = np.zeros(topics)
    np.maximum.at(peak, topic, sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = np.sqrt(np.bincount(topic, (sizes - mean[topic]) ** 2, topics) / count) / mean
        units = total**2 / np.bincount(topic, whole.batch_bytes_squared, topics)
        chance_cv = np.sqrt((count - 1) / units)
        measured = {
            "peak": peak / mean,
            "cv": cv,
            "effective": count / (1 + cv**2),
            "chance_cv": np.where(np.isfinite(chance_cv), chance_cv, np.nan),
        }
    silent = total <= 0
    blanked = {name: np.where(silent, np.nan, values) for name, values in measured.items()}
    return {"count": count, "total": total, "mean": mean, **blanked}


def sum_leaders(loads: WindowLoads) -> WindowLoads:
    """One load per topic-partition, of the broker that leads it at the window's end (-1: none); all count as led."""
    places = loads.topic_partition
    count = int(places[-1]) + 1 if len(places) else 0
    first = np.searchsorted(places, np.arange(count))
    leader = np.full(count, -1, np.int64)
    leader[places[loads.is_leader]] = loads.leader_id[loads.is_leader]
    return replace(
        loads.take(first),
        leader_id=leader,
        size_bytes=sum_by(places, loads.size_bytes, count),
        record_count=sum_by(places, loads.record_count, count),
        batch_count=sum_by(places, loads.batch_count, count),
        batch_bytes_squared=np.bincount(places, loads.batch_bytes_squared, count).astype(np.float64),
        is_leader=np.ones(count, np.bool_),
    )
