"""One window's rows of `gold.broker_share` and `gold.partition_health`, and why a broker carries more than its share.

docs/MEASURES.md has the three terms of an excess. Over all brokers each sums to zero, unless a topic lost its last
leader within the window: its load then counts as skew. Skew is split again by what records are keyed by:

* heavy keys: a key holds more than 1/P of its topic, and no hash can spread it;
* hash luck: what chance does to that many light keys. With L of the topic's bytes it is cut at
  `z (L/P) sqrt((P - 1) / N_eff)`, N_eff the effective number of light keys and z the normal quantile that one of P
  partitions exceeds once in a thousand windows;
* the remainder: batching, a partitioner's defect, the feedback of slow brokers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from pipeline.arrays import Floats
from pipeline.measures import chance
from pipeline.measures.window_loads import Places, WindowLoads, expected_shares, sum_by

LUCK_LEVEL = 0.001  # chance that the luckiest of a topic's partitions goes beyond what is called hash luck
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
    nothing = np.full(count, np.nan)
    share = size_bytes / size_bytes.sum() if size_bytes.any() else nothing
    # one that is said to have been away stood as long as its load shows: records may bear times of after its end
    led = np.minimum(1.0, np.divide(share, expected_shares(weights)))
    parts = np.where(stays > 0, stays, np.where(size_bytes > 0, led, 0.0))
    if not parts.any():
        parts = np.ones(count)
    fair = np.zeros(count)
    fair[parts > 0] = expected_shares((np.array(weights) * parts)[parts > 0].tolist())
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
    brokers, total_bytes = len(fair), int(loads.size_bytes.sum())
    if not total_bytes:
        return {"excess_topic": [None] * brokers, "ratio_without_topic": ratio}
    # one that was made anew is one topic here: limits are by name
    names, numbers = np.unique([name for name, _ in loads.topics], return_inverse=True)
    spots = numbers[loads.topic] * brokers + place
    carried = np.bincount(spots, loads.size_bytes, len(names) * brokers).reshape(-1, brokers)
    excess = carried - carried.sum(axis=1, keepdims=True) * fair
    added = np.divide(excess.max(axis=0), total_bytes * fair, out=np.zeros(brokers), where=fair > 0)
    return {
        "excess_topic": names[excess.argmax(axis=0)].tolist(),
        "ratio_without_topic": ratio - np.maximum(added, 0.0),
    }


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Causes:
    """Terms of every broker's excess as parts of all bytes; the first three sum to it, the next three to the skew."""

    leaders: Floats  # from leading more partitions than its part of the capacity
    topic_mix: Floats  # from leading partitions of busier topics
    partition_skew: Floats  # from its partitions being hotter than their topics' mean
    heavy_keys: Floats  # of that, from keys that no hash can spread
    hash_luck: Floats  # of that, what chance does to that many keys
    remainder: Floats  # of that, the rest; all of it where the keys are not known
    light_keys: Floats  # bytes of light keys above an even spread, before luck is cut out of them
    luck_p_value: Floats  # chance that hashing the light keys gives a broker this much of them or more; 1 without any


def split_causes(loads: WindowLoads, broker: Places, expected_share: Floats) -> Causes | None:
    """The terms for every broker, the places of whom loads have; None where nothing is carried, or led at the end."""
    brokers, total = len(expected_share), float(loads.size_bytes.sum())
    led_count = int(loads.is_leader.sum())
    if total <= 0 or not led_count:
        return None
    fair_bytes = fair_loads(loads)

    def part_of_cluster(values: Floats) -> Floats:
        return np.bincount(broker, values, brokers) / total

    carried, even = part_of_cluster(loads.size_bytes.astype(np.float64)), part_of_cluster(fair_bytes)
    led = np.bincount(broker, loads.is_leader, brokers) / led_count
    heavy, luck, _, light = map(part_of_cluster, split_excess(loads, fair_bytes))
    return Causes(
        leaders=led - expected_share,
        topic_mix=even - led,
        partition_skew=carried - even,
        heavy_keys=heavy,
        hash_luck=luck,
        remainder=carried - even - heavy - luck,
        light_keys=light,
        luck_p_value=_luck_p_values(loads, broker, light * total, brokers),
    )


def _luck_p_values(loads: WindowLoads, broker: Places, light_bytes: Floats, brokers: int) -> Floats:
    """One-sided chance of each broker's light-key excess if every light key fell on any partition of its topic."""
    topics = len(loads.topics)
    of_topic = np.bincount(loads.topic, np.nan_to_num(loads.light_ratio) * loads.size_bytes, topics)
    units = np.where(loads.light_unit_count > 0, loads.light_unit_count, np.inf)
    led = np.bincount(loads.topic * brokers + broker, loads.is_leader, topics * brokers).reshape(topics, brokers)
    part = led / np.maximum(led.sum(axis=1, keepdims=True), 1)
    deviation = np.sqrt(((of_topic**2 / units)[:, None] * part * (1 - part)).sum(axis=0))
    pairs = zip(light_bytes.tolist(), deviation.tolist(), strict=True)
    return np.array([0.5 * math.erfc(excess / sd / math.sqrt(2)) if sd > 0 else 1.0 for excess, sd in pairs])


def fair_loads(loads: WindowLoads) -> Floats:
    """Bytes of each load if its topic were even over its led partitions: 0 where another broker leads at the end."""
    topics = len(loads.topics)
    led = np.maximum(np.bincount(loads.topic, loads.is_leader, topics), 1)
    mean = np.bincount(loads.topic, loads.size_bytes, topics) / led
    return mean[loads.topic] * loads.is_leader


def split_excess(loads: WindowLoads, fair_bytes: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Every load's bytes above `fair_loads`: heavy keys; light keys within chance; the rest; all light keys."""
    topics, is_known = len(loads.topics), ~np.isnan(loads.heavy_ratio)
    sizes = loads.size_bytes.astype(np.float64)
    led = loads.is_leader.astype(np.float64)
    led_of_topic = np.maximum(np.bincount(loads.topic, led, topics), 1)

    def above_mean(bytes_of_kind: Floats) -> Floats:
        mean = np.bincount(loads.topic, bytes_of_kind, topics) / led_of_topic
        return bytes_of_kind - mean[loads.topic] * led

    heavy = above_mean(np.where(is_known, loads.heavy_ratio, 0.0) * sizes)
    light_bytes = np.where(is_known, loads.light_ratio, 0.0) * sizes
    light = above_mean(light_bytes)
    luck = light * _part_within_chance(loads, light, light_bytes, led_of_topic)
    return heavy, luck, sizes - fair_bytes - heavy - luck, light


def _part_within_chance(loads: WindowLoads, light: Floats, light_bytes: Floats, led_of_topic: Floats) -> Floats:
    """Part of each partition's light-key excess that chance explains, 0..1; one for all loads of a partition."""
    if not len(light):
        return light
    places = loads.topic_partition
    excess = np.abs(np.bincount(places, light))
    topic = np.zeros(len(excess), np.int64)
    topic[places] = loads.topic
    of_topic = np.bincount(loads.topic, light_bytes, len(loads.topics)).astype(np.float64)
    # bytes above the mean up to which a topic's light keys may be luck
    units = np.where(loads.light_unit_count > 0, loads.light_unit_count, np.inf)  # NaN is not above 0
    quantiles = {count: NormalDist().inv_cdf(1 - LUCK_LEVEL / count) for count in np.unique(led_of_topic).tolist()}
    z = np.array([quantiles[count] for count in led_of_topic.tolist()])
    bound = (z * of_topic / led_of_topic * np.sqrt((led_of_topic - 1) / units))[topic]
    part = np.ones(len(excess))
    beyond = excess > bound
    part[beyond] = bound[beyond] / excess[beyond]
    return part[places]
